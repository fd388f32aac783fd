#include "exec/ring_attention.h"

#include <algorithm>

#include "exec/slice.h"
#include "kernels/reference_attention.h"

namespace megatwin::exec {

namespace reference = kernels::reference;

namespace {

reference::AttentionShape attention_shape(const ModelShape& shape) {
  return {.batch = shape.micro_batch,
          .sequence = shape.local_sequence(),
          .heads = shape.local_heads(),
          .kv_heads = shape.local_kv_heads(),
          .head_dim = shape.head_dim};
}

// Keys and values of the local tokens.
std::int64_t block_size(const ModelShape& shape) { return shape.tokens() * 2 * shape.key_width(); }

// Copies the keys and values out of the rows of qkv, or into them.
enum class Copying { OutOfRows, IntoRows };
template <class Row>
void copy_keys_values(const ModelShape& shape, std::span<Row> qkv, std::span<float> block,
                      Copying copying) {
  const auto width = static_cast<std::size_t>(2 * shape.key_width());
  const auto row_width = static_cast<std::size_t>(shape.qkv_width());
  const auto first = static_cast<std::size_t>(shape.query_width());
  for (std::size_t row = 0; row * width < block.size(); ++row) {
    const auto in_row = qkv.subspan(row * row_width + first, width);
    const auto in_block = block.subspan(row * width, width);
    if constexpr (!std::is_const_v<Row>) {
      if (copying == Copying::IntoRows) {
        std::copy(in_block.begin(), in_block.end(), in_row.begin());
        continue;
      }
    }
    std::copy(in_row.begin(), in_row.end(), in_block.begin());
  }
}

// To the next member, from the one before.
void pass_on(RankGroup& group, std::span<const float> send, std::span<float> receive) {
  const auto size = static_cast<std::size_t>(group.size());
  const auto member = static_cast<std::size_t>(group.member());
  std::vector<std::int64_t> send_sizes(size, 0);
  std::vector<std::int64_t> receive_sizes(size, 0);
  send_sizes[(member + 1) % size] = std::ssize(send);
  receive_sizes[(member + size - 1) % size] = std::ssize(receive);
  group.all_to_all({send, send_sizes, receive, receive_sizes});
}

// Whose block is here after so many steps.
std::size_t source_of(const RankGroup& group, int step) {
  return static_cast<std::size_t>((group.member() + group.size() - step) % group.size());
}

}  // namespace

ContextPositions context_positions(const ModelShape& shape) {
  ContextPositions positions;
  for (int member = 0; member < shape.context; ++member) {
    positions.push_back(local_positions(shape, member));
  }
  return positions;
}

std::int64_t ring_forward_workspace(const ModelShape& shape) {
  return shape.context == 1 ? 0 : 2 * block_size(shape);
}

void ring_forward(const RingContext& context, const RingForward& arguments) {
  const ModelShape& shape = context.shape;
  RankGroup& group = context.group;
  if (group.size() == 1) {
    reference::attention_forward<float>(
        {attention_shape(shape), arguments.qkv, arguments.out, arguments.log_sums});
    return;
  }
  Workspace workspace(arguments.workspace);
  std::span<float> here = workspace.take(block_size(shape));
  std::span<float> coming = workspace.take(block_size(shape));
  copy_keys_values(shape, arguments.qkv, here, Copying::OutOfRows);
  const auto member = static_cast<std::size_t>(group.member());
  for (int step = 0; step < group.size(); ++step) {
    reference::ring_attention_forward<float>(
        {.shape = attention_shape(shape),
         .positions = {context.positions[member], context.positions[source_of(group, step)]},
         .first = step == 0,
         .qkv = arguments.qkv,
         .keys_values = here,
         .out = arguments.out,
         .log_sums = arguments.log_sums});
    if (step + 1 < group.size()) {
      pass_on(group, here, coming);
      std::swap(here, coming);
    }
  }
}

std::int64_t ring_backward_workspace(const ModelShape& shape) {
  return shape.context == 1 ? 0 : 4 * block_size(shape);
}

void ring_backward(const RingContext& context, const RingBackward& arguments) {
  const ModelShape& shape = context.shape;
  RankGroup& group = context.group;
  if (group.size() == 1) {
    reference::attention_backward<float>({.shape = attention_shape(shape),
                                          .qkv = arguments.qkv,
                                          .out = arguments.out,
                                          .log_sums = arguments.log_sums,
                                          .dout = arguments.dout,
                                          .dqkv = arguments.dqkv});
    return;
  }
  // A block and the gradient that it has gathered so far, side by side.
  Workspace workspace(arguments.workspace);
  std::span<float> here = workspace.take(2 * block_size(shape));
  std::span<float> coming = workspace.take(2 * block_size(shape));
  const auto size = static_cast<std::size_t>(block_size(shape));
  std::fill(here.begin(), here.end(), 0.0F);
  std::fill(arguments.dqkv.begin(), arguments.dqkv.end(), 0.0F);
  copy_keys_values(shape, arguments.qkv, here.first(size), Copying::OutOfRows);
  const auto member = static_cast<std::size_t>(group.member());
  for (int step = 0; step < group.size(); ++step) {
    reference::ring_attention_backward<float>(
        {.shape = attention_shape(shape),
         .positions = {context.positions[member], context.positions[source_of(group, step)]},
         .qkv = arguments.qkv,
         .keys_values = here.first(size),
         .out = arguments.out,
         .log_sums = arguments.log_sums,
         .dout = arguments.dout,
         .dqkv = arguments.dqkv,
         .dkeys_values = here.subspan(size)});
    pass_on(group, here, coming);
    std::swap(here, coming);
  }
  copy_keys_values(shape, arguments.dqkv, here.subspan(size), Copying::IntoRows);
}

void rotate(const RingContext& context, std::span<float> qkv, Turn turn) {
  reference::rotary<float>(
      {.shape = attention_shape(context.shape),
       .qkv = qkv,
       .direction = turn == Turn::Forward ? reference::RotaryDirection::Forward
                                          : reference::RotaryDirection::Inverse,
       .positions = context.positions[static_cast<std::size_t>(context.group.member())]});
}

}  // namespace megatwin::exec
