#include "exec/saved_parts.h"

#include "model/assert.h"

namespace megatwin::exec {

void SavedParts::add_tokens(const std::string& name, const Slice& place, std::int64_t columns) {
  if (place.size == 0) return;
  const MatrixPart part =
      part_of(shares_, shape_.tokens(), columns, shape_.sequence_parallel ? Cut::Rows : Cut::None);
  MEGATWIN_ASSERT(part.size() == place.size, name, " has ", place.size);
  add(name, part, place.offset, columns);
}

void SavedParts::add_copy(const std::string& name, const Slice& place, std::int64_t columns) {
  const MatrixPart part = part_of(shares_, shape_.tokens(), columns, Cut::None);
  MEGATWIN_ASSERT(part.size() == place.size, name, " has ", place.size);
  add(name, part, place.offset, columns);
}

void SavedParts::add_columns(const std::string& name, const Slice& place,
                             std::initializer_list<std::int64_t> columns_total) {
  if (place.size == 0) return;
  std::int64_t stride = 0;
  for (const std::int64_t columns : columns_total) stride += columns / shape_.tensor;
  MEGATWIN_ASSERT(shape_.tokens() * stride == place.size, name, " has ", place.size);
  std::int64_t first = 0;
  int index = 0;
  for (const std::int64_t columns : columns_total) {
    const MatrixPart part = part_of(shares_, shape_.tokens(), columns, Cut::Columns);
    add(name + "." + std::to_string(index++), part, place.offset + first, stride);
    first += part.columns;
  }
}

void SavedParts::add_norm(const std::string& name, const NormPlaces& at) {
  add_residual(name + ".x", at.x);
  add_tokens(name + ".mean", at.mean, 1);
  add_tokens(name + ".inverse", at.inverse, 1);
}

void SavedParts::add_qkv(const std::string& name, const Slice& place) {
  const std::int64_t queries = shape_.heads * shape_.head_dim;
  const std::int64_t keys = shape_.kv_heads * shape_.head_dim;
  add_columns(name, place, {queries, keys, keys});
}

void SavedParts::add_up(const std::string& name, const Slice& place) {
  if (shape_.gated) {
    add_columns(name, place, {shape_.ffn, shape_.ffn});
  } else {
    add_columns(name, place, {shape_.ffn});
  }
}

void SavedParts::add_layer(const std::string& name, const LayerSaved& at) {
  MEGATWIN_ASSERT(at.product.size > 0, name, " has experts");
  add_norm(name + ".norm1", at.norm1);
  add_whole_residual(name + ".n1", at.n1);
  add_qkv(name + ".qkv", at.qkv);
  add_columns(name + ".out", at.out, {shape_.heads * shape_.head_dim});
  add_columns(name + ".log_sums", at.log_sums, {shape_.heads});
  add_norm(name + ".norm2", at.norm2);
  add_whole_residual(name + ".n2", at.n2);
  add_up(name + ".up", at.up);
  add_columns(name + ".product", at.product, {shape_.ffn});
}

void SavedParts::add_layer(const std::string& name, const LayerGradientInput& at) {
  MEGATWIN_ASSERT(at.product.size > 0, name, " has experts");
  add_norm(name + ".norm1", at.norm1);
  add_residual(name + ".dn1", at.dn1);
  add_whole_residual(name + ".n1", at.n1);
  add_qkv(name + ".dqkv", at.dqkv);
  add_columns(name + ".out", at.out, {shape_.heads * shape_.head_dim});
  add_whole_residual(name + ".dout", at.dout);
  add_norm(name + ".norm2", at.norm2);
  add_residual(name + ".dn2", at.dn2);
  add_whole_residual(name + ".n2", at.n2);
  add_up(name + ".dup", at.dup);
  add_columns(name + ".product", at.product, {shape_.ffn});
  add_whole_residual(name + ".ddown", at.ddown);
}

void SavedParts::add_head(const HeadSaved& at) {
  add_norm("head.norm", at.norm);
  add_whole_residual("head.n", at.n);
  add_columns("head.dlogits", at.dlogits, {shape_.vocab});
}

void SavedParts::add_head(const HeadGradientInput& at) {
  add_norm("head.norm", at.norm);
  add_residual("head.dn", at.dn);
  add_whole_residual("head.n", at.n);
  add_columns("head.dlogits", at.dlogits, {shape_.vocab});
}

std::vector<HeldPart> stage_message_parts(const ModelShape& shape, int tensor_member) {
  SavedParts parts(shape, tensor_member);
  parts.add_residual("message", {0, shape.message_size()});
  return parts.take();
}

}  // namespace megatwin::exec
