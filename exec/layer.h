// One decoder layer of GPT or Llama on a CPU: forward, gradient of the input, gradient of the
// weights. Without weights of its own; every call is told where they and the saved values lie.
//
// The residual stream holds local_tokens() rows. With sequence parallelism that is this member's
// share, gathered before each column-cut matrix and scattered behind each row-cut one (Korthikanti
// et al., arXiv:2205.05198, section 4.2.2); otherwise each member has all of it and the sums are
// reduced to all. Attention runs over the context-parallel group, see exec/ring_attention.h, the
// feed-forward may be a mixture of experts, see exec/expert_layer.h.
#ifndef MEGATWIN_EXEC_LAYER_H_
#define MEGATWIN_EXEC_LAYER_H_

#include <span>

#include "exec/expert_layer.h"
#include "exec/model_shape.h"
#include "exec/parameter_table.h"
#include "exec/rank_group.h"
#include "exec/ring_attention.h"
#include "exec/slice.h"

namespace megatwin::exec {

// Where a norm's input and statistics lie. `mean` is empty for RMSNorm.
struct NormPlaces {
  Slice x, mean, inverse;
};
NormPlaces take_norm(const ModelShape& shape, Layout& layout);

enum class FeedForward { Dense, Experts };

// What the forward pass keeps of one layer. The input of the layer is the x of the first norm.
struct LayerSaved {
  LayerSaved(const ModelShape& shape, FeedForward kind, Layout& layout);
  NormPlaces norm1;
  Slice n1;        // Normalised, all tokens.
  Slice qkv;       // After rotation.
  Slice out;       // Of the attention.
  Slice log_sums;  // Of the attention; empty when it runs again before its backward.
  NormPlaces norm2;
  Slice n2;           // All tokens; before experts the local ones.
  Slice up, product;  // `product` is what enters the down projection. Without experts.
  ExpertSaved experts;
};

// What the gradients of the weights need: copies of inputs, and gradients of outputs.
struct LayerGradientInput {
  LayerGradientInput(const ModelShape& shape, FeedForward kind, Layout& layout);
  NormPlaces norm1;
  Slice dn1, n1, dqkv, out, dout;
  NormPlaces norm2;
  Slice dn2, n2;
  Slice dup, product, ddown;  // Without experts.
  ExpertGradientInput experts;
};

// Weights and gradients are those of the layer's bundle.
struct LayerContext {
  const ModelShape& shape;
  const RankGroups& groups;
  const LayerPlaces& places;
  const ContextPositions& positions;
  FeedForward feed_forward = FeedForward::Dense;
};

// y = the layer of its input in `saved`. Gives the balancing loss of its experts, see
// exec/expert_layer.h.
struct LayerForward {
  std::span<const float> weights;
  double gradient_scale = 1;
  std::span<float> saved;  // The block of the chunk.
  const LayerSaved& at;
  std::span<float> workspace;
  std::span<float> y;
};
double layer_forward(const LayerContext& context, const LayerForward& arguments);
std::int64_t layer_forward_workspace(const ModelShape& shape, FeedForward kind);

// Turns the gradient of the output, in `gradient`, into that of the input, and fills `input`.
struct LayerBackwardInput {
  std::span<const float> weights;
  std::span<float> saved;
  const LayerSaved& at;
  std::span<float> input;
  const LayerGradientInput& input_at;
  std::span<float> workspace;
  std::span<float> gradient;
};
void layer_backward_input(const LayerContext& context, const LayerBackwardInput& arguments);
std::int64_t layer_backward_workspace(const ModelShape& shape, FeedForward kind);

// gradients += those of this layer. Needs no other rank.
struct LayerBackwardWeight {
  std::span<float> input;
  const LayerGradientInput& input_at;
  std::span<float> gradients;
};
void layer_backward_weight(const LayerContext& context, const LayerBackwardWeight& arguments);

// Shared with the ends of the model.

// whole = all tokens of the residual stream.
void gather_tokens(const ModelShape& shape, RankGroup& tensor, std::span<const float> local,
                   std::span<float> whole);
// local = this member's tokens of the sum of `partial` over the group. May change `partial`.
void reduce_tokens(const ModelShape& shape, RankGroup& tensor, std::span<float> partial,
                   std::span<float> local);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_LAYER_H_
