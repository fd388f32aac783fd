// The mixture-of-experts feed-forward: router, dispatch, grouped products, combine.
#include <algorithm>
#include <cmath>

#include "model/expert_imbalance.h"
#include "model/numbers.h"
#include "model/program/linear_layers.h"
#include "model/program/op_list.h"

namespace megatwin::model {
namespace {

struct MoeSizes {
  std::int64_t tokens;  // Tokens that this rank routes.
  std::int64_t rows;    // Token copies its experts receive, over its expert-tensor group.
  std::int64_t local_experts;
  std::int64_t ffn;          // Of one expert on this rank.
  FeedForwardLayers layers;  // Of one expert.
};

// Without sequence parallelism the tensor ranks hold equal tokens.
bool holds_tokens_of_its_own(const LayerSizes& sizes) {
  return sizes.sequence_parallel || sizes.tensor == 1;
}

MoeSizes moe_sizes(const LoweringInput& input, const LayerSizes& sizes) {
  MoeSizes moe{};
  moe.tokens = sizes.tokens_sp;
  moe.local_experts = local_experts(input, sizes);
  moe.rows = static_cast<std::int64_t>(std::llround(expert_rows(input, sizes)));
  moe.layers = expert_layers(input, sizes);
  moe.ffn = moe.layers.fc2.inputs;
  return moe;
}

// A product of all experts of the rank.
GemmShape expert_product(const LoweringInput& input, const MoeSizes& moe, const LinearLayer& layer,
                         GemmLayout layout) {
  const std::int64_t rows = std::max<std::int64_t>(1, moe.rows / moe.local_experts);
  GemmShape shape = layout == GemmLayout::Forward ? linear_forward(input, rows, layer)
                    : layout == GemmLayout::DataGradient
                        ? linear_data_gradient(input, rows, layer)
                        : linear_weight_gradient(input, rows, layer);
  shape.batch = moe.local_experts;
  shape.grouped = true;
  return shape;
}

// Rows and weights of every expert are an operand of their own. Delayed scaling casts them in one
// kernel, the other recipes one by one. Source: Transformer Engine, csrc/extensions/cast.cpp,
// split_quantize.
void quantise_groups(const LayerSizes& sizes, const MoeSizes& moe, OpList& ops,
                     std::string_view name, std::int64_t elements, OperandRole role) {
  if (elements == 0) return;
  quantise(sizes, ops, name, elements, role);
  const Quantisation& recipe = sizes.quantisation;
  if (recipe.norm_casts) return;
  const int reads = role == OperandRole::Weight ? recipe.weight_reads : recipe.reads;
  ops.kernels(reads * moe.local_experts);
  ops.host_launches(reads);  // The loop over experts is the library's.
}

void quantise_groups_again(const LayerSizes& sizes, const MoeSizes& moe, OpList& ops,
                           std::string_view name, std::int64_t elements) {
  if (!sizes.quantisation.casts_again || elements == 0) return;
  quantise_groups(sizes, moe, ops, name, elements, OperandRole::Input);
  ops.mark_weight_gradient();
}

void quantise_expert_weights(const LayerSizes& sizes, const MoeSizes& moe, OpList& ops) {
  if (sizes.quantisation.keeps_weights) return;
  quantise_groups(sizes, moe, ops, "weights.cast",
                  moe.local_experts * quantised_weights(sizes, moe.layers), OperandRole::Weight);
}

// Bytes of the all-to-all over those of one copy a token and expert. DeepEP sends a token once to
// each place that has one of its experts, and what it dispatches may be fp8. Places are ranks
// inside a machine, and machines of eight ranks (DeepEP's NUM_MAX_NVL_PEERS) beyond one, where
// NVLink forwards; a router may limit them. Of n places k random experts meet n·(1 − (1 − 1/n)^k).
// Source: DeepSeek-V3, arXiv:2412.19437, section 3.2.2.
double sent_share(const LoweringInput& input, const LayerSizes& sizes, bool to_experts) {
  if (input.plan.dispatcher != ExpertDispatcher::DeepEp) return 1;
  constexpr int kRanksOfAMachine = 8;
  const MixtureOfExperts& experts = *input.transformer.experts;
  const double top_k = as_double(experts.experts_per_token);
  const bool leaves = sizes.expert > kRanksOfAMachine;
  const double places = leaves ? sizes.expert / kRanksOfAMachine : sizes.expert;
  double met = places * (1 - std::pow(1 - 1 / places, top_k));
  if (leaves && experts.group_limit > 0) met = std::min(met, as_double(experts.group_limit));
  const double copies = met / top_k;
  // Scales travel beside, a hundredth.
  const bool quantised = to_experts && sizes.quantises(expert_layers(input, sizes).fc1);
  return copies * (quantised ? 1 / sizes.element : 1.0);
}

// Megatron's all-gather dispatcher: every rank of the expert group gets all tokens of the group,
// picks those of its experts, and a reduce-scatter adds up what the experts return.
bool gathers_all_tokens(const LoweringInput& input, const LayerSizes& sizes) {
  return sizes.expert > 1 && input.plan.dispatcher == ExpertDispatcher::AllGather;
}

// How many times the mean the busiest rank of an expert group gets; a search varies the ranks of
// the group: fewer of them cannot differ as much.
double busiest_load(const LoweringInput& input) {
  return std::min(input.plan.expert_capacity_imbalance,
                  expert_imbalance_max(*input.transformer.experts, input.plan.expert));
}

double tokens_of_group(const LayerSizes& sizes, const MoeSizes& moe) {
  return as_double(sizes.expert * moe.tokens) * as_double(sizes.hidden) * sizes.element;
}

void dispatch(const LoweringInput& input, const LayerSizes& sizes, const MoeSizes& moe, OpList& ops,
              bool forward_name) {
  const double h = as_double(sizes.hidden);
  const double copies =
      as_double(moe.tokens * input.transformer.experts->experts_per_token) * h * sizes.element;
  const bool gathers = gathers_all_tokens(input, sizes);
  if (gathers) {
    ops.collective(forward_name ? "moe.all_gather" : "moe.all_gather.backward",
                   CollectiveKind::AllGather, GroupKind::Expert, tokens_of_group(sizes, moe));
  }
  ops.memory(forward_name ? "moe.permute" : "moe.permute.backward", copies, copies, 2);
  if (sizes.expert > 1 && !gathers) {
    ops.collective(forward_name ? "moe.all_to_all" : "moe.all_to_all.backward",
                   CollectiveKind::AllToAll, GroupKind::Expert,
                   busiest_load(input) * sent_share(input, sizes, forward_name) * copies);
  }
  const double rows = as_double(moe.rows) * h * sizes.element;
  if (sizes.expert_tensor > 1 && holds_tokens_of_its_own(sizes)) {
    ops.collective(forward_name ? "moe.gather" : "moe.gather.backward", CollectiveKind::AllGather,
                   GroupKind::ExpertTensor, rows);
  }
  if (moe.local_experts > 1 && sizes.expert > 1) {
    ops.memory(forward_name ? "moe.sort" : "moe.sort.backward", rows, rows, 1);
  }
}

void combine(const LoweringInput& input, const LayerSizes& sizes, const MoeSizes& moe, OpList& ops,
             bool forward_name) {
  const double h = as_double(sizes.hidden);
  const double rows = as_double(moe.rows) * h * sizes.element;
  const double copies =
      as_double(moe.tokens * input.transformer.experts->experts_per_token) * h * sizes.element;
  if (moe.local_experts > 1 && sizes.expert > 1) {
    ops.memory(forward_name ? "moe.unsort" : "moe.unsort.backward", rows, rows, 1);
  }
  if (sizes.expert_tensor > 1) {
    ops.collective(
        forward_name ? "moe.reduce" : "moe.reduce.backward",
        holds_tokens_of_its_own(sizes) ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce,
        GroupKind::ExpertTensor, rows);
  }
  const bool gathers = gathers_all_tokens(input, sizes);
  if (sizes.expert > 1 && !gathers) {
    ops.collective(forward_name ? "moe.all_to_all.return" : "moe.all_to_all.return.backward",
                   CollectiveKind::AllToAll, GroupKind::Expert,
                   busiest_load(input) * sent_share(input, sizes, false) * copies);
  }
  const double result =
      gathers ? tokens_of_group(sizes, moe) : as_double(moe.tokens) * h * sizes.element;
  ops.memory(forward_name ? "moe.unpermute" : "moe.unpermute.backward", copies, result, 2);
  if (gathers) {
    ops.collective(forward_name ? "moe.reduce_scatter" : "moe.reduce_scatter.backward",
                   CollectiveKind::ReduceScatter, GroupKind::Expert, result);
  }
}

void router(const LoweringInput& input, const LayerSizes& sizes, const MoeSizes& moe,
            OpList& forward, OpList& backward) {
  const std::int64_t E = input.transformer.experts->num_experts;
  const DataType type = base_type(input.plan.precision);
  forward.gemm("router", {.m = moe.tokens, .n = E, .k = sizes.hidden, .type = type});
  // Softmax or sigmoid, top-k, counts, auxiliary loss: small fp32 kernels over (tokens, experts).
  const double scores = 4 * as_double(moe.tokens * E);
  forward.memory("router.top_k", 5 * scores, 3 * scores, 12);
  backward.memory("router.top_k.backward", 4 * scores, 3 * scores, 8);
  backward.gemm("router.dgrad", {.m = moe.tokens,
                                 .n = sizes.hidden,
                                 .k = E,
                                 .type = type,
                                 .layout = GemmLayout::DataGradient});
  backward.gemm("router.wgrad", {.m = E,
                                 .n = sizes.hidden,
                                 .k = moe.tokens,
                                 .type = type,
                                 .layout = GemmLayout::WeightGradient});
}

// Single operators before the fused activation, which keeps their result. Forward: a clamp for each
// half, then both in one tensor. Backward, for the half with one limit a comparison and a choice,
// for the one with two limits two comparisons, their conjunction and a choice, over masks of one
// byte; then both halves in one tensor. Sources: Megatron-LM,
// megatron/core/fusions/fused_bias_geglu.py, weighted_bias_quick_geglu_impl; PyTorch,
// FunctionsManual.cpp, clamp_backward.
void clamp(const LayerSizes& sizes, const MoeSizes& moe, OpList& forward, OpList& backward) {
  const double e = sizes.element;
  const double half = as_double(moe.rows * moe.layers.fc1.outputs) / 2;
  forward.memory("moe.activation.clamp", (2 + 2) * e * half, (2 + 2) * e * half, 3);
  const double one_limit_read = e + (1 + e), one_limit_written = 1 + e;
  const double two_limits_read = 2 * e + 2 + (1 + e), two_limits_written = 2 + 1 + e;
  backward.memory("moe.activation.clamp.backward",
                  (one_limit_read + two_limits_read + 2 * e) * half,
                  (one_limit_written + two_limits_written + 2 * e) * half, 2 + 4 + 1);
}

void expert_activation(const LoweringInput& input, const LayerSizes& sizes, const MoeSizes& moe,
                       OpList& forward, OpList& backward) {
  const double x = as_double(moe.rows * moe.ffn);
  const bool gated = is_gated(input.transformer.activation);
  const bool clamps = clamps_experts_apart(input);
  OpList unclamped(forward.count());
  if (clamps) clamp(sizes, moe, forward, unclamped);
  forward.memory("moe.activation", (gated ? 4 : 2) * x, 2 * x);
  backward.memory("moe.activation.backward", (gated ? 6 : 4) * x, (gated ? 4 : 2) * x);
  backward.add_all(unclamped.take());
}

// The bias behind the second product; that of the first is part of its product. Megatron-LM adds it
// expert by expert, weighed by the router's fp32 probabilities, so that product, sum and
// concatenation are fp32 tensors; on the way back the gradients of the sum, of the bias (a product,
// a sum, a cast) and of the probabilities (a product, a sum), expert by expert. Others add it in
// one pass. Source: Megatron-LM, megatron/core/transformer/moe/experts.py,
// TEGroupedMLP._apply_bias.
void expert_bias(const LoweringInput& input, const LayerSizes& sizes, const MoeSizes& moe,
                 OpList& forward, OpList& backward) {
  if (!input.transformer.experts->expert_bias) return;
  const double y = as_double(moe.rows * sizes.hidden);
  const double e = sizes.element;
  constexpr double kFp32 = 4;
  if (input.software.framework != Framework::MegatronCore) {
    forward.memory("moe.bias", e * y, e * y);
    backward.memory("moe.bias.backward", e * y, 0);
    return;
  }
  const int experts = static_cast<int>(moe.local_experts);
  forward.memory("moe.bias", (e + 3 * kFp32) * y, (3 * kFp32 + e) * y, 2 * experts + 2);
  backward.memory("moe.bias.backward", (2 * e + 5 * kFp32) * y, (2 * e + 3 * kFp32) * y,
                  6 * experts + 3);
}

// The shared expert: a dense feed-forward over all tokens, cut by the tensor group.
void shared_expert(const LoweringInput& input, const LayerSizes& sizes, OpList& forward,
                   OpList& backward) {
  const std::int64_t T = sizes.tokens, h = sizes.hidden;
  const FeedForwardLayers layers = shared_expert_layers(input, sizes);
  const LinearLayer &fc1 = layers.fc1, &fc2 = layers.fc2;
  const std::int64_t inner = T * fc2.inputs, weights = quantised_weights(sizes, layers);
  const double x = as_double(inner);
  // The norm before it serves the router, too, and puts out 16 bits.
  quantise_shard(sizes, forward, "shared.fc1.cast", sizes.quantised(fc1, sizes.tokens_sp * h),
                 OperandRole::Input);
  forward.gemm("shared.fc1", linear_forward(input, T, fc1));
  forward.memory("shared.activation", 4 * x, 2 * x);
  quantise(sizes, forward, "shared.fc2.cast", sizes.quantised(fc2, inner), OperandRole::Input);
  quantise_weights(sizes, forward, weights);
  forward.gemm("shared.fc2", linear_forward(input, T, fc2));
  quantise(sizes, backward, "shared.fc2.cast.backward", sizes.quantised(fc2, T * h),
           OperandRole::Gradient);
  backward.gemm("shared.fc2.dgrad", linear_data_gradient(input, T, fc2));
  quantise_again(sizes, backward, "shared.fc2.cast.input", sizes.quantised(fc2, inner));
  backward.gemm("shared.fc2.wgrad", linear_weight_gradient(input, T, fc2));
  backward.memory("shared.activation.backward", 6 * x, 4 * x);
  quantise(sizes, backward, "shared.fc1.cast.backward", sizes.quantised(fc1, T * fc1.outputs),
           OperandRole::Gradient);
  quantise_again(sizes, backward, "shared.fc1.cast.input", sizes.quantised(fc1, T * h));
  quantise_weights(sizes, backward, weights);
  backward.gemm("shared.fc1.dgrad", linear_data_gradient(input, T, fc1));
  backward.gemm("shared.fc1.wgrad", linear_weight_gradient(input, T, fc1));
}

}  // namespace

bool clamps_experts_apart(const LoweringInput& input) {
  return input.transformer.experts->clamped_activation &&
         input.software.framework == Framework::MegatronCore;
}

double expert_rows(const LoweringInput& input, const LayerSizes& sizes) {
  const MixtureOfExperts& experts = *input.transformer.experts;
  // Tokens of the expert-tensor group meet on each of its members.
  const double copies = as_double(sizes.tokens_sp * experts.experts_per_token) *
                        sizes.expert_tensor * busiest_load(input);
  return holds_tokens_of_its_own(sizes) ? copies : copies / sizes.tensor;
}

void lower_moe_ffn(const LoweringInput& input, const LayerSizes& sizes, OpList& forward,
                   OpList& backward) {
  const MoeSizes moe = moe_sizes(input, sizes);
  const LinearLayer &fc1 = moe.layers.fc1, &fc2 = moe.layers.fc2;
  const std::int64_t h = sizes.hidden;
  const std::int64_t fc1_inputs = sizes.quantised(fc1, moe.rows * h);
  const std::int64_t fc2_inputs = sizes.quantised(fc2, moe.rows * moe.ffn);
  const double x = as_double(sizes.tokens_sp * h) * sizes.element;

  forward.memory("norm2", x, x);
  OpList router_backward(forward.count());
  router(input, sizes, moe, forward, router_backward);
  dispatch(input, sizes, moe, forward, true);
  quantise_groups(sizes, moe, forward, "moe.fc1.cast", fc1_inputs, OperandRole::Input);
  forward.gemm("moe.fc1", expert_product(input, moe, fc1, GemmLayout::Forward));
  forward.host_launches(moe.local_experts);
  OpList activation_backward(forward.count());
  expert_activation(input, sizes, moe, forward, activation_backward);
  quantise_groups(sizes, moe, forward, "moe.fc2.cast", fc2_inputs, OperandRole::Input);
  quantise_expert_weights(sizes, moe, forward);
  forward.gemm("moe.fc2", expert_product(input, moe, fc2, GemmLayout::Forward));
  forward.host_launches(moe.local_experts);
  OpList bias_backward(forward.count());
  expert_bias(input, sizes, moe, forward, bias_backward);
  combine(input, sizes, moe, forward, true);
  OpList shared_backward(forward.count());
  if (input.transformer.experts->shared_expert_ffn_size > 0) {
    shared_expert(input, sizes, forward, shared_backward);
  }
  forward.memory("residual2", 2 * x, x);

  backward.memory("residual2.backward", 2 * x, x);
  backward.add_all(shared_backward.take());
  // The way back mirrors the way there: the combine's gradient is a dispatch and vice versa.
  dispatch(input, sizes, moe, backward, false);
  backward.add_all(bias_backward.take());
  quantise_groups(sizes, moe, backward, "moe.fc2.cast.backward", sizes.quantised(fc2, moe.rows * h),
                  OperandRole::Gradient);
  backward.gemm("moe.fc2.dgrad", expert_product(input, moe, fc2, GemmLayout::DataGradient));
  backward.host_launches(moe.local_experts);
  quantise_groups_again(sizes, moe, backward, "moe.fc2.cast.input", fc2_inputs);
  backward.gemm("moe.fc2.wgrad", expert_product(input, moe, fc2, GemmLayout::WeightGradient));
  backward.host_launches(moe.local_experts);
  backward.add_all(activation_backward.take());
  quantise_groups(sizes, moe, backward, "moe.fc1.cast.backward",
                  sizes.quantised(fc1, moe.rows * fc1.outputs), OperandRole::Gradient);
  quantise_groups_again(sizes, moe, backward, "moe.fc1.cast.input", fc1_inputs);
  quantise_expert_weights(sizes, moe, backward);
  backward.gemm("moe.fc1.dgrad", expert_product(input, moe, fc1, GemmLayout::DataGradient));
  backward.host_launches(moe.local_experts);
  backward.gemm("moe.fc1.wgrad", expert_product(input, moe, fc1, GemmLayout::WeightGradient));
  backward.host_launches(moe.local_experts);
  combine(input, sizes, moe, backward, false);
  backward.add_all(router_backward.take());
  backward.memory("norm2.backward", 2 * x, x, 2);
}

}  // namespace megatwin::model
