// Bytes kept from forward to backward, tensor by tensor, for each recompute kind and stack.
// Source of the bookkeeping: Korthikanti et al., arXiv:2205.05198, section 4 (equations 1-6) for
// the unfused GPT layer; the modern layer follows the same rules with fused attention and a gate.
#include <algorithm>

#include "model/numbers.h"
#include "model/program/linear_layers.h"
#include "model/program/op_list.h"

namespace megatwin::model {
namespace {

// Saved bytes of one layer, sorted by what a recompute kind may drop.
struct LayerSaved {
  double input = 0;   // The layer's input: kept by every kind.
  double norms = 0;   // Norm outputs (inputs of the column-parallel products) and mid residual.
  double masks = 0;   // Dropout masks of the two residual branches.
  double qkv = 0;     // Query, key, value.
  double scores = 0;  // Softmax output, dropout mask and output of the unfused core.
  double core_output = 0;  // Attention output (input of the projection) and its log-sum-exp.
  double activation_input = 0, activation_output = 0;
  double eager = 0;    // What a fused kernel would not have kept.
  double experts = 0;  // Router, permuted copies, expert intermediates.

  double all() const {
    return input + norms + masks + qkv + scores + core_output + activation_input +
           activation_output + eager + experts;
  }
};

bool saves_quantised(const LoweringInput& input, const LayerSizes& sizes,
                     const LinearLayer& layer) {
  return input.software.saves_quantised && sizes.quantises(layer);
}

// Bytes an element of a layer's input: a quantised operand is what its product keeps.
double stored_element(const LoweringInput& input, const LayerSizes& sizes,
                      const LinearLayer& layer) {
  return saves_quantised(input, sizes, layer) ? quantised_element(sizes.quantisation).value
                                              : sizes.element;
}

// Router, permuted copies, what is between an expert's two products; the shared expert.
double saved_experts(const LoweringInput& input, const LayerSizes& sizes) {
  const Transformer& model = input.transformer;
  const MixtureOfExperts& experts = *model.experts;
  const double e = sizes.element;
  const auto stored = [&](const LinearLayer& layer) { return stored_element(input, sizes, layer); };
  const double routed = expert_rows(input, sizes);
  const double ffn = as_double(experts.expert_ffn_size) / sizes.expert_tensor;
  const double gate = is_gated(model.activation) ? 2 : 1;
  const FeedForwardLayers expert = expert_layers(input, sizes);
  const double activation_inputs = gate * (clamps_experts_apart(input) ? 2 : 1);
  double saved = 4 * as_double(sizes.tokens_sp * experts.num_experts) * 2 +
                 routed * as_double(sizes.hidden) * (stored(expert.fc1) + e) +
                 routed * ffn * activation_inputs * e + routed * ffn * stored(expert.fc2);
  if (experts.shared_expert_ffn_size > 0) {
    const double shared = as_double(experts.shared_expert_ffn_size) / sizes.tensor;
    saved += as_double(sizes.tokens) * shared *
             (gate * e + stored(shared_expert_layers(input, sizes).fc2));
  }
  return saved;
}

LayerSaved layer_saved(const LoweringInput& input, const LayerSizes& sizes, bool moe) {
  const Transformer& model = input.transformer;
  const SoftwareStack& software = input.software;
  const double e = sizes.element;
  const double x = as_double(sizes.tokens_sp * sizes.hidden);
  const double T = as_double(sizes.tokens);
  const AttentionLayers attention = attention_layers(input, sizes);
  const double one_quantised = quantised_element(sizes.quantisation).value;
  const auto stored = [&](const LinearLayer& layer) { return stored_element(input, sizes, layer); };
  LayerSaved saved;
  saved.input = e * x;
  // Residual in the middle, and what the norms put out; norms after a half layer keep their input.
  const int norms = model.norms_per_layer;
  const bool gathered = sizes.sequence_parallel && software.saves_gathered_inputs;
  const auto sixteen_bits = [&] { return gathered ? e * T * as_double(sizes.hidden) : e * x; };
  const auto norm_output = [&](const LinearLayer& layer) {
    if (!gathered) return stored(layer) * x;
    const bool gathers_quantised =
        sizes.quantises(layer) && sizes.quantisation.gather != Quantisation::Gather::SixteenBit;
    return (gathers_quantised ? one_quantised : e) * T * as_double(sizes.hidden);
  };
  saved.norms = e * x + norm_output(model.latent ? attention.kv_down : attention.qkv) +
                std::max(0, norms - 2) * e * x;
  if (norms > 1) {
    // The router reads it before it is cast.
    saved.norms +=
        moe ? sixteen_bits() : norm_output(feed_forward_layers(input, sizes, sizes.ffn).fc1);
  }
  if (software.dropout) saved.masks = 2 * x;
  double out_width = as_double(sizes.query_width);
  if (model.latent) {
    const LatentAttention& mla = *model.latent;
    const double heads = as_double(sizes.query_heads);
    out_width = heads * as_double(mla.v_head_dim);
    saved.qkv = e * T *
                (2 * heads * as_double(mla.qk_nope_head_dim + mla.qk_rope_head_dim) + out_width +
                 as_double(mla.q_lora_rank + mla.kv_lora_rank + mla.qk_rope_head_dim));
  } else {
    const std::int64_t gate = model.attention_output_gate ? sizes.query_width : 0;
    saved.qkv = e * T * as_double(sizes.query_width + gate + 2 * sizes.key_value_width);
  }
  saved.core_output =
      e * T * out_width +
      (saves_quantised(input, sizes, attention.proj) ? one_quantised * T * out_width : 0);
  if (software.attention == AttentionKernel::Unfused) {
    const double scores = as_double(sizes.batch * sizes.query_heads) *
                          as_double(sizes.sequence_local) * as_double(sizes.sequence);
    saved.scores = (software.dropout ? 5 : 2) * scores;
  } else {
    saved.core_output += 4 * T * as_double(sizes.query_heads);
  }
  if (!moe) {
    const double gate = is_gated(model.activation) ? 2 : 1;
    saved.activation_input = gate * e * T * as_double(sizes.ffn);
    saved.activation_output =
        stored(feed_forward_layers(input, sizes, sizes.ffn).fc2) * T * as_double(sizes.ffn);
    if (software.fusion == ElementwiseFusion::Eager) {
      // torch's RMSNorm in single operators: an fp32 copy and the row before its weight, twice a
      // layer. SiLU and the gate's product are two kernels: one more tensor between them.
      if (model.norm == NormKind::RmsNorm) saved.eager += 2 * (4 + e) * x;
      if (is_gated(model.activation)) saved.eager += e * T * as_double(sizes.ffn);
    }
    return saved;
  }
  saved.experts = saved_experts(input, sizes);
  return saved;
}

// Of a layer's saved bytes, those that the recompute kind keeps.
double kept(const LayerSaved& saved, RecomputeKind kind) {
  switch (kind) {
    case RecomputeKind::None:
      return saved.all();
    case RecomputeKind::Selective:
      return saved.all() - saved.scores;
    case RecomputeKind::Full:
      return saved.input;
    case RecomputeKind::PerOp:
      // Attention output, reduced outputs and every other product.
      return saved.input + saved.core_output +
             0.5 * (saved.qkv + saved.activation_input + saved.experts) + saved.input;
  }
  return saved.all();
}

// Bytes a logit of the loss head: kept from forward to backward, and short-lived in each.
struct LogitBytes {
  double kept, forward, backward;
};

LogitBytes logit_bytes(const LoweringInput& input) {
  const SoftwareStack& software = input.software;
  // A pipeline that keeps its outputs holds the 16-bit logits already.
  const bool outputs_kept = software.keeps_pipeline_outputs && input.plan.pipeline > 1;
  if (software.fused_cross_entropy) {
    if (outputs_kept) return {0, 0, 2};
    // Compiled in one graph: the gradient takes the place of the logits.
    if (software.framework == Framework::PytorchCompile) return {2, 0, 0};
    return {2, 0, 2};  // The 16-bit logits, and their gradient beside them.
  }
  // Eager: 16-bit logits and fp32 log-softmax are kept; an fp32 copy passes by in forward, in
  // backward an fp32 gradient and its 16-bit cast.
  const bool eager = software.framework == Framework::Fsdp1 ||
                     software.framework == Framework::Fsdp2 ||
                     software.framework == Framework::PytorchCompile;
  if (eager) {
    LogitBytes bytes = outputs_kept ? LogitBytes{4, 4, 8} : LogitBytes{6, 4, 6};
    // The 16-bit logits are freed before the backward pass, yet the block that held them stays
    // reserved: no fp32 tensor of the loss fits into it. Stacks that report what is reserved only.
    // Source: PyTorch, "CUDA semantics", memory management.
    const bool reserved = software.framework != Framework::PytorchCompile;
    if (reserved && !outputs_kept) bytes.backward += 2;
    if (input.plan.tensor > 1 && software.shards_head) {
      // DTensor's parallel loss in single operators: shifted logits in forward; zeros, exponents
      // and their sum in backward (torch/distributed/tensor/parallel/loss.py).
      bytes.forward += 4;
      bytes.backward += 4;
    }
    return bytes;
  }
  return {4, 4, 4};  // Megatron's vocabulary-parallel loss keeps one fp32 softmax.
}

// The head's weight gradient, the first of all: under autocast in 16 bits, then cast.
double head_gradient(const LoweringInput& input, const LayerSizes& sizes) {
  if (input.software.framework != Framework::PytorchCompile ||
      !input.software.fused_cross_entropy) {
    return 0;  // Smaller than what passes by in the loss.
  }
  const double bytes = input.plan.precision == Precision::AmpBf16 ? 6 : sizes.element;
  return bytes * as_double(sizes.vocab) * as_double(sizes.hidden);
}

// Inputs of the weight gradients, and the output gradients that they meet.
double weight_gradient_inputs(const LoweringInput& input, const LayerSizes& sizes, bool moe) {
  const LayerSaved saved = layer_saved(input, sizes, moe);
  const double x = sizes.element * as_double(sizes.tokens_sp * sizes.hidden);
  const double inputs = 2 * x + saved.core_output + saved.activation_output + saved.experts / 2;
  const double gradients = saved.qkv + saved.activation_input + 2 * x + saved.experts / 2;
  return inputs + gradients;
}

// What a ring holds beside the tensors of the layer. Forward: keys and values twice, of this step
// and of the next, the running output in fp32 and the step's own. Backward: their gradients too,
// and the queries' of the step.
struct RingBytes {
  double forward = 0, backward = 0;
};

RingBytes ring_buffers(const LoweringInput& input, const LayerSizes& sizes) {
  if (sizes.context == 1 || input.software.attention == AttentionKernel::Unfused) return {};
  double keys = as_double(sizes.key_value_width), queries = as_double(sizes.query_width);
  double outputs = queries;
  if (const auto& latent = input.transformer.latent) {
    const double heads = as_double(sizes.query_heads);
    queries = heads * as_double(latent->qk_nope_head_dim + latent->qk_rope_head_dim);
    outputs = heads * as_double(latent->v_head_dim);
    keys = (queries + outputs) / 2;
  }
  const double tokens = as_double(sizes.tokens);
  const double travelling = 2 * (2 * keys * sizes.element);
  return {tokens * (travelling + (4 + sizes.element) * outputs),
          tokens * (2 * travelling + sizes.element * queries)};
}

}  // namespace

SavedActivations saved_activations(const LoweringInput& input, const ChunkContent& content) {
  const LayerSizes sizes(input);
  const Plan& plan = input.plan;
  const double x = sizes.element * as_double(sizes.tokens_sp * sizes.hidden);
  const double logits = as_double(sizes.tokens) * as_double(sizes.vocab);
  double chunk = 0, wgrad = 0, recomputed_layer = 0;
  const auto add_layers = [&](int count, int recomputed, bool moe) {
    if (count == 0) return;
    const LayerSaved saved = layer_saved(input, sizes, moe);
    chunk += recomputed * kept(saved, plan.recompute) + (count - recomputed) * saved.all();
    wgrad += count * weight_gradient_inputs(input, sizes, moe);
    if (plan.recompute != RecomputeKind::None) {
      recomputed_layer = std::max(recomputed_layer, saved.all() - kept(saved, plan.recompute));
    }
  };
  const RecomputedLayers recomputed = recomputed_layers(plan, content);
  add_layers(content.dense_layers, recomputed.dense, false);
  add_layers(content.moe_layers + content.mtp_layers, recomputed.moe + recomputed.mtp,
             content.moe_layers + content.mtp_layers > 0 && input.transformer.experts.has_value());
  if (content.embedding && input.software.dropout)
    chunk += as_double(sizes.tokens_sp * sizes.hidden);
  SavedActivations result;
  // Whole gathered inputs and unreduced outputs beside the shards, under sequence parallelism.
  const double whole = sizes.element * as_double(sizes.tokens * sizes.hidden);
  const double gathered = sizes.sequence_parallel ? 3 * whole : 0;
  const RingBytes ring = content.layers() > 0 ? ring_buffers(input, sizes) : RingBytes{};
  double transient_forward = 4 * x + gathered + ring.forward;
  double transient_backward = recomputed_layer + 6 * x + gathered + ring.backward;
  if (content.head) {
    const int passes = 1 + content.mtp_layers;
    // Input of the final norm and of the logits product.
    const bool gathers = sizes.sequence_parallel && input.software.saves_gathered_inputs;
    chunk += passes * (x + (gathers ? whole : x));
    const LogitBytes bytes = logit_bytes(input);
    chunk += passes * bytes.kept * logits;
    transient_forward = std::max(transient_forward, bytes.forward * logits);
    transient_backward =
        std::max(transient_backward, bytes.backward * logits + head_gradient(input, sizes));
  }
  result.chunk = {chunk};
  result.forward_transient = {transient_forward};
  result.backward_transient = {transient_backward};
  result.weight_gradient_inputs = {std::min(wgrad, chunk + 8 * x)};
  return result;
}

}  // namespace megatwin::model
