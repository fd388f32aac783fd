#include "exec/huggingface_state.h"

#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "exec/stored_model.h"
#include "model/assert.h"

namespace megatwin::exec {
namespace {

using model::Transformer;

struct NamePair {
  std::string_view gpt2, own;
};
// Outside of the layers, and behind "h.N." and "model.layers.N.".
constexpr std::array kGlobalNames = {
    NamePair{"wte.weight", "model.embed_tokens.weight"},
    NamePair{"wpe.weight", "model.embed_positions.weight"},
    NamePair{"ln_f.weight", "model.norm.weight"},
    NamePair{"ln_f.bias", "model.norm.bias"},
};
constexpr std::array kVectorNames = {
    NamePair{"ln_1.weight", "input_layernorm.weight"},
    NamePair{"ln_1.bias", "input_layernorm.bias"},
    NamePair{"attn.c_proj.bias", "self_attn.o_proj.bias"},
    NamePair{"ln_2.weight", "post_attention_layernorm.weight"},
    NamePair{"ln_2.bias", "post_attention_layernorm.bias"},
    NamePair{"mlp.c_fc.bias", "mlp.up_proj.bias"},
    NamePair{"mlp.c_proj.bias", "mlp.down_proj.bias"},
};
constexpr std::array kTransposedNames = {
    NamePair{"attn.c_proj.weight", "self_attn.o_proj.weight"},
    NamePair{"mlp.c_fc.weight", "mlp.up_proj.weight"},
    NamePair{"mlp.c_proj.weight", "mlp.down_proj.weight"},
};
constexpr std::array<std::string_view, 3> kProjections = {"q_proj", "k_proj", "v_proj"};

std::vector<float> transposed(const std::vector<float>& values, std::int64_t rows,
                              std::int64_t columns) {
  std::vector<float> out(values.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      out[static_cast<std::size_t>(column * rows + row)] =
          values[static_cast<std::size_t>(row * columns + column)];
    }
  }
  return out;
}

std::string layer_prefix(std::int64_t layer) {
  return "model.layers." + std::to_string(layer) + ".";
}

// A vector is a matrix of one column here, and has one dimension there.
Tensor as_stored(std::string name, const WholeParameter& whole) {
  Tensor tensor{.name = std::move(name), .shape = {whole.rows}, .values = whole.weights};
  if (whole.columns > 1) tensor.shape.push_back(whole.columns);
  return tensor;
}

WholeParameter as_held(Tensor tensor) {
  WholeParameter whole{.rows = tensor.shape.empty() ? 1 : tensor.shape[0],
                       .columns = tensor.shape.size() > 1 ? tensor.shape[1] : 1,
                       .weights = std::move(tensor.values)};
  return whole;
}

void add_gpt2_layer(const ModelState& state, std::int64_t layer, std::vector<Tensor>& tensors) {
  const std::string own = layer_prefix(layer);
  const std::string gpt2 = "transformer.h." + std::to_string(layer) + ".";
  const auto add_qkv = [&](const std::string& kind) {
    WholeParameter joined;
    for (const std::string_view projection : kProjections) {
      const WholeParameter& part = state.at(own + "self_attn." + std::string(projection) + kind);
      joined.rows += part.rows;
      joined.columns = part.columns;
      joined.weights.insert(joined.weights.end(), part.weights.begin(), part.weights.end());
    }
    Tensor tensor = as_stored(gpt2 + "attn.c_attn" + kind, joined);
    if (joined.columns > 1) {
      tensor.values = transposed(joined.weights, joined.rows, joined.columns);
      tensor.shape = {joined.columns, joined.rows};
    }
    tensors.push_back(std::move(tensor));
  };
  add_qkv(".weight");
  add_qkv(".bias");
  for (const NamePair& name : kVectorNames) {
    tensors.push_back(
        as_stored(gpt2 + std::string(name.gpt2), state.at(own + std::string(name.own))));
  }
  for (const NamePair& name : kTransposedNames) {
    const WholeParameter& whole = state.at(own + std::string(name.own));
    tensors.push_back({.name = gpt2 + std::string(name.gpt2),
                       .shape = {whole.columns, whole.rows},
                       .values = transposed(whole.weights, whole.rows, whole.columns)});
  }
}

// c_attn: (hidden, queries + keys + values), or a bias as wide as that.
void split_qkv(const Tensor& tensor, const std::string& own, const std::string& kind,
               ModelState& state) {
  const bool is_matrix = tensor.shape.size() > 1;
  const std::int64_t rows = tensor.shape.back() / 3;
  const std::int64_t columns = is_matrix ? tensor.shape[0] : 1;
  const std::vector<float> values =
      is_matrix ? transposed(tensor.values, tensor.shape[0], tensor.shape[1]) : tensor.values;
  const auto size = static_cast<std::ptrdiff_t>(rows * columns);
  for (std::size_t part = 0; part < kProjections.size(); ++part) {
    const auto from = values.begin() + static_cast<std::ptrdiff_t>(part) * size;
    state[own + "self_attn." + std::string(kProjections[part]) + kind] = {
        .rows = rows, .columns = columns, .weights = {from, from + size}};
  }
}

void hold_gpt2_layer(Tensor tensor, const std::string& own, std::string_view name,
                     ModelState& state) {
  if (name == "attn.c_attn.weight" || name == "attn.c_attn.bias") {
    split_qkv(tensor, own, name.ends_with("weight") ? ".weight" : ".bias", state);
    return;
  }
  for (const NamePair& pair : kTransposedNames) {
    if (pair.gpt2 != name || tensor.shape.size() != 2) continue;
    state[own + std::string(pair.own)] = {
        .rows = tensor.shape[1],
        .columns = tensor.shape[0],
        .weights = transposed(tensor.values, tensor.shape[0], tensor.shape[1])};
    return;
  }
  for (const NamePair& pair : kVectorNames) {
    if (pair.gpt2 != name) continue;
    state[own + std::string(pair.own)] = as_held(std::move(tensor));
    return;
  }
}

void hold_gpt2(Tensor tensor, ModelState& state) {
  std::string_view name = tensor.name;
  if (name.starts_with("transformer.")) name.remove_prefix(12);
  if (name == "lm_head.weight") {
    state["lm_head.weight"] = as_held(std::move(tensor));
    return;
  }
  for (const NamePair& pair : kGlobalNames) {
    if (pair.gpt2 != name) continue;
    state[std::string(pair.own)] = as_held(std::move(tensor));
    return;
  }
  if (!name.starts_with("h.")) return;
  std::int64_t layer = 0;
  const auto [rest, error] = std::from_chars(name.data() + 2, name.data() + name.size(), layer);
  if (error != std::errc() || *rest != '.') return;
  const std::string own =
      std::string(name.substr(static_cast<std::size_t>(rest - name.data()) + 1));
  hold_gpt2_layer(std::move(tensor), layer_prefix(layer), own, state);
}

// A table of positions may be longer than what the model reads of it.
void cut_positions(const Transformer& transformer, ModelState& state) {
  const auto found = state.find("model.embed_positions.weight");
  if (found == state.end() || found->second.rows <= transformer.sequence_length) return;
  WholeParameter& table = found->second;
  table.rows = transformer.sequence_length;
  table.weights.resize(static_cast<std::size_t>(table.rows * table.columns));
}

class ConfigText {
 public:
  void add(const std::string& key, const std::string& value) {
    text_ += (text_.empty() ? "{\n  \"" : ",\n  \"") + key + "\": " + value;
  }
  void add(const std::string& key, std::int64_t value) { add(key, std::to_string(value)); }
  void add(const std::string& key, bool value) { add(key, std::string(value ? "true" : "false")); }
  void add_word(const std::string& key, const std::string& word) { add(key, "\"" + word + "\""); }
  std::string finish() const { return text_ + "\n}\n"; }

