#include "model/program/linear_layers.h"

#include <algorithm>
#include <initializer_list>

namespace megatwin::model {
namespace {

std::int64_t weights_of(const LayerSizes& sizes, std::initializer_list<LinearLayer> layers) {
  std::int64_t weights = 0;
  for (const LinearLayer& layer : layers) {
    weights += sizes.quantised(layer, layer.outputs * layer.inputs);
  }
  return weights;
}

}  // namespace

AttentionLayers attention_layers(const LoweringInput& input, const LayerSizes& sizes) {
  const std::int64_t h = sizes.hidden;
  AttentionLayers layers;
  if (const auto& latent = input.transformer.latent) {
    const std::int64_t heads = sizes.query_heads, q_rank = latent->q_lora_rank;
    const std::int64_t q_width = heads * (latent->qk_nope_head_dim + latent->qk_rope_head_dim);
    if (q_rank > 0) layers.q_down = {q_rank, h};
    layers.q_up = {q_width, q_rank > 0 ? q_rank : h};
    layers.kv_down = {latent->kv_lora_rank + latent->qk_rope_head_dim, h};
    layers.kv_up = {heads * (latent->qk_nope_head_dim + latent->v_head_dim), latent->kv_lora_rank};
    layers.proj = {h, heads * latent->v_head_dim};
    return layers;
  }
  const std::int64_t gate = input.transformer.attention_output_gate ? sizes.query_width : 0;
  layers.qkv = {sizes.query_width + gate + 2 * sizes.key_value_width, h};
  layers.proj = {h, sizes.query_width};
  return layers;
}

FeedForwardLayers feed_forward_layers(const LoweringInput& input, const LayerSizes& sizes,
                                      std::int64_t ffn) {
  const bool gated = is_gated(input.transformer.activation);
  const int matrices = gated && sizes.quantisation.separate_gate ? 2 : 1;
  return {{gated ? 2 * ffn : ffn, sizes.hidden, matrices}, {sizes.hidden, ffn}};
}

FeedForwardLayers expert_layers(const LoweringInput& input, const LayerSizes& sizes) {
  return feed_forward_layers(input, sizes,
                             input.transformer.experts->expert_ffn_size / sizes.expert_tensor);
}

FeedForwardLayers shared_expert_layers(const LoweringInput& input, const LayerSizes& sizes) {
  return feed_forward_layers(input, sizes,
                             input.transformer.experts->shared_expert_ffn_size / sizes.tensor);
}

std::int64_t local_experts(const LoweringInput& input, const LayerSizes& sizes) {
  return std::max<std::int64_t>(1, input.transformer.experts->num_experts / sizes.expert);
}

std::int64_t quantised_weights(const LayerSizes& sizes, const AttentionLayers& layers) {
  return weights_of(
      sizes, {layers.qkv, layers.q_down, layers.q_up, layers.kv_down, layers.kv_up, layers.proj});
}

std::int64_t quantised_weights(const LayerSizes& sizes, const FeedForwardLayers& layers) {
  return weights_of(sizes, {layers.fc1, layers.fc2});
}

std::int64_t quantised_weights(const LoweringInput& input, const ChunkContent& content) {
  const LayerSizes sizes(input);
  const bool experts = input.transformer.experts.has_value();
  const int moe = content.moe_layers + (experts ? content.mtp_layers : 0);
  const int dense = content.dense_layers + (experts ? 0 : content.mtp_layers);
  std::int64_t weights =
      (dense + moe) * quantised_weights(sizes, attention_layers(input, sizes)) +
      dense * quantised_weights(sizes, feed_forward_layers(input, sizes, sizes.ffn));
  if (moe > 0) {
    weights +=
        moe * (local_experts(input, sizes) * quantised_weights(sizes, expert_layers(input, sizes)) +
               quantised_weights(sizes, shared_expert_layers(input, sizes)));
  }
  return weights;
}

}  // namespace megatwin::model
