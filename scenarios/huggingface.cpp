#include "scenarios/huggingface.h"

#include <algorithm>
#include <optional>
#include <sys/stat.h>
#include <utility>

#include "scenarios/huggingface_config.h"
#include "scenarios/huggingface_language_part.h"
#include "scenarios/huggingface_refusals.h"
#include "scenarios/json_reader.h"

namespace megatwin::scenarios {
namespace {

using model::Transformer;

model::Diagnostic not_a_config(const std::string& file, std::string what) {
  return {.file = file, .message = "is " + std::move(what) + ", not a Hugging Face config.json"};
}

bool has_line_starting(std::string_view text, std::string_view start) {
  if (text.starts_with(start)) return true;
  return text.find("\n" + std::string(start)) != std::string_view::npos;
}

// Files that are often taken for a config.json, before any parsing.
std::optional<model::Diagnostic> recognise_other_text(const std::string& file,
                                                      std::string_view text) {
  if (has_line_starting(text, "trainer:") && has_line_starting(text, "model:")) {
    return not_a_config(file, "a NeMo training file (YAML)");
  }
  if (text.starts_with("<?xml") || text.starts_with("<system") || text.starts_with("<graphs")) {
    return not_a_config(file, "an XML file");
  }
  if (text.starts_with("version https://git-lfs")) {
    return not_a_config(file, "a Git LFS pointer (the file itself was not fetched)");
  }
  return std::nullopt;
}

std::optional<model::Diagnostic> recognise_other_json(const std::string& file,
                                                      const TreeNode& root) {
  if (root.kind != TreeKind::Map) return not_a_config(file, "JSON without an object at its top");
  if (root.find("model_type") != nullptr || root.find("architectures") != nullptr) {
    return std::nullopt;
  }
  if (root.find("_class_name") != nullptr) {
    return not_a_config(file, "the configuration of a diffusion model (diffusers)");
  }
  if (root.find("hidden_dim") != nullptr && root.find("ffn_embed_dim") != nullptr) {
    return not_a_config(file, "a model description of llm-analysis");
  }
  if (root.find("architecture") != nullptr && root.find("mapping") != nullptr) {
    return not_a_config(file, "the configuration of a TensorRT-LLM checkpoint");
  }
  if (root.find("train_batch_size") != nullptr || root.find("zero_optimization") != nullptr) {
    return not_a_config(file, "a DeepSpeed configuration");
  }
  if (root.find("traceEvents") != nullptr) return not_a_config(file, "a trace");
  return std::nullopt;
}

const Family* find_family(const std::string& model_type, const std::string& architecture) {
  for (const Family& family : families()) {
    if (family.model_type == model_type) return &family;
  }
  const std::string_view name = architecture;
  for (const Family& family : families()) {
    if (family.architecture.empty() || !name.starts_with(family.architecture)) continue;
    const std::string_view rest = name.substr(family.architecture.size());
    if (rest.starts_with("For") || rest == "Model") return &family;
  }
  return nullptr;
}

std::string first_architecture(HuggingfaceConfig& config) {
  const TreeNode* list = config.node("architectures");
  if (list == nullptr || list->kind != TreeKind::Sequence || list->items.empty()) return {};
  return list->items.front().text;
}

// Reports an architecture that is known not to be a Transformer; whether it is one.
bool refuse(ReadContext& context, const TreeNode& node, const std::string& path) {
  const TreeNode* type = node.find("model_type");
  if (type == nullptr) return false;
  const std::string_view reason = huggingface_refusal(type->text);
  if (reason.empty()) return false;
  MapReader(context, node, path)
      .error_at(*type, "model_type", quoted(type->text) + ": " + std::string(reason));
  return true;
}

void report_unknown(HuggingfaceConfig& config, const std::string& architecture) {
  const TreeNode& part = config.map().node();
  const TreeNode* type = config.node("model_type");
  const TreeNode place =
      type != nullptr ? *type : TreeNode{.text = architecture, .position = part.position};
  std::string message = "unknown architecture " + quoted(place.text);
  if (const std::string section = llama_written_out(part); !section.empty()) {
    message +=
        "; its sizes are written as a Llama's: if its layers are a Llama's too, give the "
        "scenario " +
        section +
        " instead of the file, with qkv_bias, mlp_bias, qk_norm, "
        "norms_per_layer, sliding_window where it has them";
  }
  config.map().error_at(place, "model_type", std::move(message),
                        allowed_names(place.text, huggingface_families()));
}

void read_common_sizes(HuggingfaceConfig& config, Transformer& transformer) {
  transformer.num_layers = config.needed_size(
      {"num_hidden_layers", "n_layer", "num_layers", "n_layers"}, {.min = 1, .max = 10'000});
  transformer.hidden_size = config.needed_size({"hidden_size", "n_embd", "n_embed", "d_model"});
  transformer.num_attention_heads = config.needed_size(
      {"num_attention_heads", "n_head", "n_heads", "num_heads"}, {.min = 1, .max = 10'000});
  transformer.vocab_size = config.needed_size({"vocab_size", "padded_vocab_size"});
  transformer.max_position_embeddings = config.size_or(
      {"max_position_embeddings", "n_positions", "n_ctx", "seq_length", "max_seq_len"}, 0);
  transformer.dropout = std::max({config.probability({"resid_pdrop", "hidden_dropout", "dropout"}),
                                  config.probability({"attn_pdrop", "attention_dropout"}),
                                  config.probability({"embd_pdrop", "embedding_dropout"})});
}

// What the family readers take for granted, checked once at the end.
void check_shape(HuggingfaceConfig& config, Transformer& transformer) {
  if (transformer.head_dim == 0) {
    transformer.head_dim = transformer.hidden_size / transformer.num_attention_heads;
    if (transformer.head_dim * transformer.num_attention_heads != transformer.hidden_size) {
      config.map().error_at(config.map().node(), "num_attention_heads",
                            std::to_string(transformer.num_attention_heads) +
                                " heads do not divide the hidden size " +
                                std::to_string(transformer.hidden_size) +
                                ", and head_dim is missing");
    }
  }
  if (transformer.num_key_value_heads > 0 &&
      transformer.num_attention_heads % transformer.num_key_value_heads != 0) {
    config.map().error_at(config.map().node(), "num_key_value_heads",
                          std::to_string(transformer.num_key_value_heads) +
                              " key-value heads do not divide the " +
                              std::to_string(transformer.num_attention_heads) + " heads");
  }
  if (transformer.experts &&
      transformer.experts->experts_per_token > transformer.experts->num_experts) {
    config.map().error_at(config.map().node(), "num_experts_per_tok",
                          std::to_string(transformer.experts->experts_per_token) +
                              " experts a token, but there are only " +
                              std::to_string(transformer.experts->num_experts));
  }
  if (transformer.max_position_embeddings > 0 &&
      transformer.sliding_window >= transformer.max_position_embeddings) {
    transformer.sliding_window = 0;
  }
}

auto all_problems(const ReadContext& context, const std::string& file) {
  model::Diagnostics diagnostics = context.diagnostics();
  sort_by_place(diagnostics, file);
  return model::fail(std::move(diagnostics));
}

std::string base_name(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
  if (name != "config.json" || slash == std::string::npos || slash == 0) return name;
  return base_name(path.substr(0, slash));
}

}  // namespace

model::Result<HuggingfaceModel> parse_huggingface_config(const std::string& file,
                                                         std::string_view text) {
  if (const auto other = recognise_other_text(file, text)) return model::fail(*other);
  MEGATWIN_TRY(const Document document, parse_json(file, text));
  if (const auto other = recognise_other_json(file, document.root)) return model::fail(*other);
  ReadContext context(document.sources);
  if (refuse(context, document.root, "")) return model::fail(context.diagnostics());
  const LanguagePart part = language_part(context, document.root);
  if (refuse(context, part.node, part.path)) return model::fail(context.diagnostics());
  HuggingfaceConfig config(context, part.node, part.path);
  // Warned of already, not ignored.
  for (const std::string_view key : kOtherParts) config.node(key);
  const std::string model_type = config.word({"model_type"});
  const std::string architecture = first_architecture(config);
  const Family* family = find_family(model_type, architecture);
  if (family == nullptr) {
    report_unknown(config, architecture);
    return model::fail(context.diagnostics());
  }
  HuggingfaceModel result;
  Transformer& transformer = result.transformer;
  transformer.name = base_name(file);
  transformer.family = family->model_type;
  read_common_sizes(config, transformer);
  if (context.has_error()) return all_problems(context, file);
  family->read(config, transformer);
  check_shape(config, transformer);
  if (context.has_error()) return all_problems(context, file);
  result.warnings = context.diagnostics();
  result.ignored = config.map().leftover_keys();
  return result;
}

model::Result<HuggingfaceModel> load_huggingface_config(const std::string& path) {
  std::string file = path;
  struct stat status = {};
  if (stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    file += path.ends_with('/') ? "config.json" : "/config.json";
  }
  MEGATWIN_TRY(const std::string text, read_file(file));
  return parse_huggingface_config(file, text);
}

std::vector<std::string> huggingface_families() {
  std::vector<std::string> names;
  for (const Family& family : families()) names.emplace_back(family.model_type);
  return names;
}

}  // namespace megatwin::scenarios
