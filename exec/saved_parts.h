// How the members of a tensor-parallel group share what a forward keeps, what the gradients of the
// weights need and what crosses between stages: along the sequence under sequence parallelism,
// along heads, widths and vocabulary as their matrices are cut, or not at all.
#ifndef MEGATWIN_EXEC_SAVED_PARTS_H_
#define MEGATWIN_EXEC_SAVED_PARTS_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "exec/layer.h"
#include "exec/model_ends.h"
#include "exec/model_shape.h"
#include "exec/reshard.h"

namespace megatwin::exec {

// Collects the parts of one buffer of one member, with the places that they have there.
class SavedParts {
 public:
  // The shape is borrowed.
  SavedParts(const ModelShape& shape, int tensor_member)
      : shape_(shape), shares_{shape.tensor, tensor_member} {}

  // Numbers of the residual stream, (local tokens, hidden).
  void add_residual(const std::string& name, const Slice& place) {
    add_tokens(name, place, shape_.hidden);
  }
  // (tokens, hidden), the same at all members.
  void add_whole_residual(const std::string& name, const Slice& place) {
    add_copy(name, place, shape_.hidden);
  }
  // Requires: a dense layer.
  void add_layer(const std::string& name, const LayerSaved& at);
  void add_layer(const std::string& name, const LayerGradientInput& at);
  void add_head(const HeadSaved& at);
  void add_head(const HeadGradientInput& at);

  std::vector<HeldPart> take() { return std::move(parts_); }

 private:
  void add_norm(const std::string& name, const NormPlaces& at);
  void add_qkv(const std::string& name, const Slice& place);
  void add_up(const std::string& name, const Slice& place);
  // (local tokens, columns).
  void add_tokens(const std::string& name, const Slice& place, std::int64_t columns);
  // (tokens, columns), the same at all members.
  void add_copy(const std::string& name, const Slice& place, std::int64_t columns);
  // (tokens, …): side by side the local columns of each of so many in all.
  void add_columns(const std::string& name, const Slice& place,
                   std::initializer_list<std::int64_t> columns_total);
  void add(const std::string& name, const MatrixPart& part, std::int64_t at, std::int64_t stride) {
    parts_.push_back({name, part, {0, part.size()}, at, stride});
  }

  const ModelShape& shape_;
  Shares shares_;
  std::vector<HeldPart> parts_;
};

// Of the message between two stages.
std::vector<HeldPart> stage_message_parts(const ModelShape& shape, int tensor_member);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_SAVED_PARTS_H_
