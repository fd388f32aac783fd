#include "scenarios/huggingface_refusals.h"

#include <algorithm>
#include <array>
#include <vector>

namespace megatwin::scenarios {
namespace {

struct Refusal {
  std::string_view reason;
  std::vector<std::string_view> model_types;
};

const std::vector<Refusal>& refusals() {
  static const std::vector<Refusal> all = {
      {"three of four layers are gated linear attention, which is not modelled",
       {"qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "kimi_linear"}},
      {"seven of eight layers are linear attention (lightning attention), which is not modelled",
       {"minimax", "minimax_text_01", "minimax_m1"}},
      {"its layers are state-space or recurrent ones, which are not modelled",
       {"mamba", "mamba2", "falcon_mamba", "rwkv", "xlstm"}},
      {"layers with a state space (Mamba) stand between or beside those with attention, which is "
       "not modelled",
       {"jamba", "nemotron_h", "falcon_h1", "bamba", "granitemoehybrid", "zamba", "zamba2"}},
      {"two of three layers are recurrent ones, which are not modelled", {"recurrent_gemma"}},
      {"layers with short convolutions stand between those with attention, which is not modelled",
       {"lfm2", "lfm2_moe", "lfm2_vl"}},
      {"is an encoder and a decoder; only decoders are modelled",
       {"t5", "mt5", "umt5", "longt5", "t5gemma", "switch_transformers", "bart", "mbart", "led",
        "pegasus", "marian", "m2m_100", "nllb-moe", "blenderbot", "whisper", "speech_to_text"}},
      {"is an encoder; only decoders are modelled",
       {"bert", "roberta", "xlm-roberta", "distilbert", "albert", "electra", "deberta",
        "deberta-v2", "modernbert", "vit", "dinov2", "clip", "clip_text_model", "siglip",
        "wav2vec2"}},
      {"is a diffusion model of text, which reads a sequence many times and both ways; only "
       "decoders are modelled",
       {"llada", "Dream"}},
      {"some layers attend to the picture and not to the text (cross-attention), which is not "
       "modelled",
       {"mllama", "mllama_text_model"}},
      {"its lightning indexer adds parameters to every attention, which are not modelled",
       {"deepseek_v32", "glm_moe_dsa"}},
      {"its LayerNorm has no parameters, which is not modelled", {"olmo"}},
      {"its layers differ from each other in their heads and widths, which is not modelled",
       {"openelm", "nemotron-nas", "deci"}},
      {"every layer has an embedding of its own and several streams (AltUp), which is not modelled",
       {"gemma3n", "gemma3n_text"}},
      {"every layer has two attentions, and some experts compute nothing, which is not modelled",
       {"longcat_flash"}}};
  return all;
}

const std::string* scalar(const TreeNode& config, std::string_view key) {
  const TreeNode* value = config.find(key);
  return value != nullptr && value->kind == TreeKind::Scalar ? &value->text : nullptr;
}

bool is_off(const TreeNode& value) {
  return value.kind == TreeKind::Null || value.text == "false" || value.text == "0";
}

// Of what a Llama has not.
bool tells_of_more(const TreeEntry& entry) {
  constexpr std::array<std::string_view, 13> kTold = {
      "expert", "moe",     "ssm",     "mamba",           "linear_", "conv",         "lora",
      "rank",   "indexer", "encoder", "cross_attention", "recurr",  "block_configs"};
  return !is_off(entry.value) &&
         std::any_of(kTold.begin(), kTold.end(), [&](std::string_view word) {
           return entry.key.find(word) != std::string::npos;
         });
}

bool only_attention(const TreeNode& config) {
  const TreeNode* types = config.find("layer_types");
  if (types == nullptr) return true;
  return std::all_of(types->items.begin(), types->items.end(), [](const TreeNode& type) {
    return type.text == "full_attention" || type.text == "sliding_attention";
  });
}

struct OtherName {
  std::string_view from;  // In config.json.
  std::string_view to;    // In a scenario.
  bool needed = false;
};

constexpr std::array<OtherName, 9> kOtherNames = {
    {{"num_hidden_layers", "num_layers", true},
     {"hidden_size", "hidden_size", true},
     {"intermediate_size", "ffn_hidden_size", true},
     {"num_attention_heads", "num_attention_heads", true},
     {"num_key_value_heads", "num_key_value_heads"},
     {"head_dim", "head_dim"},
     {"vocab_size", "vocab_size", true},
     {"max_position_embeddings", "max_position_embeddings"},
     {"tie_word_embeddings", "tied_embeddings"}}};

}  // namespace

std::string_view huggingface_refusal(std::string_view model_type) {
  for (const Refusal& refusal : refusals()) {
    const auto& types = refusal.model_types;
    if (std::find(types.begin(), types.end(), model_type) != types.end()) return refusal.reason;
  }
  return {};
}

std::string llama_written_out(const TreeNode& config) {
  const bool more = std::any_of(config.entries.begin(), config.entries.end(), tells_of_more);
  if (more || !only_attention(config)) return {};
  std::string section = "model: {family: llama";
  for (const OtherName& key : kOtherNames) {
    const std::string* value = scalar(config, key.from);
    if (value == nullptr && key.needed) return {};
    if (value != nullptr) section += ", " + std::string(key.to) + ": " + *value;
  }
  return section + "}";
}

}  // namespace megatwin::scenarios
