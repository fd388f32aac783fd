#include "exec/stored_model.h"

#include "exec/file_problem.h"
#include "model/assert.h"
#include "scenarios/huggingface.h"
#include "scenarios/json_reader.h"

namespace megatwin::exec {
namespace {

using model::ActivationKind;
using model::NormKind;
using model::PositionKind;
using model::Transformer;

constexpr const char* kNone = "none";

std::string text_of(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::Gelu:
      return "gelu";
    case ActivationKind::Relu:
      return "relu";
    case ActivationKind::SquaredRelu:
      return "squared-relu";
    case ActivationKind::SwiGlu:
      return "swiglu";
    case ActivationKind::GeGlu:
      return "geglu";
  }
  MEGATWIN_ASSERT(false, "unknown activation");
}

std::string text_of(PositionKind kind) {
  switch (kind) {
    case PositionKind::Learned:
      return "learned";
    case PositionKind::Rotary:
      return "rotary";
    case PositionKind::Alibi:
      return "alibi";
    case PositionKind::None:
      return kNone;
  }
  MEGATWIN_ASSERT(false, "unknown positions");
}

std::string text_of(bool flag) { return flag ? "true" : "false"; }

std::int64_t num_dense_first_layers(const Transformer& transformer) {
  std::int64_t layer = 0;
  while (layer < transformer.num_layers && !transformer.is_moe_layer(layer)) ++layer;
  return layer;
}

void add_experts(const Transformer& transformer, ModelFacts& facts) {
  const auto add = [&](const char* key, std::int64_t value) {
    facts.emplace_back(key, transformer.experts ? std::to_string(value) : kNone);
  };
  const model::MixtureOfExperts experts = transformer.experts.value_or(model::MixtureOfExperts{});
  add("experts.num_experts", experts.num_experts);
  add("experts.experts_per_token", experts.experts_per_token);
  add("experts.expert_ffn_size", experts.expert_ffn_size);
  add("num_dense_first_layers", num_dense_first_layers(transformer));
}

// Where the scenario says `key`: itself, in a map around it, or by the model that it names.
std::string place_of(const std::string& key, const ModelPlaces& places) {
  for (const std::string& name : {key, key.substr(0, key.find('.'))}) {
    const auto found = places.find(name);
    if (found != places.end()) return found->second;
  }
  for (const char* base : {"hf", "name", "family"}) {
    const auto found = places.find(base);
    if (found != places.end()) return std::string(base) + " at " + found->second;
  }
  return "by default";
}

}  // namespace

ModelFacts model_facts(const Transformer& transformer) {
  ModelFacts facts;
  const auto add = [&](const char* key, std::string value) {
    facts.emplace_back(key, std::move(value));
  };
  const auto add_number = [&](const char* key, std::int64_t value) {
    add(key, std::to_string(value));
  };
  const bool has_dense_layers = num_dense_first_layers(transformer) > 0 || !transformer.experts;
  add_number("num_layers", transformer.num_layers);
  add_number("hidden_size", transformer.hidden_size);
  add("ffn_hidden_size",
      has_dense_layers ? std::to_string(transformer.ffn_hidden_size) : std::string(kNone));
  add_number("num_attention_heads", transformer.num_attention_heads);
  add_number("num_key_value_heads", transformer.num_key_value_heads);
  add_number("head_dim", transformer.head_dim);
  add_number("vocab_size", transformer.vocab_size);
  add("activation", text_of(transformer.activation));
  add("norm", transformer.norm == NormKind::LayerNorm ? "layernorm" : "rmsnorm");
  add("position", text_of(transformer.position));
  add("tied_embeddings", text_of(transformer.tied_embeddings));
  add("qkv_bias", text_of(transformer.qkv_bias));
  add("attention_output_bias", text_of(transformer.attention_output_bias));
  add("mlp_bias", text_of(transformer.mlp_bias));
  add("norm_bias", text_of(transformer.norm_bias));
  add("qk_norm", text_of(transformer.qk_norm));
  add_experts(transformer, facts);
  return facts;
}

std::string own_config_key(const std::string& key) { return "megatwin." + key; }

model::Result<ModelFacts> stored_facts(const std::string& file, const std::string& text) {
  MEGATWIN_TRY(const scenarios::HuggingfaceModel config,
               scenarios::parse_huggingface_config(file, text));
  MEGATWIN_TRY(const scenarios::Document document, scenarios::parse_json(file, text));
  ModelFacts facts = model_facts(config.transformer);
  for (auto& [key, value] : facts) {
    const scenarios::TreeNode* own = document.root.find(own_config_key(key));
    if (own != nullptr && own->kind == scenarios::TreeKind::Scalar) value = own->text;
  }
  return facts;
}

model::Diagnostics other_model_faults(const std::string& file, const ModelFacts& stored,
                                      const Transformer& wanted, const ModelPlaces& places) {
  const ModelFacts facts = model_facts(wanted);
  MEGATWIN_ASSERT(stored.size() == facts.size(), stored.size(), " facts");
  std::string differences;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    const auto& [key, value] = facts[i];
    MEGATWIN_ASSERT(stored[i].first == key, stored[i].first, " for ", key);
    if (stored[i].second == value) continue;
    differences += (differences.empty() ? "" : "; ") + ("model." + key) + " is " +
                   stored[i].second + " here, " + value + " in the scenario (" +
                   place_of(key, places) + ")";
  }
  if (differences.empty()) return {};
  return {file_problem(file, "is of another model: " + differences,
                       "the same model; plan, sequence length and position limits are free where "
                       "the weights' shapes allow")};
}

}  // namespace megatwin::exec
