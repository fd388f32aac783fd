#include "model/flops.h"

#include <algorithm>

#include "model/numbers.h"
#include "model/parameters.h"

namespace megatwin::model {
namespace {

// Width of the two attention products for one key: n·d for scores plus n·d for values.
double core_width(const Transformer& transformer) {
  const double heads = as_double(transformer.num_attention_heads);
  if (transformer.latent) {
    const LatentAttention& latent = *transformer.latent;
    return heads * as_double(latent.qk_nope_head_dim + latent.qk_rope_head_dim + latent.v_head_dim);
  }
  return 2 * heads * as_double(transformer.head_dim);
}

// Weights that multiply one token in a layer. Megatron-LM also counts the one weight a channel of
// the two latent norms.
double multiplied_weights(const Transformer& transformer, const LayerParameters& layer) {
  double weights = as_double(layer.attention_matrices + layer.mlp_matrices);
  if (transformer.latent) {
    weights += as_double(transformer.latent->q_lora_rank + transformer.latent->kv_lora_rank);
  }
  if (layer.experts > 0) {
    const MixtureOfExperts& experts = *transformer.experts;
    const double inputs = is_gated(transformer.activation) ? 2 : 1;
    weights += (inputs + 1) * as_double(transformer.hidden_size) *
               as_double(experts.experts_per_token * experts.expert_ffn_size +
                         experts.shared_expert_ffn_size);
  }
  return weights;
}

bool counts_causal(FlopConvention convention) {
  return convention == FlopConvention::ModelCausalAttention;
}

}  // namespace

double keys_per_query(double sequence, double window, bool causal) {
  const double reach = window > 0 ? std::min(window, sequence) : sequence;
  return causal ? reach - reach * reach / (2 * sequence) : reach;
}

double mean_keys_per_query(const Transformer& transformer, bool causal) {
  const double sequence = as_double(transformer.sequence_length);
  const double windowed = transformer.windowed_share();
  return windowed * keys_per_query(sequence, as_double(transformer.sliding_window), causal) +
         (1 - windowed) * keys_per_query(sequence, 0, causal);
}

std::string_view describe(FlopConvention convention) {
  switch (convention) {
    case FlopConvention::MegatronSc21Hardware:
      return "hardware FLOP with full recompute, full attention square (SC21 eq. 3)";
    case FlopConvention::ModelFullAttention:
      return "model FLOP, full attention square (Korthikanti et al. eq. 7, PaLM)";
    case FlopConvention::ModelCausalAttention:
      return "model FLOP, causal attention (Megatron-LM today)";
  }
  return "";
}

ForwardFlop forward_flop_per_token(const Transformer& transformer, FlopConvention convention) {
  double weights = 0;
  for (std::int64_t index = 0; index < transformer.num_layers; ++index) {
    weights += multiplied_weights(transformer, layer_parameters(transformer, index));
  }
  const double mtp_layers = as_double(transformer.num_mtp_layers);
  if (transformer.num_mtp_layers > 0) {
    weights += mtp_layers * multiplied_weights(transformer, mtp_layer_parameters(transformer));
  }
  const double keys = mean_keys_per_query(transformer, counts_causal(convention));
  const double layers = as_double(transformer.num_layers) + mtp_layers;
  ForwardFlop flop;
  flop.layer_matrices = {2 * weights};
  flop.attention_core = {2 * layers * core_width(transformer) * keys};
  flop.head = {2 * as_double(transformer.hidden_size * transformer.vocab_size) * (1 + mtp_layers)};
  return flop;
}

Flop model_flop_per_token(const Transformer& transformer, FlopConvention convention) {
  const ForwardFlop forward = forward_flop_per_token(transformer, convention);
  const double passes = convention == FlopConvention::MegatronSc21Hardware ? 4 : 3;
  return passes * (forward.layer_matrices + forward.attention_core) + 3.0 * forward.head;
}

Flop model_flop_per_step(const Transformer& transformer, FlopConvention convention,
                         std::int64_t global_batch) {
  return as_double(global_batch * transformer.sequence_length) *
         model_flop_per_token(transformer, convention);
}

Flop hardware_flop_per_token(const Transformer& transformer, FlopConvention convention,
                             RecomputeKind recompute) {
  const ForwardFlop forward = forward_flop_per_token(transformer, convention);
  const Flop layers = forward.layer_matrices + forward.attention_core;
  const Flop once = 3.0 * (layers + forward.head);
  switch (recompute) {
    case RecomputeKind::None:
      return once;
    case RecomputeKind::Selective:
      return once + 3.0 * forward.attention_core;
    case RecomputeKind::Full:
      return once + layers;
    case RecomputeKind::PerOp:
      return once + 0.5 * forward.layer_matrices;
  }
  return once;
}

Flop hardware_flop_per_step(const Transformer& transformer, FlopConvention convention,
                            RecomputeKind recompute, std::int64_t global_batch) {
  return as_double(global_batch * transformer.sequence_length) *
         hardware_flop_per_token(transformer, convention, recompute);
}

Flop palm_flop_per_token(const PalmShape& shape, bool recompute_all) {
  const double attention = shape.layers * shape.heads * shape.head_dim * shape.sequence_length;
  const double passes = recompute_all ? 4 : 3;
  return {passes * (2 * shape.parameters + 4 * attention)};
}

double selective_recompute_overhead(double sequence_length, double hidden_size) {
  return 1 + sequence_length / (6 * hidden_size);
}

Flop attention_forward_flop(const AttentionExtent& extent) {
  const double value_dim = extent.value_head_dim > 0 ? extent.value_head_dim : extent.head_dim;
  const double square = extent.batch * extent.sequence_length * extent.sequence_length *
                        extent.heads * 2 * (extent.head_dim + value_dim);
  return {extent.causal ? square / 2 : square};
}

Flop attention_backward_flop(const AttentionExtent& extent) {
  return 2.5 * attention_forward_flop(extent);
}

double flop_utilization(Flop flop, Seconds time, double num_gpus, FlopPerSecond peak) {
  return flop.value / (time.value * num_gpus * peak.value);
}

Seconds training_time(const TrainingRun& run) {
  const double per_parameter = run.recompute_all ? 8 : 6;
  const Flop work{per_parameter * run.tokens * run.parameters};
  return work / (run.num_gpus * run.reached_per_gpu);
}

}  // namespace megatwin::model