 private:
  std::string text_;
};

struct Family {
  std::string architecture, type;
};

Family family_of(const Transformer& transformer) {
  if (is_stored_as_gpt2(transformer)) return {"GPT2LMHeadModel", "gpt2"};
  if (transformer.experts) return {"MixtralForCausalLM", "mixtral"};
  return {"LlamaForCausalLM", "llama"};
}

}  // namespace

bool is_stored_as_gpt2(const Transformer& transformer) {
  return transformer.position == model::PositionKind::Learned &&
         transformer.norm == model::NormKind::LayerNorm &&
         transformer.activation == model::ActivationKind::Gelu && transformer.norm_bias &&
         transformer.qkv_bias && transformer.attention_output_bias && transformer.mlp_bias &&
         transformer.num_key_value_heads == transformer.num_attention_heads &&
         transformer.head_dim * transformer.num_attention_heads == transformer.hidden_size &&
         !transformer.experts;
}

std::vector<Tensor> huggingface_tensors(const Transformer& transformer, const ModelState& state) {
  std::vector<Tensor> tensors;
  if (!is_stored_as_gpt2(transformer)) {
    for (const auto& [name, whole] : state) tensors.push_back(as_stored(name, whole));
    return tensors;
  }
  for (const NamePair& name : kGlobalNames) {
    tensors.push_back(
        as_stored("transformer." + std::string(name.gpt2), state.at(std::string(name.own))));
  }
  for (std::int64_t layer = 0; layer < transformer.num_layers; ++layer) {
    add_gpt2_layer(state, layer, tensors);
  }
  const auto head = state.find("lm_head.weight");
  if (head != state.end()) tensors.push_back(as_stored("lm_head.weight", head->second));
  return tensors;
}

