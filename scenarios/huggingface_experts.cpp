#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/huggingface_parts.h"
#include "scenarios/huggingface_readers.h"

namespace megatwin::scenarios {

using model::Transformer;
using Config = HuggingfaceConfig;

namespace {

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

// Experts in every moe_layer_freq-th layer after the dense ones.
void deepseek_layers(Config& config, Transformer& t) {
  t.num_dense_first_layers =
      config.size_or_warn({"first_k_dense_replace"}, 0, "so that every layer has experts",
                          {.min = 0, .max = t.num_layers});
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
  if (config.word({"topk_method"}) != "greedy") {
    const std::int64_t groups = config.size_or({"n_group"}, 0, kOrNone);
    const std::int64_t reached = config.size_or({"topk_group"}, 0, kOrNone);
    if (reached < groups) t.experts->group_limit = reached;
  }
  deepseek_layers(config, t);
}

void leave_out_prediction(Config& config, std::string_view key) {
  config.warn(
      key, "layers that predict further tokens are left out: this architecture's class has none");
}

// Every expert as wide as intermediate_size, under the names that Mixtral made usual.
void mixtral_experts(Config& config, Transformer& t, std::int64_t num_experts,
                     std::int64_t experts_per_token) {
  constexpr std::string_view kDefault = "the default of this architecture";
  t.experts = model::MixtureOfExperts{
      .num_experts =
          config.size_or_warn({"num_local_experts", "num_experts"}, num_experts, kDefault),
      .experts_per_token = config.size_or_warn({"num_experts_per_tok", "experts_per_token"},
                                               experts_per_token, kDefault),
      .expert_ffn_size = t.ffn_hidden_size};
}

}  // namespace

void read_mixtral(Config& config, Transformer& t) {
  read_mistral(config, t);
  mixtral_experts(config, t, 8, 2);
}

void read_qwen2_moe(Config& config, Transformer& t) {
  read_qwen2(config, t);
  qwen_experts(config, t);
  t.experts->shared_expert_ffn_size =
      config.needed_size({"shared_expert_intermediate_size"}, kOrNone);
  t.experts->shared_expert_gate = t.experts->shared_expert_ffn_size > 0;
}

void read_qwen3_moe(Config& config, Transformer& t) {
  read_qwen3(config, t);
  qwen_experts(config, t);
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
      .expert_bias = true,
      .clamped_activation = true};
  t.sliding_window = config.size_or({"sliding_window"}, 128, kOrNone);
  window_from_layer_types(config, t, 2);
  untied_unless_written(config, t);
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

// The first DeepSeek with experts, before latent attention.
void read_deepseek_moe(Config& config, Transformer& t) {
  read_llama(config, t);
  deepseek_experts(config, t);
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

// A Mixtral with LayerNorm and biases.
void read_phimoe(Config& config, Transformer& t) {
  read_mistral(config, t);
  layer_norm(t, true);
  t.qkv_bias = t.attention_output_bias = config.flag({"attention_bias"}, false);
  t.head_bias = config.flag({"lm_head_bias"}, false);
  mixtral_experts(config, t, 16, 2);
}

void read_olmoe(Config& config, Transformer& t) {
  read_llama(config, t);
  t.qk_norm = t.qk_norm_full_width = true;
  mixtral_experts(config, t, 64, 8);
}

void read_granitemoe(Config& config, Transformer& t) {
  read_llama(config, t);
  t.mlp_bias = false;
  mixtral_experts(config, t, 8, 2);
}

void read_granitemoeshared(Config& config, Transformer& t) {
  read_granitemoe(config, t);
  t.experts->shared_expert_ffn_size =
      config.size_or_warn({"shared_intermediate_size"}, 0, "no shared expert", kOrNone);
}

void read_dbrx(Config& config, Transformer& t) {
  layer_norm(t, false);
  t.num_key_value_heads = 1;
  if (const TreeNode* attention = config.node("attn_config")) {
    Config nested(config.map().context(), *attention, config.map().path_of("attn_config"));
    t.num_key_value_heads = nested.size_or({"kv_n_heads"}, 1, kHeads);
  }
  const TreeNode* ffn = config.node("ffn_config");
  if (ffn == nullptr) {
    config.map().error_at(config.map().node(), "ffn_config", "is missing", "a map of the experts");
    return;
  }
  Config nested(config.map().context(), *ffn, config.map().path_of("ffn_config"));
  t.ffn_hidden_size = nested.needed_size({"ffn_hidden_size"});
  t.experts = model::MixtureOfExperts{.num_experts = nested.needed_size({"moe_num_experts"}),
                                      .experts_per_token = nested.needed_size({"moe_top_k"}),
                                      .expert_ffn_size = t.ffn_hidden_size};
}

void read_ernie4_5_moe(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  key_value_heads(config, t, 4);
  head_dim(config, t);
  t.activation = gated_activation(config, "silu");
  const bool bias = config.flag({"use_bias"}, false);
  all_biases(t, bias);
  t.head_bias = bias;
  const std::int64_t expert = config.needed_size({"moe_intermediate_size"});
  t.experts = model::MixtureOfExperts{
      .num_experts = config.needed_size({"moe_num_experts"}),
      .experts_per_token = config.needed_size({"moe_k"}),
      .expert_ffn_size = expert,
      .shared_expert_ffn_size = expert * config.size_or({"moe_num_shared_experts"}, 2, kOrNone),
      .router_bias = true,
      .expert_bias = bias};
  if (config.size_or({"num_nextn_predict_layers"}, 0, kOrNone) > 0) {
    leave_out_prediction(config, "num_nextn_predict_layers");
  }
  const std::int64_t first = config.size_or({"moe_layer_start_index"}, 1, kOrNone);
  const std::int64_t end = config.size_or({"moe_layer_end_index"}, -1, {.min = -1, .max = 10'000});
  const std::int64_t last = end < 0 ? t.num_layers - 1 : end;
  const std::int64_t step = config.size_or({"moe_layer_interval"}, 1);
  t.layer_is_moe.resize(static_cast<std::size_t>(t.num_layers));
  for (std::int64_t i = first; i <= std::min(last, t.num_layers - 1); ++i) {
    t.layer_is_moe[static_cast<std::size_t>(i)] = (i + 1) % step == 0;
  }
  tied_unless_written(config, t);
}

void read_minimax_m2(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  key_value_heads(config, t, 8);
  head_dim(config, t, 128);
  t.activation = gated_activation(config, "silu");
  t.qk_norm = t.qk_norm_full_width = config.flag({"use_qk_norm"}, true);
  mixtral_experts(config, t, 256, 8);
  t.experts->router_bias = config.flag({"use_routing_bias"}, true);
  if (config.flag({"use_mtp"}, false)) leave_out_prediction(config, "use_mtp");
  untied_unless_written(config, t);
}

// DeepSeek-V3's experts behind Qwen3's attention.
void read_dots1(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  key_value_heads(config, t, 32);
  head_dim(config, t);
  t.activation = gated_activation(config, "silu");
  t.qkv_bias = t.attention_output_bias = config.flag({"attention_bias"}, false);
  t.qk_norm = true;
  deepseek_experts(config, t);
  t.experts->router_bias = true;
  untied_unless_written(config, t);
}

}  // namespace megatwin::scenarios
