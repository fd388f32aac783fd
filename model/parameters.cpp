#include "model/parameters.h"

#include "model/assert.h"

namespace megatwin::model {
namespace {

std::int64_t divide_up(std::int64_t whole, std::int64_t parts) {
  return (whole + parts - 1) / parts;
}

std::int64_t norm_size(const Transformer& transformer, std::int64_t width) {
  return transformer.norm_bias ? 2 * width : width;
}

std::int64_t embedding_width(const Transformer& transformer) {
  return transformer.embedding_size > 0 ? transformer.embedding_size : transformer.hidden_size;
}

// The matrix between narrow embeddings and the hidden size, at either end; kept whole by a rank.
std::int64_t embedding_projection(const Transformer& transformer) {
  const std::int64_t width = embedding_width(transformer);
  return width == transformer.hidden_size ? 0 : width * transformer.hidden_size;
}

// Weights of a feed-forward, of one rank.
struct FeedForward {
  std::int64_t matrices = 0;
  std::int64_t vectors = 0;
};

FeedForward feed_forward(const Transformer& transformer, std::int64_t ffn_size, bool bias,
                         int tensor) {
  const std::int64_t h = transformer.hidden_size;
  const std::int64_t inputs = is_gated(transformer.activation) ? 2 : 1;
  const std::int64_t width = divide_up(ffn_size, tensor);
  // The output bias is added once after the reduction and is whole on every rank.
  return {(inputs + 1) * h * width, bias ? inputs * width + h : 0};
}

// Multi-head or grouped-query attention: Q, K, V columns and output rows are cut by heads.
void add_plain_attention(const Transformer& transformer, int tensor, LayerParameters& layer) {
  const std::int64_t h = transformer.hidden_size;
  const std::int64_t d = transformer.head_dim;
  const std::int64_t query_heads = divide_up(transformer.num_attention_heads, tensor);
  const std::int64_t key_value_heads = divide_up(transformer.num_key_value_heads, tensor);
  const std::int64_t gate_heads = transformer.attention_output_gate ? query_heads : 0;
  const std::int64_t columns = d * (query_heads + gate_heads + 2 * key_value_heads);
  layer.attention_matrices = h * columns + query_heads * d * h;
  if (transformer.qkv_bias) layer.attention_vectors += columns;
  if (transformer.attention_output_bias) layer.attention_vectors += h;
  if (transformer.attention_sinks) layer.attention_vectors += query_heads;
  if (transformer.qk_norm) {
    const std::int64_t width =
        transformer.qk_norm_full_width
            ? d * (transformer.num_attention_heads + transformer.num_key_value_heads)
            : 2 * d;
    layer.attention_vectors += norm_size(transformer, width);
  }
}

// The down-projections to the latent space are whole on every tensor rank, the up-projections and
// the output are cut by heads, as Megatron-LM does.
void add_latent_attention(const Transformer& transformer, int tensor, LayerParameters& layer) {
  const LatentAttention& latent = *transformer.latent;
  const std::int64_t h = transformer.hidden_size;
  const std::int64_t heads = divide_up(transformer.num_attention_heads, tensor);
  const std::int64_t qk_dim = latent.qk_nope_head_dim + latent.qk_rope_head_dim;
  if (latent.q_lora_rank > 0) {
    layer.attention_matrices += latent.q_lora_rank * (h + heads * qk_dim);
    layer.attention_vectors += latent.q_lora_rank;
  } else {
    layer.attention_matrices += h * heads * qk_dim;
  }
  layer.attention_matrices += h * (latent.kv_lora_rank + latent.qk_rope_head_dim);
  layer.attention_vectors += latent.kv_lora_rank;
  layer.attention_matrices +=
      latent.kv_lora_rank * heads * (latent.qk_nope_head_dim + latent.v_head_dim);
  layer.attention_matrices += heads * latent.v_head_dim * h;
}

void add_experts(const Transformer& transformer, const WeightSharding& sharding,
                 LayerParameters& layer) {
  const MixtureOfExperts& experts = *transformer.experts;
  const std::int64_t h = transformer.hidden_size;
  layer.router = h * experts.num_experts;
  layer.router_bias = experts.router_bias ? experts.num_experts : 0;
  const FeedForward one = feed_forward(transformer, experts.expert_ffn_size, experts.expert_bias,
                                       sharding.expert_tensor);
  layer.experts = divide_up(experts.num_experts, sharding.expert) * (one.matrices + one.vectors);
  layer.experts_active = experts.experts_per_token * (one.matrices + one.vectors);
  if (experts.shared_expert_ffn_size > 0) {
    const FeedForward shared = feed_forward(transformer, experts.shared_expert_ffn_size,
                                            experts.expert_bias, sharding.tensor);
    layer.shared_expert = shared.matrices + shared.vectors + (experts.shared_expert_gate ? h : 0);
  }
}

}  // namespace

LayerParameters layer_parameters(const Transformer& transformer, std::int64_t layer,
                                 const WeightSharding& sharding) {
  MEGATWIN_ASSERT(layer >= 0 && layer < transformer.num_layers, "layer ", layer, " of ",
                  transformer.num_layers);
  LayerParameters result;
  if (transformer.latent) {
    add_latent_attention(transformer, sharding.tensor, result);
  } else {
    add_plain_attention(transformer, sharding.tensor, result);
  }
  if (transformer.is_moe_layer(layer)) {
    add_experts(transformer, sharding, result);
  } else {
    const FeedForward dense = feed_forward(transformer, transformer.ffn_hidden_size,
                                           transformer.mlp_bias, sharding.tensor);
    result.mlp_matrices = dense.matrices;
    result.mlp_vectors = dense.vectors;
  }
  result.norms = transformer.norms_per_layer * norm_size(transformer, transformer.hidden_size);
  return result;
}

LayerParameters mtp_layer_parameters(const Transformer& transformer,
                                     const WeightSharding& sharding) {
  LayerParameters result = layer_parameters(transformer, transformer.num_layers - 1, sharding);
  const std::int64_t h = transformer.hidden_size;
  result.mlp_matrices += 2 * h * divide_up(h, sharding.tensor);
  result.norms += 3 * norm_size(transformer, h);
  return result;
}

std::int64_t padded_vocab_size(const Transformer& transformer, const WeightSharding& sharding) {
  const std::int64_t multiple = sharding.vocab_divisible_by * sharding.tensor;
  return divide_up(transformer.vocab_size, multiple) * multiple;
}

ParameterCounts count_parameters(const Transformer& transformer) {
  const std::int64_t h = transformer.hidden_size;
  ParameterCounts counts;
  std::int64_t layers_active = 0;
  for (std::int64_t index = 0; index < transformer.num_layers; ++index) {
    const LayerParameters layer = layer_parameters(transformer, index);
    counts.layers += layer.total();
    counts.experts += layer.experts;
    layers_active += layer.active();
  }
  const std::int64_t table = transformer.vocab_size * embedding_width(transformer);
  counts.input_embedding = table + embedding_projection(transformer);
  counts.output_head = embedding_projection(transformer);
  if (!transformer.tied_embeddings) counts.output_head += table;
  if (transformer.head_bias) counts.output_head += transformer.vocab_size;
  if (transformer.position == PositionKind::Learned) {
    counts.position = transformer.max_position_embeddings * h;
  }
  if (transformer.embedding_norm) counts.embedding_norm = norm_size(transformer, h);
  if (transformer.final_norm) counts.final_norm = norm_size(transformer, h);
  const std::int64_t ends = counts.input_embedding + counts.output_head + counts.position +
                            counts.embedding_norm + counts.final_norm;
  counts.total = counts.layers + ends;
  counts.active = layers_active + ends;
  if (transformer.num_mtp_layers > 0) {
    const LayerParameters mtp = mtp_layer_parameters(transformer);
    counts.mtp_total = transformer.num_mtp_layers * mtp.total();
    counts.mtp_active = transformer.num_mtp_layers * mtp.active();
  }
  return counts;
}

std::int64_t token_table(const Transformer& transformer, const WeightSharding& sharding) {
  return padded_vocab_size(transformer, sharding) / sharding.tensor * embedding_width(transformer);
}

RankParameters rank_parameters(const Transformer& transformer, const StageContents& stage,
                               const WeightSharding& sharding) {
  const std::int64_t h = transformer.hidden_size;
  RankParameters rank;
  for (const std::int64_t index : stage.layers) {
    const LayerParameters layer = layer_parameters(transformer, index, sharding);
    rank.dense += layer.dense();
    rank.expert += layer.experts;
  }
  const bool has_mtp = stage.has_mtp && transformer.num_mtp_layers > 0;
  if (has_mtp) {
    const LayerParameters mtp = mtp_layer_parameters(transformer, sharding);
    rank.dense += transformer.num_mtp_layers * mtp.dense();
    rank.expert += transformer.num_mtp_layers * mtp.experts;
  }
  const std::int64_t vocab_rows = padded_vocab_size(transformer, sharding) / sharding.tensor;
  const bool head_is_copy = stage.has_head && transformer.tied_embeddings;
  const std::int64_t table = token_table(transformer, sharding);
  if (stage.has_embedding || head_is_copy || has_mtp) rank.embedding += table;
  if (stage.has_head && !transformer.tied_embeddings) rank.embedding += table;
  if (stage.has_embedding) rank.embedding += embedding_projection(transformer);
  if (stage.has_head) rank.embedding += embedding_projection(transformer);
  if (stage.has_head && transformer.head_bias) rank.embedding += vocab_rows;
  rank.dense += rank.embedding;
  if (stage.has_embedding) {
    if (transformer.position == PositionKind::Learned) {
      rank.dense += transformer.max_position_embeddings * h;
    }
    if (transformer.embedding_norm) rank.dense += norm_size(transformer, h);
  }
  if (stage.has_head && transformer.final_norm) rank.dense += norm_size(transformer, h);
  return rank;
}

}  // namespace megatwin::model
