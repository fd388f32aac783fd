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

void SavedParts::add_layer(const std::string& name, const LayerSaved& at) {
  MEGATWIN_ASSERT(at.product.size > 0, name, " has experts");
  const std::int64_t queries = shape_.heads * shape_.head_dim;
  const std::int64_t keys = shape_.kv_heads * shape_.head_dim;
  add_norm(name + ".norm1", at.norm1);
  add_copy(name + ".n1", at.n1, shape_.hidden);
  add_columns(name + ".qkv", at.qkv, {queries, keys, keys});
  add_columns(name + ".out", at.out, {queries});
  add_columns(name + ".log_sums", at.log_sums, {shape_.heads});
  add_norm(name + ".norm2", at.norm2);
  add_copy(name + ".n2", at.n2, shape_.hidden);
  if (shape_.gated) {
    add_columns(name + ".up", at.up, {shape_.ffn, shape_.ffn});
  } else {
    add_columns(name + ".up", at.up, {shape_.ffn});
  }
  add_columns(name + ".product", at.product, {shape_.ffn});
}

void SavedParts::add_head(const HeadSaved& at) {
  add_norm("head.norm", at.norm);
  add_copy("head.n", at.n, shape_.hidden);
  add_columns("head.dlogits", at.dlogits, {shape_.vocab});
}

std::vector<HeldPart> stage_message_parts(const ModelShape& shape, int tensor_member) {
  SavedParts parts(shape, tensor_member);
  parts.add_residual("message", {0, shape.message_size()});
  return parts.take();
}

}  // namespace megatwin::exec
