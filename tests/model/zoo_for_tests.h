// Shapes of public models, written out by hand from their config.json, for the tests of counts.
#ifndef MEGATWIN_TESTS_MODEL_ZOO_FOR_TESTS_H_
#define MEGATWIN_TESTS_MODEL_ZOO_FOR_TESTS_H_

#include "model/transformer.h"

namespace megatwin::model::zoo {

struct Shape {
  std::int64_t layers, hidden, ffn, heads, key_value_heads, head_dim, vocab, sequence;
};

// Llama family: RMSNorm, SwiGLU, rotary positions, untied, no biases.
inline Transformer llama(const Shape& shape) {
  Transformer t;
  t.num_layers = shape.layers;
  t.hidden_size = shape.hidden;
  t.ffn_hidden_size = shape.ffn;
  t.num_attention_heads = shape.heads;
  t.num_key_value_heads = shape.key_value_heads;
  t.head_dim = shape.head_dim;
  t.vocab_size = shape.vocab;
  t.sequence_length = shape.sequence;
  return t;
}

// GPT family: LayerNorm and biases everywhere, GELU, learned positions, tied.
inline Transformer gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                       std::int64_t vocab, std::int64_t positions) {
  Transformer t = llama({layers, hidden, 4 * hidden, heads, heads, hidden / heads, vocab, 2048});
  t.norm = NormKind::LayerNorm;
  t.norm_bias = true;
  t.activation = ActivationKind::Gelu;
  t.position = PositionKind::Learned;
  t.max_position_embeddings = positions;
  t.tied_embeddings = true;
  t.qkv_bias = t.attention_output_bias = t.mlp_bias = true;
  return t;
}

inline Transformer mixture(Transformer t, std::int64_t experts, std::int64_t per_token,
                           std::int64_t ffn) {
  t.experts = MixtureOfExperts{
      .num_experts = experts, .experts_per_token = per_token, .expert_ffn_size = ffn};
  return t;
}

inline Transformer llama_2_7b() { return llama({32, 4096, 11008, 32, 32, 128, 32000, 4096}); }
inline Transformer llama_2_70b() { return llama({80, 8192, 28672, 64, 8, 128, 32000, 4096}); }
inline Transformer llama_3_8b() { return llama({32, 4096, 14336, 32, 8, 128, 128256, 8192}); }
inline Transformer llama_3_70b() { return llama({80, 8192, 28672, 64, 8, 128, 128256, 8192}); }
inline Transformer llama_3_405b() { return llama({126, 16384, 53248, 128, 8, 128, 128256, 8192}); }
inline Transformer mistral_7b() { return llama({32, 4096, 14336, 32, 8, 128, 32000, 4096}); }
inline Transformer mixtral_8x7b() { return mixture(mistral_7b(), 8, 2, 14336); }
inline Transformer mixtral_8x22b() {
  return mixture(llama({56, 6144, 16384, 48, 8, 128, 32000, 4096}), 8, 2, 16384);
}
inline Transformer qwen_2_5_72b() {
  Transformer t = llama({80, 8192, 29568, 64, 8, 128, 152064, 4096});
  t.qkv_bias = true;
  return t;
}
inline Transformer qwen_3_30b() {
  Transformer t = mixture(llama({48, 2048, 6144, 32, 4, 128, 151936, 4096}), 128, 8, 768);
  t.qk_norm = true;
  return t;
}
inline Transformer qwen_3_235b() {
  Transformer t = mixture(llama({94, 4096, 12288, 64, 4, 128, 151936, 4096}), 128, 8, 1536);
  t.qk_norm = true;
  return t;
}
inline Transformer deepseek_v2_lite() {
  Transformer t = mixture(llama({27, 2048, 10944, 16, 16, 192, 102400, 4096}), 64, 6, 1408);
  t.experts->shared_expert_ffn_size = std::int64_t{2} * 1408;
  t.num_dense_first_layers = 1;
  t.latent = LatentAttention{0, 512, 128, 64, 128};
  return t;
}
inline Transformer deepseek_v3() {
  Transformer t = mixture(llama({61, 7168, 18432, 128, 128, 192, 129280, 4096}), 256, 8, 2048);
  t.experts->shared_expert_ffn_size = 2048;
  t.experts->router_bias = true;
  t.num_dense_first_layers = 3;
  t.num_mtp_layers = 1;
  t.latent = LatentAttention{1536, 512, 128, 64, 128};
  return t;
}
inline Transformer gemma_2_27b() {
  Transformer t = llama({46, 4608, 36864, 32, 16, 128, 256000, 8192});
  t.activation = ActivationKind::GeGlu;
  t.tied_embeddings = true;
  t.norms_per_layer = 4;
  t.sliding_window = 4096;
  t.sliding_window_period = 2;
  return t;
}
// Falcon's larger models: two LayerNorms with bias before a parallel block, nothing else biased.
inline Transformer falcon(std::int64_t layers, std::int64_t hidden) {
  Transformer t = llama({layers, hidden, 4 * hidden, hidden / 64, 8, 64, 65024, 2048});
  t.norm = NormKind::LayerNorm;
  t.norm_bias = true;
  t.activation = ActivationKind::Gelu;
  t.tied_embeddings = true;
  t.parallel_block = true;
  return t;
}
// The 180B checkpoint stores its output head apart.
inline Transformer falcon_180b() {
  Transformer t = falcon(80, 14848);
  t.tied_embeddings = false;
  return t;
}
inline Transformer bloom() {
  Transformer t = gpt(70, 14336, 112, 250880, 0);
  t.position = PositionKind::Alibi;
  t.embedding_norm = true;
  return t;
}
inline Transformer phi_3_5_mini() { return llama({32, 3072, 8192, 32, 32, 96, 32064, 4096}); }
inline Transformer phi_4_mini() {
  Transformer t = llama({32, 3072, 8192, 24, 8, 128, 200064, 4096});
  t.tied_embeddings = true;
  return t;
}
inline Transformer glm_4_9b() {
  Transformer t = llama({40, 4096, 13696, 32, 2, 128, 151552, 8192});
  t.qkv_bias = true;
  return t;
}
inline Transformer chatglm3_6b() {
  Transformer t = llama({28, 4096, 13696, 32, 2, 128, 65024, 8192});
  t.qkv_bias = true;
  return t;
}
inline Transformer gpt_oss(std::int64_t layers, std::int64_t experts) {
  Transformer t = mixture(llama({layers, 2880, 2880, 64, 8, 64, 201088, 4096}), experts, 4, 2880);
  t.experts->router_bias = true;
  t.experts->expert_bias = true;
  t.experts->clamped_activation = true;
  t.qkv_bias = t.attention_output_bias = true;
  t.attention_sinks = true;
  t.sliding_window = 128;
  t.sliding_window_period = 2;
  return t;
}
inline Transformer nemotron_4_340b() {
  Transformer t = llama({96, 18432, 73728, 96, 8, 192, 256000, 4096});
  t.norm = NormKind::LayerNorm;
  t.norm_bias = true;
  t.activation = ActivationKind::SquaredRelu;
  return t;
}
inline Transformer olmo_2_32b() {
  Transformer t = llama({64, 5120, 27648, 40, 8, 128, 100352, 4096});
  t.qk_norm = true;
  t.qk_norm_full_width = true;
  return t;
}

}  // namespace megatwin::model::zoo

#endif  // MEGATWIN_TESTS_MODEL_ZOO_FOR_TESTS_H_
