#include "scenarios/huggingface_language_part.h"

#include <utility>

namespace megatwin::scenarios {
namespace {

struct ClassDefault {
  std::string_view model_type;
  std::string_view key;
  std::string_view value;
};

constexpr std::array<ClassDefault, 24> kClassDefaults = {{
    {"llama", "vocab_size", "32000"},
    {"llama", "hidden_size", "4096"},
    {"llama", "intermediate_size", "11008"},
    {"llama", "num_hidden_layers", "32"},
    {"llama", "num_attention_heads", "32"},
    {"mistral", "vocab_size", "32000"},
    {"mistral", "hidden_size", "4096"},
    {"mistral", "intermediate_size", "14336"},
    {"mistral", "num_hidden_layers", "32"},
    {"mistral", "num_attention_heads", "32"},
    {"qwen2", "vocab_size", "151936"},
    {"qwen2", "hidden_size", "4096"},
    {"qwen2", "intermediate_size", "22016"},
    {"qwen2", "num_hidden_layers", "32"},
    {"qwen2", "num_attention_heads", "32"},
    {"qwen2", "num_key_value_heads", "32"},
    {"gemma3_text", "vocab_size", "262208"},
    {"gemma3_text", "hidden_size", "2304"},
    {"gemma3_text", "intermediate_size", "9216"},
    {"gemma3_text", "num_hidden_layers", "26"},
    {"gemma3_text", "num_attention_heads", "8"},
    {"gemma3_text", "num_key_value_heads", "4"},
    {"gemma3_text", "head_dim", "256"},
    {"gemma3_text", "sliding_window", "4096"},
}};

void warn(ReadContext& context, const TreeNode& root, std::string key, std::string message) {
  // What is missing stands on no line.
  const Position file_only{.source = root.position.source};
  context.warning({file_only, std::move(key), std::move(message), ""});
}

void warn_of_other_parts(ReadContext& context, const TreeNode& root) {
  for (const std::string_view key : kOtherParts) {
    if (root.find(key) == nullptr) continue;
    warn(context, root, std::string(key),
         "is left out: only the language model is described, without the tower and the projector");
  }
}

void add_class_defaults(ReadContext& context, LanguagePart& part) {
  const TreeNode* type = part.node.find("model_type");
  if (type == nullptr) return;
  const std::string model_type = type->text;
  for (const ClassDefault& value : kClassDefaults) {
    if (value.model_type != model_type || part.node.find(value.key) != nullptr) continue;
    warn(context, part.node, part.path + "." + std::string(value.key),
         "is missing; " + std::string(value.value) + " is taken, the default of this architecture");
    TreeNode node{
        .kind = TreeKind::Scalar, .text = std::string(value.value), .position = part.node.position};
    part.node.entries.push_back(
        {.key = std::string(value.key), .position = part.node.position, .value = std::move(node)});
  }
}

}  // namespace

LanguagePart language_part(ReadContext& context, const TreeNode& root) {
  warn_of_other_parts(context, root);
  for (const char* key : {"text_config", "llm_config", "language_config"}) {
    const TreeNode* nested = root.find(key);
    if (nested == nullptr || nested->kind != TreeKind::Map) continue;
    LanguagePart part{*nested, key};
    // Such a model writes the tie for all parts at the top.
    for (const TreeEntry& entry : root.entries) {
      const bool missing = entry.key == "tie_word_embeddings" || entry.key == "architectures";
      if (missing && nested->find(entry.key) == nullptr) part.node.entries.push_back(entry);
    }
    add_class_defaults(context, part);
    return part;
  }
  return {root, ""};
}

}  // namespace megatwin::scenarios
