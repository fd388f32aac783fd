#include "model/activation_memory.h"

#include <cmath>

namespace megatwin::model {

Bytes gpt_layer_activations(const GptLayerShape& shape, const ActivationSetting& setting) {
  const double t = setting.tensor;
  const double sbh = shape.sequence * shape.micro_batch * shape.hidden;
  const double scores = 5 * shape.heads * shape.sequence / shape.hidden;
  const bool keeps_scores = setting.recompute == RecomputeKind::None;
  const double cut = 24 + (keeps_scores ? scores : 0);
  if (setting.recompute == RecomputeKind::Full) {
    return {2 * sbh / (setting.sequence_parallel ? t : 1)};
  }
  return {sbh * (setting.sequence_parallel ? (10 + cut) / t : 10 + cut / t)};
}

GptLayerParts gpt_layer_parts(const GptLayerShape& shape) {
  const double sb = shape.sequence * shape.micro_batch;
  const double sbh = sb * shape.hidden;
  return {.attention = {11 * sbh + 5 * shape.heads * shape.sequence * sb},
          .feed_forward = {19 * sbh},
          .norms = {4 * sbh}};
}

double interleaved_memory_factor(double stages, double chunks) {
  return chunks > 1 ? 1 + (stages - 1) / (stages * chunks) : 1;
}

Bytes first_stage_activations(Bytes layer, double num_layers, double stages, double chunks) {
  return num_layers * interleaved_memory_factor(stages, chunks) * layer;
}

ExtraActivations extra_activations(const GptLayerShape& shape, double tensor, double stages,
                                   double vocab) {
  const double sb = shape.sequence * shape.micro_batch;
  const double sbh = sb * shape.hidden;
  return {.embedding_dropout = {sbh * stages / tensor},
          .final_norm = {2 * sbh / tensor},
          .head_input = {2 * sbh / tensor},
          .logits = {4 * sb * vocab / tensor}};
}

double full_recompute_fraction(const GptLayerShape& shape, double tensor) {
  const Bytes full =
      gpt_layer_activations(shape, {.tensor = tensor, .recompute = RecomputeKind::Full});
  return ratio(full / gpt_layer_activations(shape, {.tensor = tensor}));
}

double optimal_checkpoints(double layers, double intermediate_over_input) {
  return std::sqrt(layers * intermediate_over_input);
}

Bytes modern_layer_activations(const ModernLayerShape& shape) {
  const double sb = shape.sequence * shape.micro_batch;
  const double group_ratio = shape.key_value_heads / shape.heads;
  double bytes = sb * shape.hidden * (12 + 4 * group_ratio) + 6 * sb * shape.ffn;
  if (shape.recompute_activation) bytes -= 2 * sb * shape.ffn;
  if (shape.recompute_norms) bytes -= 4 * sb * shape.hidden;
  bytes += 4 * sb * shape.heads;  // The log-sum-exp of every query, fp32.
  return {bytes / (shape.tensor * shape.context)};
}

Bytes megatron_estimate_layer_activations(const ModernLayerShape& shape) {
  const double sbh = shape.sequence * shape.micro_batch * shape.hidden;
  return {sbh * (18 + 4 * shape.ffn / shape.hidden) / shape.tensor};
}

}  // namespace megatwin::model
