#include "scenarios/model_reader.h"

#include <algorithm>

#include "scenarios/huggingface.h"
#include "scenarios/transformer_reader.h"
#include "scenarios/zoo.h"

namespace megatwin::scenarios {
namespace {

using model::PositionKind;
using model::Transformer;

// Longer sequences are trained, but never because somebody forgot to say how long.
constexpr std::int64_t kDefaultSequenceMax = 8192;

// A model before its fields are replaced.
struct BaseModel {
  Transformer transformer;
  bool positions_follow_sequence = false;
};

BaseModel from_huggingface(MapReader& reader, const TreeNode& node, const std::string& folder,
                           Remarks& remarks) {
  const model::Result<HuggingfaceModel> config =
      load_huggingface_config(resolved_path(node, folder));
  if (!config) {
    reader.error_at(node, "hf", quoted(node.text) + " cannot be read as a model",
                    "the path of a Hugging Face config.json");
    reader.context().append(config.error());
    return {};
  }
  for (const model::Diagnostic& warning : config->warnings) {
    remarks.warnings.push_back(node.text + ": " + warning.key + " " + warning.message);
  }
  return {.transformer = config->transformer};
}

BaseModel from_zoo(MapReader& reader, const TreeNode& node) {
  const std::optional<ZooModel> zoo = find_zoo_model(node.text);
  if (!zoo) {
    reader.unknown_word(node, "name", zoo_names(), "model");
    return {};
  }
  return {.transformer = zoo->transformer,
          .positions_follow_sequence = zoo->positions_follow_sequence};
}

BaseModel from_fields(MapReader& reader, Remarks& remarks) {
  const auto family =
      reader.choice<std::string_view>("family", {{"gpt", "gpt"}, {"llama", "llama"}});
  if (!reader.has("family")) {
    remarks.assumptions.push_back(
        "The model's family was not given: llama is taken (RMSNorm, SwiGLU, rotary positions, no "
        "biases).");
  }
  BaseModel base{.transformer = transformer_of_family(family.value_or("llama")),
                 .positions_follow_sequence = true};
  base.transformer.name = "custom";
  return base;
}

BaseModel read_base(MapReader& reader, const std::string& folder, Remarks& remarks) {
  const TreeNode* hf = reader.find("hf");
  const TreeNode* name = reader.find("name");
  if (hf != nullptr && name != nullptr) {
    reader.error_at(*name, "name", "the model is given twice, by hf and by name",
                    "either hf or name");
    return {};
  }
  if (hf != nullptr) {
    return reader.is_scalar(*hf, "hf") ? from_huggingface(reader, *hf, folder, remarks)
                                       : BaseModel{};
  }
  if (name != nullptr) {
    return reader.is_scalar(*name, "name") ? from_zoo(reader, *name) : BaseModel{};
  }
  return from_fields(reader, remarks);
}

void complete_sequence(const BaseModel& base, Transformer& transformer, Remarks& remarks) {
  if (transformer.sequence_length == 0) {
    const std::int64_t positions = transformer.max_position_embeddings;
    transformer.sequence_length =
        positions > 0 ? std::min(positions, kDefaultSequenceMax) : kDefaultSequenceMax;
    remarks.assumptions.push_back(
        "The sequence length was not given: " + std::to_string(transformer.sequence_length) +
        " tokens are taken.");
  }
  if (transformer.position != PositionKind::Learned) return;
  if (base.positions_follow_sequence &&
      base.transformer.max_position_embeddings == transformer.max_position_embeddings) {
    transformer.max_position_embeddings = transformer.sequence_length;
  }
  if (transformer.sequence_length > transformer.max_position_embeddings) {
    remarks.assumptions.push_back("The sequence is longer than the table of learned positions (" +
                                  std::to_string(transformer.max_position_embeddings) +
                                  "): the table is taken to be as long as the sequence.");
    transformer.max_position_embeddings = transformer.sequence_length;
  }
}

}  // namespace

std::string resolved_path(const TreeNode& node, const std::string& folder) {
  const bool from_command_line = node.position.line == 0;
  if (node.text.starts_with('/') || folder.empty() || from_command_line) return node.text;
  return folder + "/" + node.text;
}

Transformer read_model(MapReader& reader, const std::string& folder, Remarks& remarks) {
  const std::size_t errors_before = reader.context().diagnostics().size();
  const BaseModel base = read_base(reader, folder, remarks);
  Transformer transformer = base.transformer;
  const bool has_base = reader.context().diagnostics().size() == errors_before;
  read_transformer_fields(reader, transformer);
  // Without a base, every field would be reported as missing, which helps nobody.
  if (has_base) complete_transformer(reader, transformer, remarks.assumptions);
  complete_sequence(base, transformer, remarks);
  reader.finish();
  return transformer;
}

}  // namespace megatwin::scenarios
