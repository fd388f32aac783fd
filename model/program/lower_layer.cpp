// Attention and dense feed-forward of one transformer layer, forward and backward.
#include <algorithm>
#include <cmath>

#include "model/flops.h"
#include "model/numbers.h"
#include "model/program/linear_layers.h"
#include "model/program/op_list.h"
#include "model/state_memory.h"

namespace megatwin::model {
namespace {

// Adds the collectives around linear layers in the way the plan and the stack ask for.
//
// Half a layer (attention, or feed-forward) gathers its input and reduces its output. The halves of
// a parallel block read one input and add into one output: the first gathers it, the last reduces
// it, and on the way back the other way round.
struct TensorTraffic {
  const LoweringInput& input;
  const LayerSizes& sizes;
  bool enters = true;  // Gathers the input, and reduces its gradient.
  bool leaves = true;  // Reduces the output, and gathers its gradient.

  bool on() const { return sizes.tensor > 1; }
  bool chunked() const { return input.plan.overlap_tensor_parallel && sizes.sequence_parallel; }
  double message() const { return as_double(sizes.tokens * sizes.hidden) * sizes.element; }
  // User buffers gather quantised operands.
  double gathered(const LinearLayer& layer) const {
    const Quantisation& recipe = sizes.quantisation;
    const bool quantised =
        sizes.quantises(layer) && (recipe.gather == Quantisation::Gather::Always ||
                                   (recipe.gather == Quantisation::Gather::Chunked && chunked()));
    return quantised ? quantised_element(recipe).value / sizes.element * message() : message();
  }

  // Before a column-parallel product: its sharded input is gathered.
  void before_column(OpList& ops, std::string_view name, const LinearLayer& layer) const {
    if (enters) gather(ops, name, layer);
  }
  // After a row-parallel product: partial sums are reduced.
  void after_row(OpList& ops, std::string_view name) const {
    if (leaves) reduce(ops, name);
  }
  // Backward of a column-parallel product: gather its input again beside dgrad, reduce dX beside
  // wgrad.
  void column_backward(OpList& ops, std::string_view gather_name, std::string_view reduce_name,
                       std::string_view dgrad_name, std::string_view wgrad_name,
                       const LinearLayer& layer) const {
    const bool overlap = input.software.overlap_tp_backward_wgrad;
    if (on() && sizes.sequence_parallel && leaves) {
      ops.collective(gather_name, CollectiveKind::AllGather, GroupKind::Tensor, gathered(layer));
      if (chunked()) {
        ops.chunked();
      } else if (overlap) {
        ops.overlap_next(1);
      }
    }
    ops.gemm(dgrad_name, linear_data_gradient(input, sizes.tokens, layer));
    if (on() && enters) {
      reduce(ops, reduce_name);
      if (!chunked() && overlap) ops.overlap_next(1);
    }
    ops.gemm(wgrad_name, linear_weight_gradient(input, sizes.tokens, layer));
  }
  // Backward of a row-parallel product: gather dY when it is sharded.
  void row_backward(OpList& ops, std::string_view gather_name, const LinearLayer& layer) const {
    if (leaves) gather(ops, gather_name, layer);
  }

