#include "scenarios/huggingface_parts.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>

#include "model/counted.h"

namespace megatwin::scenarios {

using model::ActivationKind;
using model::NormKind;
using model::Transformer;
using Config = HuggingfaceConfig;

namespace {

bool starts_with_any(std::string_view word, Aliases starts) {
  return std::any_of(starts.begin(), starts.end(),
                     [&](std::string_view start) { return word.starts_with(start); });
}

std::string activation_word(Config& config, std::string_view fallback) {
  return config.word({"hidden_activation", "hidden_act", "activation_function", "activation"},
                     fallback);
}

// How many layers `layer_types` gives the window to; nothing without that list. transformers
// refuses other words and another number of them (layer_type_validation in configuration_utils.py
// of 4.57); of its words, chunked and linear attention are not modelled.
std::optional<std::int64_t> sliding_layers(Config& config, const Transformer& t) {
  constexpr std::array<Word<bool>, 2> kTypes{
      {{"full_attention", false}, {"sliding_attention", true}}};
  const TreeNode* types = config.node("layer_types");
  if (types == nullptr) return std::nullopt;
  if (types->kind != TreeKind::Sequence || std::ssize(types->items) != t.num_layers) {
    config.map().error_at(*types, "layer_types",
                          types->kind != TreeKind::Sequence
                              ? "is no list"
                              : "has " + std::to_string(types->items.size()) +
                                    (types->items.size() == 1 ? " entry" : " entries") + " for " +
                                    model::counted(t.num_layers, "layer"),
                          "full_attention or sliding_attention for every layer");
    return std::nullopt;
  }
  std::int64_t sliding = 0;
  std::set<std::string_view> unknown;
  for (std::size_t i = 0; i < types->items.size(); ++i) {
    const TreeNode& item = types->items[i];
    if (unknown.contains(item.text)) continue;  // Each said once.
    const auto slides =
        config.map().word<bool>(item, "layer_types[" + std::to_string(i) + "]", kTypes);
    if (!slides) unknown.insert(item.text);
    sliding += slides.value_or(false) ? 1 : 0;
  }
  return sliding;
}

void windows_on(Config& config, Transformer& t, std::int64_t layers) {
  if (layers == 0 && config.node("layer_types") == nullptr) t.sliding_window = 0;
  t.num_sliding_window_layers = layers;
  window_from_layer_types(config, t, 1);
}

}  // namespace

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

void feed_forward_size_or_4h(Config& config, Transformer& t) {
  t.ffn_hidden_size = config.size_or({"intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner"},
                                     4 * t.hidden_size);
}

void key_value_heads(Config& config, Transformer& t, std::int64_t class_default) {
  const Aliases aliases = {"num_key_value_heads", "num_kv_heads", "n_head_kv",
                           "multi_query_group_num"};
  const std::int64_t fallback = class_default > 0 ? class_default : t.num_attention_heads;
  t.num_key_value_heads =
      config.size_or_warn(aliases, fallback,
                          class_default > 0 ? "the default of this architecture"
                                            : "one for every query head (multi-head attention)",
                          kHeads);
}

void head_dim(Config& config, Transformer& t, std::int64_t class_default) {
  if (class_default > 0) {
    t.head_dim = config.size_or_warn({"head_dim", "kv_channels"}, class_default,
                                     "the default of this architecture", {.min = 1, .max = 10'000});
  } else {
    t.head_dim = config.size_or({"head_dim", "kv_channels"}, 0, {.min = 1, .max = 10'000});
  }
}

void window_from_layer_types(Config& config, Transformer& t, int period) {
  t.sliding_window_period = period;
  const auto sliding = sliding_layers(config, t);
  if (!sliding || t.sliding_window == 0) return;
  t.num_sliding_window_layers = *sliding;
  if (*sliding == 0) t.sliding_window = 0;
}

std::int64_t window_unless_null(Config& config, std::int64_t class_default) {
  const TreeNode* value = config.map().node().find("sliding_window");
  const bool is_null = value != nullptr && value->kind == TreeKind::Null;
  return config.size_or({"sliding_window"}, is_null ? 0 : class_default, kOrNone);
}

void windows_but_every(Config& config, Transformer& t, std::int64_t n) {
  windows_on(config, t, t.num_layers - t.num_layers / std::max<std::int64_t>(n, 1));
}

void windows_on_every(Config& config, Transformer& t, std::int64_t n) {
  windows_on(config, t, t.num_layers / std::max<std::int64_t>(n, 1));
}

void untied_unless_written(Config& config, Transformer& t) {
  t.tied_embeddings = config.flag_or_warn("tie_word_embeddings", false);
}

void tied_unless_written(Config& config, Transformer& t) {
  t.tied_embeddings = config.flag({"tie_word_embeddings"}, true);
}

}  // namespace megatwin::scenarios
