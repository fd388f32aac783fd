// Dense models with LayerNorm.
#include "scenarios/huggingface_parts.h"
#include "scenarios/huggingface_readers.h"

namespace megatwin::scenarios {

using model::ActivationKind;
using model::PositionKind;
using model::Transformer;
using Config = HuggingfaceConfig;

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

// LayerNorm without a bias, one for both halves, which read the same input.
void read_cohere(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  key_value_heads(config, t);
  head_dim(config, t);
  t.activation = gated_activation(config, "silu");
  layer_norm(t, false);
  t.parallel_block = true;
  t.norms_per_layer = 1;
  t.qkv_bias = t.attention_output_bias = config.flag({"attention_bias"}, false);
  // Weights of their own for every head, as many as a norm over the full width has.
  t.qk_norm = t.qk_norm_full_width = config.flag({"use_qk_norm"}, false);
  tied_unless_written(config, t);
}

void read_cohere2(Config& config, Transformer& t) {
  read_cohere(config, t);
  t.sliding_window = window_unless_null(config, 4096);
  windows_but_every(config, t, config.size_or({"sliding_window_pattern"}, 4));
}

void read_stablelm(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  key_value_heads(config, t, 32);
  t.activation = gated_activation(config, "silu");
  layer_norm(t, true);
  t.qkv_bias = config.flag({"use_qkv_bias"}, false);
  t.parallel_block = config.flag({"use_parallel_residual"}, false);
  if (t.parallel_block) t.norms_per_layer = 1;
  if (config.flag({"qk_layernorm"}, false)) {
    config.map().error_at(*config.node("qk_layernorm"), "qk_layernorm",
                          "norms of every head's own, without the bias that the other norms have, "
                          "are not modelled",
                          "false");
  }
  untied_unless_written(config, t);
}

void read_gptj(Config& config, Transformer& t) {
  feed_forward_size_or_4h(config, t);
  t.num_key_value_heads = t.num_attention_heads;
  layer_norm(t, true);
  t.mlp_bias = true;
  t.head_bias = true;
  t.parallel_block = true;
  t.norms_per_layer = 1;
  t.activation = plain_activation(config, "gelu_new");
  t.tied_embeddings = config.flag({"tie_word_embeddings"}, false);
}

// GPT-2 with one key and value head for all queries.
void read_gpt_bigcode(Config& config, Transformer& t) {
  read_gpt2(config, t);
  if (config.flag({"multi_query"}, true)) t.num_key_value_heads = 1;
}

}  // namespace megatwin::scenarios
