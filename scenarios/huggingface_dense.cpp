// Dense models with RMSNorm.
#include <string>

#include "scenarios/huggingface_parts.h"
#include "scenarios/huggingface_readers.h"

namespace megatwin::scenarios {

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
  windows_but_every(config, t, config.size_or({"sliding_window_pattern"}, 6));
}

void read_phi3(Config& config, Transformer& t) {
  read_llama(config, t);
  t.sliding_window = config.size_or({"sliding_window"}, 0, kOrNone);
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

// As OLMo-2, with a window in all but every fourth layer.
void read_olmo3(Config& config, Transformer& t) {
  read_olmo2(config, t);
  t.sliding_window = window_unless_null(config, 4096);
  windows_but_every(config, t, 4);
}

// Its factors for embedding, residual and logits change neither shape nor kernels.
void read_granite(Config& config, Transformer& t) { read_llama(config, t); }

void read_smollm3(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  key_value_heads(config, t, 4);
  head_dim(config, t);
  t.activation = gated_activation(config, "silu");
  t.qkv_bias = t.attention_output_bias = config.flag({"attention_bias"}, false);
  t.mlp_bias = config.flag({"mlp_bias"}, false);
  const std::int64_t window = config.size_or({"sliding_window"}, 0, kOrNone);
  if (config.flag({"use_sliding_window"}, false)) {
    t.sliding_window = window;
    // The layers without rotary positions have it.
    windows_on_every(config, t, config.size_or({"no_rope_layer_interval"}, 4));
  }
  tied_unless_written(config, t);
}

void read_seed_oss(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  key_value_heads(config, t, 8);
  head_dim(config, t, 128);
  t.activation = gated_activation(config, "silu");
  t.qkv_bias = config.flag({"attention_bias"}, true);
  t.attention_output_bias = config.flag({"attention_out_bias"}, false);
  t.mlp_bias = config.flag({"mlp_bias"}, false);
  untied_unless_written(config, t);
}

void read_ernie4_5(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  key_value_heads(config, t, 2);
  head_dim(config, t, 128);
  t.activation = gated_activation(config, "silu");
  all_biases(t, config.flag({"use_bias"}, false));
  tied_unless_written(config, t);
}

// Norms after both halves, and one on every head's query and key.
void read_exaone4(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  key_value_heads(config, t, 32);
  head_dim(config, t);
  t.activation = gated_activation(config, "silu");
  t.qk_norm = true;
  t.sliding_window = window_unless_null(config, 4096);
  // The pattern is a number or letters such as LLLG.
  const std::string pattern = config.word({"sliding_window_pattern"}, "4");
  const bool letters = pattern.find_first_not_of("LG") == std::string::npos;
  windows_but_every(config, t,
                    letters ? static_cast<std::int64_t>(pattern.size())
                            : config.size_or({"sliding_window_pattern"}, 4));
  untied_unless_written(config, t);
}

// A Llama whose feed-forward has no gate.
void read_arcee(Config& config, Transformer& t) {
  read_llama(config, t);
  t.activation = plain_activation(config, "relu2");
}

void read_internlm2(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  key_value_heads(config, t);
  t.activation = gated_activation(config, "silu");
  t.qkv_bias = t.attention_output_bias = config.flag({"bias"}, true);
  untied_unless_written(config, t);
}

void read_hunyuan_dense(Config& config, Transformer& t) {
  feed_forward_size(config, t);
  key_value_heads(config, t);
  head_dim(config, t);
  t.activation = gated_activation(config, "silu");
  t.qkv_bias = t.attention_output_bias = config.flag({"attention_bias"}, false);
  t.qk_norm = config.flag({"use_qk_norm"}, true);
  untied_unless_written(config, t);
}

}  // namespace megatwin::scenarios
