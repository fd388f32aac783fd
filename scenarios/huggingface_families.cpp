// One function an architecture. Defaults are those of the configuration classes in Hugging Face
// transformers 4.57 (src/transformers/models/*/configuration_*.py), which write a key only where it
// differs from them.
#include <algorithm>

#include "scenarios/huggingface_config.h"

namespace megatwin::scenarios {
namespace {

using model::ActivationKind;
using model::NormKind;
using model::PositionKind;
using model::Transformer;
using Config = HuggingfaceConfig;

constexpr IntegerRange kHeads{.min = 1, .max = 10'000};
constexpr IntegerRange kOrNone{.min = 0, .max = 10'000'000};

bool starts_with_any(std::string_view word, Aliases starts) {
  return std::any_of(starts.begin(), starts.end(),
                     [&](std::string_view start) { return word.starts_with(start); });
}

std::string activation_word(Config& config, std::string_view fallback) {
  return config.word({"hidden_activation", "hidden_act", "activation_function", "activation"},
                     fallback);
}

// Of a feed-forward with a gate: SiLU or a kind of GELU.
ActivationKind gated_activation(Config& config, std::string_view fallback) {
  const std::string word = activation_word(config, fallback);
  if (starts_with_any(word, {"gelu"})) return ActivationKind::GeGlu;
  if (!starts_with_any(word, {"silu", "swish", "swiglu"})) {
    config.warn("hidden_act", quoted(word) + " is not known; it is priced as SwiGLU");
  }
  return ActivationKind::SwiGlu;
}

ActivationKind plain_activation(Config& config, std::string_view fallback) {
  const std::string word = activation_word(config, fallback);
  if (word == "relu2" || word == "squared_relu" || word == "squared-relu") {
    return ActivationKind::SquaredRelu;
  }
  if (word == "relu") return ActivationKind::Relu;
  if (!starts_with_any(word, {"gelu", "quick_gelu"})) {
    config.warn("hidden_act", quoted(word) + " is not known; it is priced as GELU");
  }
  return ActivationKind::Gelu;
}

void layer_norm(Transformer& t, bool bias) {
  t.norm = NormKind::LayerNorm;
  t.norm_bias = bias;
}

void all_biases(Transformer& t, bool bias) {
  t.qkv_bias = t.attention_output_bias = t.mlp_bias = bias;
}

void feed_forward_size(Config& config, Transformer& t) {
  t.ffn_hidden_size = config.needed_size({"intermediate_size", "ffn_hidden_size", "ffn_dim"});
}

// The older architectures leave it out where it is four times the hidden size.
void feed_forward_size_or_4h(Config& config, Transformer& t) {
  t.ffn_hidden_size = config.size_or({"intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner"},
                                     4 * t.hidden_size);
}

// Grouped-query attention. Dumps of third parties often lose this key, and a count without it is
// 11 to 14 % too high, hence never in silence.
void key_value_heads(Config& config, Transformer& t, std::int64_t class_default = 0) {
  const Aliases aliases = {"num_key_value_heads", "num_kv_heads", "n_head_kv",
                           "multi_query_group_num"};
  const std::int64_t fallback = class_default > 0 ? class_default : t.num_attention_heads;
  t.num_key_value_heads =
      config.size_or_warn(aliases, fallback,
                          class_default > 0 ? "the default of this architecture"
                                            : "one for every query head (multi-head attention)",
                          kHeads);
}

void head_dim(Config& config, Transformer& t, std::int64_t class_default = 0) {
  if (class_default > 0) {
    t.head_dim = config.size_or_warn({"head_dim", "kv_channels"}, class_default,
                                     "the default of this architecture", {.min = 1, .max = 10'000});
  } else {
    t.head_dim = config.size_or({"head_dim", "kv_channels"}, 0, {.min = 1, .max = 10'000});
  }
}

// Share of the layers that look back only over a window, by the list that newer files write.
void window_from_layer_types(Config& config, Transformer& t, int period) {
  t.sliding_window_period = period;
  const TreeNode* types = config.node("layer_types");
  if (types == nullptr || types->items.empty() || t.sliding_window == 0) return;
  const auto sliding =
      std::count_if(types->items.begin(), types->items.end(),
                    [](const TreeNode& n) { return n.text == "sliding_attention"; });
  if (sliding == 0) {
    t.sliding_window = 0;
    return;
  }
  const auto layers = static_cast<std::ptrdiff_t>(types->items.size());
  t.sliding_window_period = static_cast<int>((layers + sliding / 2) / sliding);
  if (t.sliding_window_period * sliding != layers) {
    config.warn("layer_types", std::to_string(sliding) + " of " + std::to_string(layers) +
                                   " layers use the window; priced as every " +
                                   std::to_string(t.sliding_window_period) + ". layer");
  }
}

// Tie of input and output embedding where the class says false; its files write it all the same.
void untied_unless_written(Config& config, Transformer& t) {
  t.tied_embeddings = config.flag_or_warn("tie_word_embeddings", false);
}

void tied_unless_written(Config& config, Transformer& t) {
  t.tied_embeddings = config.flag({"tie_word_embeddings"}, true);
}

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

void read_mixtral(Config& config, Transformer& t) {
  read_mistral(config, t);
  t.experts = model::MixtureOfExperts{
      .num_experts = config.size_or_warn({"num_local_experts", "num_experts"}, 8,
                                         "the default of this architecture"),
      .experts_per_token = config.size_or_warn({"num_experts_per_tok", "experts_per_token"}, 2,
                                               "the default of this architecture"),
      .expert_ffn_size = t.ffn_hidden_size};
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

// Layers with experts: every decoder_sparse_step-th, less those that mlp_only_layers names.
void sparse_layers(Config& config, Transformer& t) {
  const std::int64_t step = config.size_or({"decoder_sparse_step"}, 1, {.min = 1, .max = 10'000});
  std::vector<bool> is_moe(static_cast<std::size_t>(t.num_layers));
  for (std::size_t i = 0; i < is_moe.size(); ++i) {
    is_moe[i] = (static_cast<std::int64_t>(i) + 1) % step == 0;
  }
  if (config.node("mlp_only_layers") != nullptr) {
    for (const std::int64_t layer :
         config.map()
             .integers("mlp_only_layers", {.min = 0, .max = t.num_layers - 1})
             .value_or(std::vector<std::int64_t>{})) {
      is_moe[static_cast<std::size_t>(layer)] = false;
    }
  }
  const bool all = std::find(is_moe.begin(), is_moe.end(), false) == is_moe.end();
  if (!all) t.layer_is_moe = std::move(is_moe);
}

void qwen_experts(Config& config, Transformer& t) {
  t.experts = model::MixtureOfExperts{
      .num_experts = config.needed_size({"num_experts", "num_local_experts", "n_routed_experts"}),
      .experts_per_token = config.needed_size({"num_experts_per_tok", "experts_per_token"}),
      .expert_ffn_size = config.needed_size({"moe_intermediate_size"})};
  sparse_layers(config, t);
}

void read_qwen2_moe(Config& config, Transformer& t) {
  read_qwen2(config, t);
  qwen_experts(config, t);
  t.experts->shared_expert_ffn_size =
      config.needed_size({"shared_expert_intermediate_size"}, kOrNone);
  t.experts->shared_expert_gate = t.experts->shared_expert_ffn_size > 0;
}

void read_qwen3(Config& config, Transformer& t) {
  read_qwen2(config, t);
  t.head_dim = config.size_or_warn({"head_dim"}, 128, "the default of this architecture",
                                   {.min = 1, .max = 10'000});
  t.qkv_bias = t.attention_output_bias = config.flag({"attention_bias"}, false);
  t.qk_norm = true;
}

void read_qwen3_moe(Config& config, Transformer& t) {
  read_qwen3(config, t);
  qwen_experts(config, t);
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
  const std::int64_t pattern = config.size_or({"sliding_window_pattern"}, 6);
  if (config.node("layer_types") == nullptr && t.sliding_window > 0) {
    config.warn("sliding_window_pattern", std::to_string(pattern - 1) + " of " +
                                              std::to_string(pattern) +
                                              " layers use the window; priced as all of them");
  }
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

void read_gpt_oss(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  key_value_heads(config, t, 8);
  head_dim(config, t, 64);
  t.qkv_bias = t.attention_output_bias = config.flag({"attention_bias"}, true);
  t.attention_sinks = true;
  t.experts = model::MixtureOfExperts{
      .num_experts = config.needed_size({"num_local_experts", "num_experts"}),
      .experts_per_token = config.needed_size({"num_experts_per_tok", "experts_per_token"}),
      .expert_ffn_size = t.ffn_hidden_size,
      .router_bias = true,
      .expert_bias = true};
  t.sliding_window = config.size_or({"sliding_window"}, 128, kOrNone);
  window_from_layer_types(config, t, 2);
  untied_unless_written(config, t);
}

// Experts in every moe_layer_freq-th layer after the dense ones.
void deepseek_layers(Config& config, Transformer& t) {
  t.num_dense_first_layers =
      std::min(t.num_layers, config.size_or_warn({"first_k_dense_replace"}, 0,
                                                 "so that every layer has experts", kOrNone));
  const std::int64_t step = config.size_or({"moe_layer_freq"}, 1, {.min = 1, .max = 10'000});
  if (step == 1) return;
  t.layer_is_moe.resize(static_cast<std::size_t>(t.num_layers));
  for (std::int64_t i = 0; i < t.num_layers; ++i) {
    t.layer_is_moe[static_cast<std::size_t>(i)] = i >= t.num_dense_first_layers && i % step == 0;
  }
}

void deepseek_experts(Config& config, Transformer& t) {
  const std::int64_t ffn = config.needed_size({"moe_intermediate_size"});
  t.experts = model::MixtureOfExperts{
      .num_experts = config.needed_size({"n_routed_experts", "num_experts"}),
      .experts_per_token = config.needed_size({"num_experts_per_tok"}),
      .expert_ffn_size = ffn,
      .shared_expert_ffn_size =
          ffn * config.size_or_warn({"n_shared_experts"}, 0, "no shared expert", kHeads)};
  // Only this way of choosing experts has the learned correction of every expert's score.
  t.experts->router_bias = config.word({"topk_method"}) == "noaux_tc";
  deepseek_layers(config, t);
}

void read_deepseek(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  key_value_heads(config, t);
  t.activation = gated_activation(config, "silu");
  t.latent = model::LatentAttention{.q_lora_rank = config.size_or({"q_lora_rank"}, 0),
                                    .kv_lora_rank = config.needed_size({"kv_lora_rank"}),
                                    .qk_nope_head_dim = config.needed_size({"qk_nope_head_dim"}),
                                    .qk_rope_head_dim = config.needed_size({"qk_rope_head_dim"}),
                                    .v_head_dim = config.needed_size({"v_head_dim"})};
  if (config.map().node().find("q_lora_rank") == nullptr) {
    config.warn("q_lora_rank", "is missing; queries are taken to be projected directly");
  }
  t.head_dim = t.latent->qk_nope_head_dim + t.latent->qk_rope_head_dim;
  t.qkv_bias = t.attention_output_bias = config.flag({"attention_bias"}, false);
  if (config.map().node().find("n_routed_experts") != nullptr) deepseek_experts(config, t);
  t.num_mtp_layers = config.size_or({"num_nextn_predict_layers"}, 0, {.min = 0, .max = 100});
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

void read_glm4_moe(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  key_value_heads(config, t, 8);
  head_dim(config, t);
  t.activation = gated_activation(config, "silu");
  t.qkv_bias = config.flag({"attention_bias"}, false);
  t.qk_norm = config.flag({"use_qk_norm"}, false);
  deepseek_experts(config, t);
  t.experts->router_bias = true;
  t.num_mtp_layers = config.size_or({"num_nextn_predict_layers"}, 0, {.min = 0, .max = 100});
  untied_unless_written(config, t);
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

// Experts in every interleave_moe_layer_step-th layer, one shared expert of the same size.
void read_llama4(Config& config, Transformer& t) {
  key_value_heads(config, t, 8);
  head_dim(config, t, 128);
  t.activation = gated_activation(config, "silu");
  t.qkv_bias = t.attention_output_bias = config.flag({"attention_bias"}, false);
  const std::int64_t expert = config.needed_size({"intermediate_size"});
  t.ffn_hidden_size = config.needed_size({"intermediate_size_mlp"});
  t.experts =
      model::MixtureOfExperts{.num_experts = config.needed_size({"num_local_experts"}),
                              .experts_per_token = config.size_or({"num_experts_per_tok"}, 1),
                              .expert_ffn_size = expert,
                              .shared_expert_ffn_size = expert};
  const std::int64_t step =
      config.size_or({"interleave_moe_layer_step"}, 1, {.min = 1, .max = 10'000});
  if (step > 1) {
    t.layer_is_moe.resize(static_cast<std::size_t>(t.num_layers));
    for (std::int64_t i = 0; i < t.num_layers; ++i) {
      t.layer_is_moe[static_cast<std::size_t>(i)] = (i + 1) % step == 0;
    }
  }
  untied_unless_written(config, t);
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {"llama", "Llama", read_llama},
      {"mistral", "Mistral", read_mistral},
      {"mixtral", "Mixtral", read_mixtral},
      {"qwen2", "Qwen2", read_qwen2},
      {"qwen2_moe", "Qwen2Moe", read_qwen2_moe},
      {"qwen3", "Qwen3", read_qwen3},
      {"qwen3_moe", "Qwen3Moe", read_qwen3_moe},
      {"gemma", "Gemma", read_gemma},
      {"gemma2", "Gemma2", read_gemma2},
      {"gemma3_text", "Gemma3", read_gemma3},
      {"phi3", "Phi3", read_phi3},
      {"phi", "Phi", read_phi},
      {"falcon", "Falcon", read_falcon},
      {"RefinedWeb", "RW", read_falcon},
      {"RefinedWebModel", "", read_falcon},
      {"bloom", "Bloom", read_bloom},
      {"opt", "OPT", read_opt},
      {"gpt2", "GPT2LMHead", read_gpt2},
      {"gpt_neox", "GPTNeoX", read_gpt_neox},
      {"gpt_oss", "GptOss", read_gpt_oss},
      {"deepseek_v2", "DeepseekV2", read_deepseek},
      {"deepseek_v3", "DeepseekV3", read_deepseek},
      {"kimi_k2", "", read_deepseek},
      {"chatglm", "ChatGLM", read_chatglm},
      {"glm", "Glm", read_glm},
      {"glm4", "Glm4", read_glm4},
      {"glm4_moe", "Glm4Moe", read_glm4_moe},
      {"olmo2", "Olmo2", read_olmo2},
      {"nemotron", "Nemotron", read_nemotron},
      {"starcoder2", "Starcoder2", read_starcoder2},
      {"mpt", "MPT", read_mpt},
      {"llama4_text", "Llama4", read_llama4},
  };
  return all;
}

}  // namespace megatwin::scenarios
