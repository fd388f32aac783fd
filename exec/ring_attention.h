// Attention of one layer over a context-parallel group: keys and values travel round the ring of
// its members, each of whom attends to a block at a time; in the backward pass their gradients
// travel along and come home after one round. A rank that is alone attends to all at once.
#ifndef MEGATWIN_EXEC_RING_ATTENTION_H_
#define MEGATWIN_EXEC_RING_ATTENTION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "exec/model_shape.h"
#include "exec/rank_group.h"

namespace megatwin::exec {

// Of the local tokens of a sequence, by context-parallel member.
using ContextPositions = std::vector<std::vector<std::int64_t>>;
ContextPositions context_positions(const ModelShape& shape);

struct RingContext {
  const ModelShape& shape;
  RankGroup& group;
  const ContextPositions& positions;
};

// qkv after rotation; all of it as in kernels/reference_attention.h, of the local tokens.
struct RingForward {
  std::span<const float> qkv;
  std::span<float> out, log_sums;
  std::span<float> workspace;
};
void ring_forward(const RingContext& context, const RingForward& arguments);
std::int64_t ring_forward_workspace(const ModelShape& shape);

// dqkv is overwritten.
struct RingBackward {
  std::span<const float> qkv, out, log_sums, dout;
  std::span<float> dqkv;
  std::span<float> workspace;
};
void ring_backward(const RingContext& context, const RingBackward& arguments);
std::int64_t ring_backward_workspace(const ModelShape& shape);

// Turns queries and keys by their positions, or back.
enum class Turn { Forward, Back };
void rotate(const RingContext& context, std::span<float> qkv, Turn turn);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_RING_ATTENTION_H_
