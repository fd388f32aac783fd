// The shape of a decoder-only transformer: what a Hugging Face config.json or a paper's table says,
// without any decision of how it is trained. Plain data; counts follow from it in parameters.h and
// flops.h. One layer is attention + feed-forward; the feed-forward is dense or a mixture of
// experts.
#ifndef MEGATWIN_MODEL_TRANSFORMER_H_
#define MEGATWIN_MODEL_TRANSFORMER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace megatwin::model {

enum class NormKind { LayerNorm, RmsNorm };
enum class ActivationKind { Gelu, Relu, SquaredRelu, SwiGlu, GeGlu };
enum class PositionKind { Learned, Rotary, Alibi, None };

// SwiGLU and GeGLU have a gate: three matrices in the feed-forward instead of two.
constexpr bool is_gated(ActivationKind kind) {
  return kind == ActivationKind::SwiGlu || kind == ActivationKind::GeGlu;
}

// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1).
struct LatentAttention {
  std::int64_t q_lora_rank = 0;  // 0: queries are projected directly.
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;
};

struct MixtureOfExperts {
  std::int64_t num_experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t expert_ffn_size = 0;
  std::int64_t shared_expert_ffn_size = 0;  // Total over the shared experts, 0 for none.
  bool router_bias = false;                 // Counted in total, not in active parameters.
  bool expert_bias = false;                 // Biases in every expert (gpt-oss).
  bool clamped_activation = false;          // Both sides of the gate (gpt-oss: swiglu_limit).
  bool shared_expert_gate = false;          // Qwen1.5/2-MoE: one h → 1 gate.
  // Groups of experts (machines, in training) that one token may reach: DeepSeek's topk_group; 0:
  // all.
  std::int64_t group_limit = 0;
};

struct Transformer {
  std::string name;    // As the user knows it.
  std::string family;  // llama, gpt, mixtral, … as recognised; informative.

  std::int64_t num_layers = 0;  // Decoder layers, without the multi-token-prediction ones.
  std::int64_t hidden_size = 0;
  std::int64_t ffn_hidden_size = 0;  // Of a dense layer.
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;  // Not always hidden / heads.
  std::int64_t vocab_size = 0;
  // Width of the embeddings when matrices project them to and from hidden_size (OPT-350M); 0: the
  // same.
  std::int64_t embedding_size = 0;
  std::int64_t max_position_embeddings = 0;  // Size of the table when positions are learned.
  std::int64_t sequence_length = 0;          // Tokens of one training sequence.

  NormKind norm = NormKind::RmsNorm;
  ActivationKind activation = ActivationKind::SwiGlu;
  PositionKind position = PositionKind::Rotary;
  bool tied_embeddings = false;  // Output head shares the input embedding's matrix.
  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool attention_output_gate = false;  // A gate as wide as the queries (Qwen3-Next).
  bool mlp_bias = false;
  bool head_bias = false;           // Bias of the output head.
  bool norm_bias = false;           // LayerNorm has one, RMSNorm has not.
  bool qk_norm = false;             // A norm on every head's query and key …
  bool qk_norm_full_width = false;  // … or one over all heads at once (OLMo-2).
  bool parallel_block = false;      // Attention and feed-forward read the same input (Falcon, Phi).
  int norms_per_layer = 2;          // Gemma-2 has 4, a parallel block may have 1.
  bool embedding_norm = false;      // BLOOM normalises the embedding.
  bool attention_sinks = false;     // One learned logit a head (gpt-oss).
  bool final_norm = true;
  std::int64_t sliding_window = 0;  // Tokens, 0 for none …
  int sliding_window_period = 1;    // … on every n-th layer: 1 = all layers, 2 = every other, …
  std::int64_t num_sliding_window_layers = 0;  // … or on so many layers, when above 0.
  double dropout =
      0;  // The probability. Whether its masks and kernels are paid for: SoftwareStack.

  std::optional<LatentAttention> latent;
  std::optional<MixtureOfExperts> experts;
  std::int64_t num_dense_first_layers = 0;  // Leading dense layers of a mixture model.
  std::vector<bool> layer_is_moe;           // Empty: all after the dense first ones.
  std::int64_t num_mtp_layers = 0;          // Multi-token-prediction layers (DeepSeek-V3).

  // Share of the layers that see the window only.
  double windowed_share() const {
    if (sliding_window <= 0 || num_layers <= 0) return 0;
    if (num_sliding_window_layers <= 0) return 1.0 / sliding_window_period;
    return static_cast<double>(num_sliding_window_layers) / static_cast<double>(num_layers);
  }

  // Whether decoder layer `index` (from 0) has experts.
  bool is_moe_layer(std::int64_t index) const {
    if (!experts) return false;
    if (!layer_is_moe.empty()) return layer_is_moe[static_cast<std::size_t>(index)];
    return index >= num_dense_first_layers;
  }
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_TRANSFORMER_H_
