#include "scenarios/transformer_reader.h"

#include <algorithm>

namespace megatwin::scenarios {
namespace {

using model::ActivationKind;
using model::LatentAttention;
using model::MixtureOfExperts;
using model::NormKind;
using model::PositionKind;
using model::Transformer;

// Heads and layers of every model so far stay below a thousand; tokens below ten million.
constexpr IntegerRange kLayers{.min = 1, .max = 10'000};
constexpr IntegerRange kOrNone{.min = 0, .max = 10'000'000};

// Of the model's layers so many, or none.
IntegerRange layers_of(const Transformer& transformer) {
  return {.min = 0, .max = transformer.num_layers > 0 ? transformer.num_layers : kOrNone.max};
}

template <class Value>
void set(Value& field, const std::optional<Value>& value) {
  if (value) field = *value;
}

// Another depth of a model that is taken over keeps the share of layers with a window.
void read_depth(MapReader& reader, Transformer& transformer) {
  const std::int64_t before = transformer.num_layers;
  set(transformer.num_layers, reader.integer("num_layers", kLayers));
  const std::int64_t layers = transformer.num_layers;
  if (before == layers || before == 0) return;
  transformer.num_dense_first_layers = std::min(transformer.num_dense_first_layers, layers);
  if (transformer.num_sliding_window_layers == 0) return;
  transformer.num_sliding_window_layers = std::max<std::int64_t>(
      1, (transformer.num_sliding_window_layers * layers + before / 2) / before);
}

void read_sizes(MapReader& reader, Transformer& transformer) {
  read_depth(reader, transformer);
  set(transformer.hidden_size, reader.integer("hidden_size"));
  set(transformer.ffn_hidden_size, reader.integer("ffn_hidden_size"));
  const auto heads = reader.integer("num_attention_heads", kLayers);
  const auto key_value_heads = reader.integer("num_key_value_heads", kLayers);
  // New heads without new key-value heads mean one of each; of a shape taken over they mean
  // nothing sensible.
  if (heads && !key_value_heads) transformer.num_key_value_heads = 0;
  set(transformer.num_attention_heads, heads);
  set(transformer.num_key_value_heads, key_value_heads);
  set(transformer.head_dim, reader.integer("head_dim", {.min = 1, .max = 100'000}));
  set(transformer.vocab_size, reader.integer("vocab_size"));
  set(transformer.max_position_embeddings, reader.integer("max_position_embeddings", kOrNone));
  set(transformer.sequence_length, reader.integer("sequence_length"));
}

void read_layer_style(MapReader& reader, Transformer& transformer) {
  set(transformer.norm, reader.choice<NormKind>("norm", {{"layernorm", NormKind::LayerNorm},
                                                         {"rmsnorm", NormKind::RmsNorm}}));
  set(transformer.activation,
      reader.choice<ActivationKind>("activation", {{"gelu", ActivationKind::Gelu},
                                                   {"relu", ActivationKind::Relu},
                                                   {"squared-relu", ActivationKind::SquaredRelu},
                                                   {"swiglu", ActivationKind::SwiGlu},
                                                   {"geglu", ActivationKind::GeGlu}}));
  set(transformer.position,
      reader.choice<PositionKind>("position", {{"learned", PositionKind::Learned},
                                               {"rotary", PositionKind::Rotary},
                                               {"alibi", PositionKind::Alibi},
                                               {"none", PositionKind::None}}));
  set(transformer.tied_embeddings, reader.boolean("tied_embeddings"));
  set(transformer.qkv_bias, reader.boolean("qkv_bias"));
  set(transformer.attention_output_bias, reader.boolean("attention_output_bias"));
  set(transformer.attention_output_gate, reader.boolean("attention_output_gate"));
  set(transformer.mlp_bias, reader.boolean("mlp_bias"));
  set(transformer.head_bias, reader.boolean("head_bias"));
  set(transformer.norm_bias, reader.boolean("norm_bias"));
  set(transformer.qk_norm, reader.boolean("qk_norm"));
  set(transformer.qk_norm_full_width, reader.boolean("qk_norm_full_width"));
  set(transformer.parallel_block, reader.boolean("parallel_block"));
  if (const auto norms = reader.integer("norms_per_layer", {.min = 0, .max = 8})) {
    transformer.norms_per_layer = static_cast<int>(*norms);
  }
  set(transformer.embedding_norm, reader.boolean("embedding_norm"));
  set(transformer.attention_sinks, reader.boolean("attention_sinks"));
  set(transformer.final_norm, reader.boolean("final_norm"));
  set(transformer.sliding_window, reader.integer("sliding_window", kOrNone));
  if (const auto period = reader.integer("sliding_window_period", {.min = 1, .max = 1'000})) {
    transformer.sliding_window_period = static_cast<int>(*period);
  }
  set(transformer.num_sliding_window_layers,
      reader.integer("num_sliding_window_layers", layers_of(transformer)));
  set(transformer.dropout, reader.number("dropout", {.min = 0, .max = 1}));
}

void read_latent_attention(MapReader& parent, Transformer& transformer) {
  const TreeNode* node = parent.find("latent");
  if (node == nullptr) return;
  MapReader reader(parent.context(), *node, parent.path_of("latent"));
  LatentAttention latent = transformer.latent.value_or(LatentAttention{});
  set(latent.q_lora_rank, reader.integer("q_lora_rank", kOrNone));
  set(latent.kv_lora_rank, reader.integer("kv_lora_rank"));
  set(latent.qk_nope_head_dim, reader.integer("qk_nope_head_dim"));
  set(latent.qk_rope_head_dim, reader.integer("qk_rope_head_dim"));
  set(latent.v_head_dim, reader.integer("v_head_dim"));
  if (!transformer.latent) {
    for (const char* key : {"kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}) {
      reader.require(key, "a whole number");
    }
  }
  reader.finish();
  transformer.latent = latent;
}

void read_experts(MapReader& parent, Transformer& transformer) {
  const TreeNode* node = parent.find("experts");
  if (node != nullptr) {
    MapReader reader(parent.context(), *node, parent.path_of("experts"));
    MixtureOfExperts experts = transformer.experts.value_or(MixtureOfExperts{});
    set(experts.num_experts, reader.integer("num_experts", {.min = 1, .max = 100'000}));
    set(experts.experts_per_token, reader.integer("experts_per_token", {.min = 1, .max = 100'000}));
    set(experts.expert_ffn_size, reader.integer("expert_ffn_size"));
    set(experts.shared_expert_ffn_size, reader.integer("shared_expert_ffn_size", kOrNone));
    set(experts.router_bias, reader.boolean("router_bias"));
    set(experts.expert_bias, reader.boolean("expert_bias"));
    set(experts.clamped_activation, reader.boolean("clamped_activation"));
    set(experts.shared_expert_gate, reader.boolean("shared_expert_gate"));
    set(experts.group_limit, reader.integer("group_limit", {.min = 0, .max = 100'000}));
    if (!transformer.experts) {
      for (const char* key : {"num_experts", "experts_per_token", "expert_ffn_size"}) {
        reader.require(key, "a whole number");
      }
    }
    reader.finish();
    transformer.experts = experts;
  }
  set(transformer.num_dense_first_layers,
      parent.integer("num_dense_first_layers", layers_of(transformer)));
  set(transformer.num_mtp_layers, parent.integer("num_mtp_layers", kOrNone));
}

// After how many layers the list repeats itself, at least once and but for as few of the dense ones
// at its beginning as that takes; 0 when it does not.
std::size_t period_of(const std::vector<bool>& layers) {
  for (std::size_t first = 0; first < layers.size() && (first == 0 || !layers[first - 1]);
       ++first) {
    for (std::size_t period = 1; 2 * period <= layers.size() - first; ++period) {
      bool repeats = true;
      for (std::size_t i = first + period; i < layers.size(); ++i) {
        repeats = repeats && layers[i] == layers[i - period];
      }
      if (repeats) return period;
    }
  }
  return 0;
}

// A list of layers with experts belongs to the depth that it was made for: another depth has its
// beginning, or goes on in its pattern.
void fit_expert_layers(MapReader& reader, Transformer& transformer) {
  std::vector<bool>& layers = transformer.layer_is_moe;
  const auto wanted = static_cast<std::size_t>(transformer.num_layers);
  const std::size_t own = layers.size();
  if (wanted <= own) return layers.resize(wanted);
  const std::size_t period = period_of(layers);
  if (period == 0) {
    const TreeNode* stated = reader.find("num_layers");
    reader.error_at(stated == nullptr ? reader.node() : *stated, "num_layers",
                    "the model says for each of " + std::to_string(own) +
                        " layers whether it has experts, in no pattern that goes on",
                    "at most " + std::to_string(own));
    return layers.resize(wanted, true);
  }
  for (std::size_t i = own; i < wanted; ++i) layers.push_back(layers[i - period]);
}

}  // namespace

Transformer transformer_of_family(std::string_view family) {
  Transformer transformer;
  transformer.family = family;
  if (family == "llama") return transformer;
  transformer.norm = NormKind::LayerNorm;
  transformer.activation = ActivationKind::Gelu;
  transformer.position = PositionKind::Learned;
  transformer.tied_embeddings = true;
  transformer.qkv_bias = true;
  transformer.attention_output_bias = true;
  transformer.mlp_bias = true;
  transformer.norm_bias = true;
  return transformer;
}

void read_transformer_fields(MapReader& reader, Transformer& transformer) {
  read_sizes(reader, transformer);
  read_layer_style(reader, transformer);
  read_latent_attention(reader, transformer);
  read_experts(reader, transformer);
  if (!transformer.layer_is_moe.empty()) fit_expert_layers(reader, transformer);
}

void complete_transformer(MapReader& reader, Transformer& transformer,
                          std::vector<std::string>& assumptions) {
  bool complete = true;
  const auto need = [&](std::int64_t value, std::string_view key) {
    if (value == 0) reader.require(key, "a whole number of at least 1");
    complete = complete && value > 0;
  };
  need(transformer.num_layers, "num_layers");
  need(transformer.hidden_size, "hidden_size");
  need(transformer.num_attention_heads, "num_attention_heads");
  need(transformer.vocab_size, "vocab_size");
  if (!complete) return;
  const std::int64_t hidden_size = transformer.hidden_size;
  if (transformer.num_key_value_heads == 0) {
    transformer.num_key_value_heads = transformer.num_attention_heads;
  }
  if (transformer.num_attention_heads % transformer.num_key_value_heads != 0) {
    const TreeNode* stated = reader.node().find("num_key_value_heads");
    reader.error_at(stated == nullptr ? reader.node() : *stated, "num_key_value_heads",
                    std::to_string(transformer.num_key_value_heads) +
                        " do not divide the num_attention_heads " +
                        std::to_string(transformer.num_attention_heads),
                    "a divisor of " + std::to_string(transformer.num_attention_heads));
  }
  if (transformer.head_dim == 0) {
    transformer.head_dim = hidden_size / transformer.num_attention_heads;
    if (transformer.head_dim * transformer.num_attention_heads != hidden_size) {
      reader.error_at(reader.node(), "num_attention_heads",
                      std::to_string(transformer.num_attention_heads) +
                          " heads do not divide the hidden size " + std::to_string(hidden_size),
                      "a divisor of the hidden size, or head_dim as well");
      transformer.head_dim = 1;
    }
  }
  if (transformer.ffn_hidden_size == 0) {
    transformer.ffn_hidden_size = 4 * hidden_size;
    if (!transformer.experts) {
      assumptions.push_back("The feed-forward size was not given: 4 × hidden size = " +
                            std::to_string(transformer.ffn_hidden_size) + " is taken.");
    }
  }
}

}  // namespace megatwin::scenarios
