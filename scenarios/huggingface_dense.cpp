#include <algorithm>

#include "scenarios/huggingface_parts.h"
#include "scenarios/huggingface_readers.h"

namespace megatwin::scenarios {

using model::ActivationKind;
using model::PositionKind;
using model::Transformer;
using Config = HuggingfaceConfig;

void read_llama(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  key_value_heads(config, t);
  head_dim(config, t);
  t.activation = gated_activation(config, "silu");
  t.qkv_bias = t.attention_output_bias = config.flag({"attention_bias"}, false);
  t.mlp_bias = config.flag({"mlp_bias"}, false);
  untied_unless_written(config, t);
}

void read_mistral(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  key_value_heads(config, t, 8);
  head_dim(config, t);
  t.activation = gated_activation(config, "silu");
  // Only version 0.1 of the 7B has a window; later files write null, which is no window.
  t.sliding_window = config.size_or({"sliding_window", "sliding_window_size"}, 0, kOrNone);
  untied_unless_written(config, t);
}

void read_qwen2(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  key_value_heads(config, t);
  head_dim(config, t);
  t.activation = gated_activation(config, "silu");
  t.qkv_bias = config.flag({"qkv_bias"}, true);
  const std::int64_t window = config.size_or({"sliding_window"}, 0, kOrNone);
  if (config.flag({"use_sliding_window"}, false)) t.sliding_window = window;
  untied_unless_written(config, t);
}

void read_qwen3(Config& config, Transformer& t) {
  read_qwen2(config, t);
  t.head_dim = config.size_or_warn({"head_dim"}, 128, "the default of this architecture",
                                   {.min = 1, .max = 10'000});
  t.qkv_bias = t.attention_output_bias = config.flag({"attention_bias"}, false);
  t.qk_norm = true;
}

void read_gemma(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  key_value_heads(config, t);
  head_dim(config, t, 256);
  t.activation = gated_activation(config, "gelu");
  t.qkv_bias = t.attention_output_bias = config.flag({"attention_bias"}, false);
  tied_unless_written(config, t);
}

void read_gemma2(Config& config, Transformer& t) {
  read_gemma(config, t);
  t.norms_per_layer = 4;
  t.sliding_window = config.size_or({"sliding_window", "sliding_window_size"}, 4096, kOrNone);
  window_from_layer_types(config, t, 2);
}

void read_gemma3(Config& config, Transformer& t) {
  read_gemma(config, t);
  t.norms_per_layer = 4;
  t.qk_norm = true;
  t.sliding_window = config.size_or({"sliding_window"}, 4096, kOrNone);
  // All but every n-th layer use the window.
  const std::int64_t pattern = config.size_or({"sliding_window_pattern"}, 6);
  t.num_sliding_window_layers = t.num_layers - t.num_layers / std::max<std::int64_t>(pattern, 1);
  window_from_layer_types(config, t, 1);
}

void read_phi3(Config& config, Transformer& t) {
  read_llama(config, t);
  t.sliding_window = config.size_or({"sliding_window"}, 0, kOrNone);
}

void read_phi(Config& config, Transformer& t) {
  feed_forward_size_or_4h(config, t);
  t.num_key_value_heads =
      config.size_or({"num_key_value_heads", "n_head_kv"}, t.num_attention_heads, kHeads);
  head_dim(config, t);
  t.activation = plain_activation(config, "gelu_new");
  layer_norm(t, true);
  all_biases(t, true);
  t.head_bias = true;
  t.parallel_block = true;
  t.norms_per_layer = 1;
  t.qk_norm = config.flag({"qk_layernorm"}, false);
  untied_unless_written(config, t);
}

// Falcon 7B: one key-value head, one norm before both halves. 40B and 180B
// (new_decoder_architecture): groups of heads, a norm for each half.
void read_falcon(Config& config, Transformer& t) {
  feed_forward_size_or_4h(config, t);
  // The first 40B file ("RefinedWeb") is of the new kind and knows only n_head_kv.
  const bool new_architecture =
      config.flag({"new_decoder_architecture"}, config.node("n_head_kv") != nullptr);
  const bool multi_query = config.flag({"multi_query"}, true);
  const std::int64_t heads = config.size_or({"num_kv_heads", "n_head_kv", "num_key_value_heads"},
                                            t.num_attention_heads, kHeads);
  t.num_key_value_heads = new_architecture ? heads : multi_query ? 1 : t.num_attention_heads;
  t.parallel_block = new_architecture || config.flag({"parallel_attn"}, true);
  t.norms_per_layer = t.parallel_block && !new_architecture ? 1 : 2;
  if (new_architecture) {
    t.norms_per_layer =
        static_cast<int>(config.size_or({"num_ln_in_parallel_attn"}, 2, {.min = 1, .max = 2}));
  }
  t.position = config.flag({"alibi"}, false) ? PositionKind::Alibi : PositionKind::Rotary;
  layer_norm(t, true);
  all_biases(t, config.flag({"bias"}, false));
  t.activation = plain_activation(config, "gelu");
  tied_unless_written(config, t);
}

void read_bloom(Config& config, Transformer& t) {
  feed_forward_size_or_4h(config, t);
  t.num_key_value_heads = t.num_attention_heads;
  t.position = PositionKind::Alibi;
  layer_norm(t, true);
  all_biases(t, true);
  t.embedding_norm = true;
  t.activation = ActivationKind::Gelu;
  tied_unless_written(config, t);
}

void read_opt(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  t.num_key_value_heads = t.num_attention_heads;
  t.position = PositionKind::Learned;
  // The table has two rows more than positions: padding was given the first ones.
  t.max_position_embeddings += 2;
  const bool bias = config.flag({"enable_bias"}, true);
  layer_norm(t, config.flag({"layer_norm_elementwise_affine"}, true));
  all_biases(t, bias);
  t.activation = plain_activation(config, "relu");
  t.final_norm = config.flag({"do_layer_norm_before"}, true) &&
                 !config.flag({"_remove_final_layer_norm"}, false);
  const std::int64_t embedding = config.size_or({"word_embed_proj_dim"}, t.hidden_size);
  if (embedding != t.hidden_size) t.embedding_size = embedding;
  tied_unless_written(config, t);
}

void read_gpt2(Config& config, Transformer& t) {
  feed_forward_size_or_4h(config, t);
  t.num_key_value_heads = t.num_attention_heads;
  t.position = PositionKind::Learned;
  if (t.max_position_embeddings == 0) {
    t.max_position_embeddings = 1024;
    config.warn("n_positions", "is missing; 1024 is taken, the default of this architecture");
  }
  layer_norm(t, true);
  all_biases(t, true);
  t.activation = plain_activation(config, "gelu_new");
  tied_unless_written(config, t);
}

void read_gpt_neox(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  t.num_key_value_heads = t.num_attention_heads;
  t.parallel_block = config.flag({"use_parallel_residual"}, true);
  layer_norm(t, true);
  t.mlp_bias = true;
  t.qkv_bias = t.attention_output_bias = config.flag({"attention_bias"}, true);
  t.activation = plain_activation(config, "gelu");
  untied_unless_written(config, t);
}

// GLM before transformers had a class for it: its own names for everything.
void read_chatglm(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  t.num_key_value_heads = t.num_attention_heads;
  if (config.flag({"multi_query_attention"}, false)) key_value_heads(config, t);
  head_dim(config, t);
  if (!config.flag({"rmsnorm"}, true)) layer_norm(t, true);
  t.mlp_bias = t.attention_output_bias = config.flag({"add_bias_linear"}, false);
  t.qkv_bias = config.flag({"add_qkv_bias"}, false) || t.mlp_bias;
  t.final_norm = config.flag({"post_layer_norm"}, true);
  untied_unless_written(config, t);
}

void read_glm(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  key_value_heads(config, t, 2);
  head_dim(config, t, 128);
  t.activation = gated_activation(config, "silu");
  t.qkv_bias = config.flag({"attention_bias"}, true);
  untied_unless_written(config, t);
}

void read_glm4(Config& config, Transformer& t) {
  read_glm(config, t);
  t.norms_per_layer = 4;
}

void read_olmo2(Config& config, Transformer& t) {
  read_llama(config, t);
  t.qk_norm = t.qk_norm_full_width = true;
}

void read_nemotron(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  key_value_heads(config, t);
  head_dim(config, t);
  layer_norm(t, true);
  t.activation = plain_activation(config, "relu2");
  t.qkv_bias = t.attention_output_bias = config.flag({"attention_bias"}, false);
  t.mlp_bias = config.flag({"mlp_bias"}, false);
  untied_unless_written(config, t);
}

void read_starcoder2(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  key_value_heads(config, t, 2);
  layer_norm(t, true);
  all_biases(t, config.flag({"use_bias"}, true));
  t.activation = plain_activation(config, "gelu_pytorch_tanh");
  t.sliding_window = config.size_or({"sliding_window"}, 0, kOrNone);
  tied_unless_written(config, t);
}

void read_mpt(Config& config, Transformer& t) {
  t.ffn_hidden_size =
      config.size_or({"expansion_ratio"}, 4, {.min = 1, .max = 100}) * t.hidden_size;
  t.num_key_value_heads = t.num_attention_heads;
  const bool bias = !config.flag({"no_bias"}, true);
  bool alibi = false;
  if (const TreeNode* attention = config.node("attn_config")) {
    Config nested(config.map().context(), *attention, config.map().path_of("attn_config"));
    alibi = nested.flag({"alibi"}, false);
    t.num_key_value_heads = nested.size_or({"kv_n_heads"}, t.num_attention_heads, kHeads);
    if (nested.word({"attn_type"}) == "multiquery_attention") t.num_key_value_heads = 1;
    t.qk_norm = t.qk_norm_full_width = nested.flag({"qk_ln"}, false);
  }
  const bool learned = config.flag({"learned_pos_emb"}, true);
  t.position = alibi ? PositionKind::Alibi : learned ? PositionKind::Learned : PositionKind::None;
  layer_norm(t, bias);
  all_biases(t, bias);
  t.activation = ActivationKind::Gelu;
  tied_unless_written(config, t);
}

}  // namespace megatwin::scenarios