 private:
  void gather(OpList& ops, std::string_view name, const LinearLayer& layer) const {
    if (!on() || !sizes.sequence_parallel) return;
    ops.collective(name, CollectiveKind::AllGather, GroupKind::Tensor, gathered(layer));
    if (chunked()) ops.chunked();
  }
  void reduce(OpList& ops, std::string_view name) const {
    if (!on()) return;
    ops.collective(
        name, sizes.sequence_parallel ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce,
        GroupKind::Tensor, message());
    if (chunked()) ops.chunked();
  }
};

TensorTraffic attention_traffic(const LoweringInput& input, const LayerSizes& sizes) {
  return {input, sizes, true, !input.transformer.parallel_block};
}
TensorTraffic feed_forward_traffic(const LoweringInput& input, const LayerSizes& sizes) {
  return {input, sizes, !input.transformer.parallel_block, true};
}

// Without fusion into the product, Megatron adds a 16-bit gradient into its buffer by a kernel.
void accumulate_weight(const LoweringInput& input, OpList& ops, std::int64_t weights) {
  const Framework framework = input.software.framework;
  const bool megatron_of_old = framework == Framework::Megatron2020 ||
                               framework == Framework::Megatron2021 ||
                               framework == Framework::MegatronDeepspeed;
  if (!megatron_of_old) return;
  const StateScheme scheme = state_scheme(input.plan.precision, input.software);
  const double kept = state_bytes_per_parameter(scheme, 0, 1).gradient.value;
  ops.memory("gradient.accumulate", (2 + kept) * as_double(weights), kept * as_double(weights));
  ops.mark_weight_gradient();
}

// An eager RMSNorm is cast, square, mean, scale, cast and weight: six kernels, fp32 in between.
bool is_composite_norm(const LoweringInput& input) {
  return input.software.fusion == ElementwiseFusion::Eager &&
         input.transformer.norm == NormKind::RmsNorm;
}

void norm_forward(const LoweringInput& input, const LayerSizes& sizes, OpList& ops,
                  std::string_view name) {
  const double x = as_double(sizes.tokens_sp * sizes.hidden);
  const double e = sizes.element;
  if (is_composite_norm(input)) {
    ops.memory(name, 16 * x, 14 * x, 6);
  } else {
    ops.memory(name, e * x, e * x);
  }
}

void norm_backward(const LoweringInput& input, const LayerSizes& sizes, OpList& ops,
                   std::string_view name) {
  const double x = as_double(sizes.tokens_sp * sizes.hidden);
  const double e = sizes.element;
  if (is_composite_norm(input)) {
    ops.memory(name, 30 * x, 20 * x, 9);
  } else if (input.software.fusion == ElementwiseFusion::FullyFused) {
    ops.memory(name, 2 * e * x, e * x, 2);  // dy, x → dx; partial sums of the scale stay on chip.
  } else {
    ops.memory(name, 4 * e * x, e * x, 3);  // A second pass reads dy and x for the scale.
  }
}

// bias + dropout + residual add after each half layer; the residual's gradient on the way back.
void residual_forward(const LoweringInput& input, const LayerSizes& sizes, OpList& ops,
                      std::string_view name) {
  const double x = as_double(sizes.tokens_sp * sizes.hidden);
  const double e = sizes.element;
  const bool dropout = input.software.dropout;
  if (input.software.fusion == ElementwiseFusion::Eager && dropout) {
    ops.memory(name, (2 * e + e + 2 * e) * x, (e + e + 1 + e) * x, 3);  // bias, dropout, add.
  } else {
    ops.memory(name, 2 * e * x, (e + (dropout ? 1 : 0)) * x);
  }
}

void residual_backward(const LoweringInput& input, const LayerSizes& sizes, OpList& ops,
                       std::string_view name) {
  const double x = as_double(sizes.tokens_sp * sizes.hidden);
  const double e = sizes.element;
  // Gradients of the two branches meet: read both, write one.
  ops.memory(name, 2 * e * x, e * x);
  if (input.software.dropout) ops.memory("dropout.backward", (e + 1) * x, e * x);
  if (input.transformer.mlp_bias) ops.memory("bias.backward", e * x, 0);
}

void unfused_core_forward(const LoweringInput& input, const LayerSizes& sizes, OpList& ops) {
  const std::int64_t heads = sizes.batch * sizes.query_heads;
  const std::int64_t q = sizes.sequence_local, s = sizes.sequence;
  const double scores = as_double(heads) * as_double(q) * as_double(s);
  const DataType type = base_type(input.plan.precision);
  ops.gemm("attention.scores", {.m = q, .n = s, .k = sizes.head_dim, .batch = heads, .type = type});
  if (input.software.fused_softmax) {
    ops.memory("attention.softmax", 2 * scores, 2 * scores);
  } else {
    ops.memory("attention.softmax", 8 * scores, 8 * scores, 4);
  }
  if (input.software.dropout) ops.memory("attention.dropout", 2 * scores, 3 * scores);
  ops.gemm("attention.values", {.m = q, .n = sizes.head_dim, .k = s, .batch = heads, .type = type});
}

void unfused_core_backward(const LoweringInput& input, const LayerSizes& sizes, OpList& ops) {
  const std::int64_t heads = sizes.batch * sizes.query_heads;
  const std::int64_t q = sizes.sequence_local, s = sizes.sequence, d = sizes.head_dim;
  const double scores = as_double(heads) * as_double(q) * as_double(s);
  const DataType type = base_type(input.plan.precision);
  const auto product = [&](std::string_view name, std::int64_t m, std::int64_t n, std::int64_t k) {
    ops.gemm(
        name,
        {.m = m, .n = n, .k = k, .batch = heads, .type = type, .layout = GemmLayout::DataGradient});
  };
  product("attention.values.dP", q, s, d);
  product("attention.values.dV", s, d, q);
  if (input.software.dropout) ops.memory("attention.dropout.backward", 3 * scores, 2 * scores);
  ops.memory("attention.softmax.backward", 4 * scores, 2 * scores);
  product("attention.scores.dQ", q, d, s);
  product("attention.scores.dK", s, d, q);
}

AttentionShape fused_shape(const LoweringInput& input, const LayerSizes& sizes, bool backward) {
  const Transformer& model = input.transformer;
  AttentionShape shape;
  shape.batch = sizes.batch;
  shape.heads = sizes.query_heads;
  shape.key_value_heads = sizes.key_value_heads;
  shape.query_length = sizes.sequence_local;
  shape.key_length = sizes.sequence;
  shape.qk_dim = sizes.head_dim;
  shape.v_dim = sizes.head_dim;
  if (model.latent) {
    shape.key_value_heads = sizes.query_heads;
    shape.qk_dim = model.latent->qk_nope_head_dim + model.latent->qk_rope_head_dim;
    shape.v_dim = model.latent->v_head_dim;
  }
  shape.backward = backward;
  shape.kernel = input.software.attention;
  shape.type = base_type(input.plan.precision);
  return shape;
}

// The window that lets a causal query see `mean` keys on average: w − w²/(2s) = mean.
std::int64_t equivalent_window(double sequence, double mean) {
  const double square = std::max(0.0, sequence * sequence - 2 * sequence * mean);
  return std::max<std::int64_t>(1, std::llround(sequence - std::sqrt(square)));
}

// Two partial results become one by their log-sum-exp: the running fp32 output is read and written,
// the step's own added. Backward: the step's gradients are added to those of the queries, and to
// those of the keys and values that travel.
void ring_merge(const LayerSizes& sizes, const AttentionShape& step, OpList& ops, bool backward) {
  const double rows = as_double(step.batch * step.heads * step.query_length);
  const double dims = as_double(step.v_dim);
  if (!backward) {
    const double statistics = 4 * rows;
    ops.memory(kRingMerge, (4 + sizes.element) * rows * dims + 2 * statistics,
               4 * rows * dims + statistics, 2);
    return;
  }
  const double keys = as_double(step.batch * step.key_value_heads * step.key_length);
  const double gradients =
      rows * as_double(step.qk_dim) + keys * as_double(step.qk_dim + step.v_dim);
  ops.memory("attention.merge.backward", 2 * sizes.element * gradients, sizes.element * gradients,
             2);
}

// Ring attention over `context` ranks, each with a chunk from either end: its own keys under the
// causal mask, then c − 1 steps of half a block without one. The steps of the last rank have all
// of its queries and half of the keys, are the slowest and set the pace. `mean_keys`: of a query,
// over the whole sequence.
void ring_attention(const LayerSizes& sizes, AttentionShape shape, double mean_keys, OpList& ops,
                    bool backward) {
  const double local = as_double(sizes.sequence_local);
  // Windows thin every step alike.
  const double share = mean_keys / keys_per_query(as_double(sizes.sequence), 0, true);
  AttentionShape step = shape;
  step.causal = false;
  step.key_length = std::max<std::int64_t>(1, std::llround(share * local / 2));
  const double kv = as_double(sizes.batch * sizes.sequence_local) *
                    as_double(shape.key_value_heads * (shape.qk_dim + shape.v_dim)) * sizes.element;
  const int steps = sizes.context - 1;
  // The keys and values of a step, backward their gradients too, travel beside the step before.
  ops.collective(backward ? "attention.ring.backward" : "attention.ring",
                 CollectiveKind::SendReceive, GroupKind::Context, (backward ? 2 : 1) * kv);
  ops.overlap_next(1);
  ops.repeat(steps);
  ops.attention(backward ? "attention.step.backward" : "attention.step", step);
  ops.repeat(steps);
  ring_merge(sizes, step, ops, backward);
  ops.repeat(steps);
  shape.key_length = sizes.sequence_local;
  if (share < 1) shape.window = equivalent_window(local, share * local / 2);
  ops.attention(backward ? "attention.backward" : "attention", shape);
}

// The core attention of every layer. Where some layers see a window only, each is priced as the
// mean over all of them.
void core_attention(const LoweringInput& input, const LayerSizes& sizes, OpList& ops,
                    bool backward) {
  if (input.software.attention == AttentionKernel::Unfused) {
    backward ? unfused_core_backward(input, sizes, ops) : unfused_core_forward(input, sizes, ops);
    return;
  }
  const Transformer& model = input.transformer;
  AttentionShape shape = fused_shape(input, sizes, backward);
  const double mean_keys = mean_keys_per_query(model, true);
  if (sizes.context > 1) {
    ring_attention(sizes, shape, mean_keys, ops, backward);
    return;
  }
  const bool windowed = model.sliding_window > 0 && model.sliding_window < sizes.sequence;
  if (windowed) shape.window = equivalent_window(as_double(sizes.sequence), mean_keys);
  ops.attention(backward ? "attention.backward" : "attention", shape);
}

void rope(const LoweringInput& input, const LayerSizes& sizes, OpList& ops, std::string_view name) {
  if (input.transformer.position != PositionKind::Rotary) return;
  const double elements =
      as_double(sizes.tokens) * as_double(sizes.query_width + sizes.key_value_width);
  if (input.software.fusion == ElementwiseFusion::Eager) {
    ops.memory(name, 12 * elements, 12 * elements, 6);  // Cast to fp32, complex product, cast back.
  } else {
    ops.memory(name, 2 * elements, 2 * elements, 2);
  }
}

// Of the norm's output, which the down-projections share, or queries without a low rank.
bool latent_input_is_quantised(const LayerSizes& sizes, const AttentionLayers& layers) {
  const bool low_rank = layers.q_down.outputs > 0;
  return sizes.quantises(layers.kv_down) || sizes.quantises(low_rank ? layers.q_down : layers.q_up);
}

// Multi-head latent attention: low-rank down- and up-projections for queries and keys/values.
void latent_projections(const LoweringInput& input, const LayerSizes& sizes, OpList& forward,
                        OpList& backward) {
  const AttentionLayers layers = attention_layers(input, sizes);
  const LinearLayer &q_down = layers.q_down, &q_up = layers.q_up;
  const LinearLayer &kv_down = layers.kv_down, &kv_up = layers.kv_up;
  const std::int64_t T = sizes.tokens, Ts = sizes.tokens_sp, h = sizes.hidden;
  const auto linear = [&](std::string_view f, std::string_view d, std::string_view w,
                          std::int64_t m, const LinearLayer& layer) {
    forward.gemm(f, linear_forward(input, m, layer));
    backward.gemm(d, linear_data_gradient(input, m, layer));
    backward.gemm(w, linear_weight_gradient(input, m, layer));
  };
  // The down-projections are replicated over the tensor group and run on its sequence shard: only
  // their small outputs are gathered, and the gradients of those reduced. Queries without a low
  // rank need the whole input.
  const bool gathers = sizes.tensor > 1 && sizes.sequence_parallel;
  const bool whole = q_down.outputs == 0;
  const double gathered =
      sizes.element * as_double(T * ((whole ? h : q_down.outputs) + kv_down.outputs));
  const auto gather = [&](OpList& ops, std::string_view name) {
    if (gathers) ops.collective(name, CollectiveKind::AllGather, GroupKind::Tensor, gathered);
  };
  gather(forward, "latent.gather");
  gather(backward, "latent.gather.backward");
  // Inputs of the up-projections; queries without a low rank read what the norm put out.
  const std::int64_t up_inputs =
      T * ((whole ? 0 : sizes.quantised(q_up, q_up.inputs)) + sizes.quantised(kv_up, kv_up.inputs));
  quantise(sizes, backward, "latent.cast.backward",
           T * (sizes.quantised(q_up, q_up.outputs) + sizes.quantised(kv_up, kv_up.outputs)) +
               Ts * (sizes.quantised(q_down, q_down.outputs) +
                     sizes.quantised(kv_down, kv_down.outputs)),
           OperandRole::Gradient);
  quantise_again(sizes, backward, "latent.up.cast.input", up_inputs);
  quantise_again(sizes, backward, "latent.cast.input",
                 latent_input_is_quantised(sizes, layers) ? (whole ? T : Ts) * h : 0);
  if (whole) {
    linear("q_proj", "q_proj.dgrad", "q_proj.wgrad", T, q_up);
  } else {
    linear("q_down", "q_down.dgrad", "q_down.wgrad", Ts, q_down);
    linear("q_up", "q_up.dgrad", "q_up.wgrad", T, q_up);
  }
  linear("kv_down", "kv_down.dgrad", "kv_down.wgrad", Ts, kv_down);
  quantise(sizes, forward, "latent.up.cast", up_inputs, OperandRole::Input);
  linear("kv_up", "kv_up.dgrad", "kv_up.wgrad", T, kv_up);
  const double latent = as_double(T * (q_down.outputs + kv_down.outputs));
  const double expanded =
      as_double(T) * as_double(q_up.outputs + kv_up.outputs + layers.proj.inputs);
  forward.memory("latent.norms", 2 * latent, 2 * latent, 2);
  forward.memory("latent.rope_concat", 2 * expanded, 2 * expanded, 4);
  backward.memory("latent.norms.backward", 4 * latent, 2 * latent, 4);
  backward.memory("latent.rope_concat.backward", 2 * expanded, 2 * expanded, 4);
  if (sizes.tensor > 1) {
    backward.collective("latent.reduce.backward",
                        gathers ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce,
                        GroupKind::Tensor, gathered);
  }
}

// Norms beyond the two before attention and feed-forward (Gemma's come after them); a parallel
// block may have one for both.
int norms_after_attention(const Transformer& model) {
  return std::max(0, model.norms_per_layer - 1) / 2;
}

// Queries carry a gate as wide as they are; the attention's output is multiplied by its sigmoid.
double gate_elements(const LoweringInput& input, const LayerSizes& sizes) {
  return input.transformer.attention_output_gate ? as_double(sizes.tokens * sizes.query_width) : 0;
}

void output_projection_backward(const LoweringInput& input, const LayerSizes& sizes,
                                const LinearLayer& proj, OpList& backward) {
  const std::int64_t T = sizes.tokens;
  attention_traffic(input, sizes).row_backward(backward, "proj.gather.backward", proj);
  quantise(sizes, backward, "proj.cast.backward", sizes.quantised(proj, T * proj.outputs),
           OperandRole::Gradient);
  backward.gemm("proj.dgrad", linear_data_gradient(input, T, proj));
  quantise_again(sizes, backward, "proj.cast.input", sizes.quantised(proj, T * proj.inputs));
  backward.gemm("proj.wgrad", linear_weight_gradient(input, T, proj));
  accumulate_weight(input, backward, proj.outputs * proj.inputs);
}

// Of query, key and value in one product.
void joint_projection_backward(const LoweringInput& input, const LayerSizes& sizes,
                               const LinearLayer& qkv, OpList& backward) {
  const std::int64_t T = sizes.tokens, width = qkv.outputs;
  rope(input, sizes, backward, "rope.backward");
  if (input.transformer.qk_norm) {
    const double x = as_double(T) * as_double(sizes.query_width + sizes.key_value_width);
    backward.memory("qk_norm.backward", 4 * x, 2 * x, 4);
  }
  // The gradients of query, key and value are concatenated for the joint product.
  backward.memory("qkv.concat", 2 * as_double(T * width), 2 * as_double(T * width));
  quantise(sizes, backward, "qkv.cast.backward", sizes.quantised(qkv, T * width),
           OperandRole::Gradient);
  quantise_again(sizes, backward, "qkv.cast.input", sizes.quantised(qkv, T * qkv.inputs));
  attention_traffic(input, sizes)
      .column_backward(backward, "qkv.gather.backward", "qkv.reduce.backward", "qkv.dgrad",
                       "qkv.wgrad", qkv);
  if (input.transformer.qkv_bias) {
    backward.memory("qkv.bias.backward", 2 * as_double(T * width), 0);
    backward.mark_weight_gradient();
  }
  accumulate_weight(input, backward, width * qkv.inputs);
}

}  // namespace

void lower_attention(const LoweringInput& input, const LayerSizes& sizes, OpList& forward,
                     OpList& backward) {
  const std::int64_t T = sizes.tokens, h = sizes.hidden;
  const bool latent = input.transformer.latent.has_value();
  const AttentionLayers layers = attention_layers(input, sizes);
  const std::int64_t qkv = layers.qkv.outputs;
  const TensorTraffic traffic = attention_traffic(input, sizes);
  const int norms_after = norms_after_attention(input.transformer);
  const double gated = gate_elements(input, sizes);
  const std::int64_t shard = sizes.tokens_sp * h;
  const bool bias_kernel =
      input.transformer.qkv_bias && input.software.fusion == ElementwiseFusion::BiasFused;

  norm_forward(input, sizes, forward, "norm1");
  if (latent) {
    quantise_norm(sizes, forward, "latent.cast",
                  latent_input_is_quantised(sizes, layers) ? shard : 0);
  } else {
    quantise_norm(sizes, forward, "qkv.cast", sizes.quantised(layers.qkv, shard));
  }
  OpList projection_backward(forward.count());
  if (latent) {
    latent_projections(input, sizes, forward, projection_backward);
  } else {
    traffic.before_column(forward, "qkv.gather", layers.qkv);
    forward.gemm("qkv", linear_forward(input, T, layers.qkv));
    if (bias_kernel) forward.memory("qkv.bias", 2 * as_double(T * qkv), 2 * as_double(T * qkv));
    if (input.transformer.qk_norm) {
      const double x = as_double(T) * as_double(sizes.query_width + sizes.key_value_width);
      forward.memory("qk_norm", 2 * x, 2 * x, 2);
    }
    rope(input, sizes, forward, "rope");
  }
  core_attention(input, sizes, forward, false);
  if (gated > 0) forward.memory("attention.gate", 4 * gated, 2 * gated);
  quantise(sizes, forward, "proj.cast", sizes.quantised(layers.proj, T * layers.proj.inputs),
           OperandRole::Input);
  const std::int64_t weights = quantised_weights(sizes, layers);
  quantise_weights(sizes, forward, weights);
  forward.gemm("proj", linear_forward(input, T, layers.proj));
  traffic.after_row(forward, "proj.reduce");
  for (int i = 0; i < norms_after; ++i) norm_forward(input, sizes, forward, "norm.after");
  residual_forward(input, sizes, forward, "residual1");

  residual_backward(input, sizes, backward, "residual1.backward");
  for (int i = 0; i < norms_after; ++i)
    norm_backward(input, sizes, backward, "norm.after.backward");
  output_projection_backward(input, sizes, layers.proj, backward);
  if (gated > 0) backward.memory("attention.gate.backward", 6 * gated, 4 * gated, 2);
  if (input.plan.recompute == RecomputeKind::Selective) {
    OpList again(forward.count());
    core_attention(input, sizes, again, false);
    backward.add_recompute(again.take());
  }
  core_attention(input, sizes, backward, true);
  if (latent) {
    backward.add_all(projection_backward.take());
  } else {
    joint_projection_backward(input, sizes, layers.qkv, backward);
  }
  quantise_weights(sizes, backward, weights);
  norm_backward(input, sizes, backward, "norm1.backward");
}

namespace {

// The non-linearity between the two products of a feed-forward: bytes a token and element.
void activation_ops(const LoweringInput& input, OpList& forward, OpList& backward,
                    double elements) {
  const bool gated = is_gated(input.transformer.activation);
  const bool eager = input.software.fusion == ElementwiseFusion::Eager;
  if (gated && eager) {
    forward.memory("activation", 6 * elements, 4 * elements, 2);  // SiLU, then the product.
    backward.memory("activation.backward", 12 * elements, 6 * elements, 3);
  } else if (gated) {
    forward.memory("activation", 4 * elements, 2 * elements);
    backward.memory("activation.backward", 6 * elements, 4 * elements);
  } else {
    forward.memory("activation", 2 * elements, 2 * elements);
    backward.memory("activation.backward", 4 * elements, 2 * elements);
    if (input.transformer.mlp_bias && !eager) {
      backward.memory("activation.bias.backward", 2 * elements, 0);
    }
  }
}

}  // namespace

void lower_dense_ffn(const LoweringInput& input, const LayerSizes& sizes, std::int64_t ffn_per_rank,
                     OpList& forward, OpList& backward) {
  const std::int64_t T = sizes.tokens, h = sizes.hidden, f = ffn_per_rank;
  const FeedForwardLayers layers = feed_forward_layers(input, sizes, f);
  const LinearLayer &fc1 = layers.fc1, &fc2 = layers.fc2;
  const std::int64_t weights = quantised_weights(sizes, layers);
  const TensorTraffic traffic = feed_forward_traffic(input, sizes);
  const int norms = input.transformer.norms_per_layer;
  const int norms_after = norms / 2 - 1;

  if (norms > 1) {
    norm_forward(input, sizes, forward, "norm2");
  }
  // Halves of a parallel block share the norm's output.
  if (norms > 1 || !sizes.quantises(attention_layers(input, sizes).qkv)) {
    quantise_norm(sizes, forward, "fc1.cast", sizes.quantised(fc1, sizes.tokens_sp * h));
  }
  traffic.before_column(forward, "fc1.gather", fc1);
  forward.gemm("fc1", linear_forward(input, T, fc1));
  OpList activation_backward(forward.count());
  activation_ops(input, forward, activation_backward, as_double(T * f));
  quantise(sizes, forward, "fc2.cast", sizes.quantised(fc2, T * f), OperandRole::Input);
  quantise_weights(sizes, forward, weights);
  forward.gemm("fc2", linear_forward(input, T, fc2));
  traffic.after_row(forward, "fc2.reduce");
  for (int i = 0; i < norms_after; ++i) norm_forward(input, sizes, forward, "norm.after");
  residual_forward(input, sizes, forward, "residual2");

  residual_backward(input, sizes, backward, "residual2.backward");
  for (int i = 0; i < norms_after; ++i)
    norm_backward(input, sizes, backward, "norm.after.backward");
  traffic.row_backward(backward, "fc2.gather.backward", fc2);
  quantise(sizes, backward, "fc2.cast.backward", sizes.quantised(fc2, T * h),
           OperandRole::Gradient);
  backward.gemm("fc2.dgrad", linear_data_gradient(input, T, fc2));
  quantise_again(sizes, backward, "fc2.cast.input", sizes.quantised(fc2, T * f));
  backward.gemm("fc2.wgrad", linear_weight_gradient(input, T, fc2));
  accumulate_weight(input, backward, h * f);
  backward.add_all(activation_backward.take());
  quantise(sizes, backward, "fc1.cast.backward", sizes.quantised(fc1, T * fc1.outputs),
           OperandRole::Gradient);
  quantise_again(sizes, backward, "fc1.cast.input", sizes.quantised(fc1, T * h));
  quantise_weights(sizes, backward, weights);
  traffic.column_backward(backward, "fc1.gather.backward", "fc1.reduce.backward", "fc1.dgrad",
                          "fc1.wgrad", fc1);
  accumulate_weight(input, backward, fc1.outputs * h);
  if (norms > 1) norm_backward(input, sizes, backward, "norm2.backward");
}

}  // namespace megatwin::model