ModelState state_of_huggingface(const Transformer& transformer, std::vector<Tensor> tensors) {
  ModelState state;
  for (Tensor& tensor : tensors) {
    if (is_stored_as_gpt2(transformer)) {
      hold_gpt2(std::move(tensor), state);
    } else {
      std::string name = tensor.name;
      state[std::move(name)] = as_held(std::move(tensor));
    }
  }
  cut_positions(transformer, state);
  const auto embedding = state.find("model.embed_tokens.weight");
  if (state.count("lm_head.weight") == 0 && embedding != state.end()) {
    const WholeParameter copy = embedding->second;
    state["lm_head.weight"] = copy;
  }
  return state;
}

namespace {

// In the words of the architecture that it is nearest to.
ConfigText nearest_config(const Transformer& transformer) {
  ConfigText text;
  const Family family = family_of(transformer);
  text.add("architectures", "[\"" + family.architecture + "\"]");
  text.add_word("model_type", family.type);
  text.add_word("torch_dtype", "float32");
  text.add("vocab_size", transformer.vocab_size);
  text.add("tie_word_embeddings", transformer.tied_embeddings);
  if (is_stored_as_gpt2(transformer)) {
    text.add_word("activation_function", "gelu_new");
    text.add("layer_norm_epsilon", std::string("1e-05"));
    text.add("n_embd", transformer.hidden_size);
    text.add("n_head", transformer.num_attention_heads);
    text.add("n_inner", transformer.ffn_hidden_size);
    text.add("n_layer", transformer.num_layers);
    text.add("n_positions", transformer.sequence_length);
    text.add("bos_token_id", std::string("null"));
    text.add("eos_token_id", std::string("null"));
    for (const char* dropout : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) {
      text.add(dropout, std::string("0.0"));
    }
    return text;
  }
  text.add("attention_bias", transformer.qkv_bias && transformer.attention_output_bias);
  text.add("mlp_bias", transformer.mlp_bias);
  text.add("head_dim", transformer.head_dim);
  text.add_word("hidden_act", "silu");
  text.add("hidden_size", transformer.hidden_size);
  text.add("intermediate_size", transformer.experts ? transformer.experts->expert_ffn_size
                                                    : transformer.ffn_hidden_size);
  if (transformer.experts) {
    text.add("num_local_experts", transformer.experts->num_experts);
    text.add("num_experts_per_tok", transformer.experts->experts_per_token);
  }
  text.add("max_position_embeddings",
           std::max(transformer.max_position_embeddings, transformer.sequence_length));
  text.add("num_attention_heads", transformer.num_attention_heads);
  text.add("num_hidden_layers", transformer.num_layers);
  text.add("num_key_value_heads", transformer.num_key_value_heads);
  text.add("rms_norm_eps", std::string("1e-05"));
  text.add("rope_theta", std::string("10000.0"));
  text.add("bos_token_id", std::string("null"));
  text.add("eos_token_id", std::string("null"));
  return text;
}

}  // namespace

std::string huggingface_config_text(const Transformer& transformer) {
  ConfigText text = nearest_config(transformer);
  const ModelFacts facts = model_facts(transformer);
  const auto read = stored_facts("config.json", text.finish());
  for (std::size_t i = 0; read && i < facts.size(); ++i) {
    if (facts[i] != (*read)[i]) text.add_word(own_config_key(facts[i].first), facts[i].second);
  }
  return text.finish();
}

}  // namespace megatwin::exec
