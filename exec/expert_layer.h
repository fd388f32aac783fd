// The feed-forward of a layer with experts on a CPU: router, dispatch, the local experts one after
// the other, and the weighted sum of what comes back. Same conventions as exec/layer.h; works on
// the local tokens of the residual stream, so under tensor parallelism it needs sequence
// parallelism. Every rank and the single one drop the same assignments, since the capacity counts
// over the whole micro-batch.
#ifndef MEGATWIN_EXEC_EXPERT_LAYER_H_
#define MEGATWIN_EXEC_EXPERT_LAYER_H_

#include <cstdint>
#include <span>

#include "exec/model_shape.h"
#include "exec/parameter_table.h"
#include "exec/rank_group.h"
#include "exec/ring_attention.h"
#include "exec/slice.h"

namespace megatwin::exec {

struct ExpertContext {
  const ModelShape& shape;
  const RankGroups& groups;
  const LayerPlaces& places;
  const ContextPositions& positions;
};

// What the forward pass keeps besides the tokens themselves.
struct ExpertSaved {
  ExpertSaved() = default;
  ExpertSaved(const ModelShape& shape, Layout& layout);
  Slice probabilities;  // (tokens, experts).
  Slice choices;        // (tokens, k): the expert e, or -1 - e when it was dropped.
  Slice weights;        // (tokens, k).
  Slice slopes;         // (experts): of the balancing loss in the probability of each token.
  Slice outputs;        // (tokens, k, hidden): of the experts.
  Slice rows;           // Of tokens that came to the local experts, by expert.
  Slice up, product;    // Of the local experts.
};

// What the gradients of the weights need besides the tokens.
struct ExpertGradientInput {
  ExpertGradientInput() = default;
  ExpertGradientInput(const ModelShape& shape, Layout& layout);
  Slice dlogits;
  Slice counts;  // Rows of each local expert.
  Slice rows, dup, product, ddown;
};

// y = the weighted sum of the experts of each token in x; both (local tokens, hidden).
struct ExpertForward {
  std::span<const float> weights;
  double gradient_scale = 1;
  std::span<const float> x;
  std::span<float> saved;
  const ExpertSaved& at;
  std::span<float> workspace;
  std::span<float> y;
};
// Gives the balancing loss of the local tokens: its sum over the ranks of a micro-batch is that of
// the micro-batch.
double expert_forward(const ExpertContext& context, const ExpertForward& arguments);
std::int64_t expert_forward_workspace(const ModelShape& shape);

// dx = the gradient of x from dy, overwritten; fills `input`.
struct ExpertBackwardInput {
  std::span<const float> weights;
  std::span<const float> dy;
  std::span<float> saved;
  const ExpertSaved& at;
  std::span<float> input;
  const ExpertGradientInput& input_at;
  std::span<float> workspace;
  std::span<float> dx;
};
void expert_backward_input(const ExpertContext& context, const ExpertBackwardInput& arguments);
std::int64_t expert_backward_workspace(const ModelShape& shape);

// gradients += those of router and experts.
struct ExpertBackwardWeight {
  std::span<const float> x;
  std::span<float> input;
  const ExpertGradientInput& input_at;
  std::span<float> gradients;
};
void expert_backward_weight(const ExpertContext& context, const ExpertBackwardWeight& arguments);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_EXPERT_LAYER_H_
