#include "scenarios/zoo.h"

#include <algorithm>
#include <string_view>

#include "model/assert.h"
#include "scenarios/embedded_text.h"
#include "scenarios/map_reader.h"
#include "scenarios/transformer_reader.h"
#include "scenarios/yaml_reader.h"

namespace megatwin::scenarios {
namespace {

// `like` chains are two long at most; more would be a loop in our own file.
constexpr int kLikeMax = 4;

ZooModel read_entry(const std::string& name, int depth) {
  MEGATWIN_ASSERT(depth < kLikeMax, "zoo.yaml: like leads in a circle at ", name);
  const model::Result<Document> document = parse_yaml("zoo.yaml", yaml_section(zoo_yaml(), name));
  MEGATWIN_ASSERT(document.has_value(), to_text(document.error()));
  ReadContext context(document->sources);
  const TreeNode* entry = document->root.find(name);
  MEGATWIN_ASSERT(entry != nullptr, "zoo.yaml has no ", name);
  MapReader reader(context, *entry, name);
  ZooModel zoo;
  if (const auto like = reader.text("like")) {
    const ZooModel other = read_entry(*like, depth + 1);
    zoo.transformer = other.transformer;
    zoo.positions_follow_sequence = other.positions_follow_sequence;
  } else if (const auto family = reader.text("family")) {
    zoo.transformer = transformer_of_family(*family == "gpt" ? "gpt" : "llama");
    zoo.transformer.family = *family;
  }
  read_transformer_fields(reader, zoo.transformer);
  zoo.published = reader.text("published").value_or("");
  zoo.published_active = reader.text("published_active").value_or("");
  zoo.published_tolerance = reader.number("published_tolerance", {.min = 0, .max = 1}).value_or(0);
  std::vector<std::string> assumptions;
  complete_transformer(reader, zoo.transformer, assumptions);
  reader.finish();
  model::Transformer& transformer = zoo.transformer;
  if (transformer.position == model::PositionKind::Learned &&
      transformer.max_position_embeddings == 0) {
    zoo.positions_follow_sequence = true;
    transformer.max_position_embeddings = transformer.sequence_length;
  }
  MEGATWIN_ASSERT(!context.has_error(), to_text(context.diagnostics()));
  zoo.transformer.name = name;
  return zoo;
}

}  // namespace

std::vector<std::string> zoo_names() {
  std::vector<std::string> names;
  std::string_view text = zoo_yaml();
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const bool starts_block = !line.empty() && line.front() != ' ' && line.front() != '#';
    if (starts_block && line.find(':') != std::string_view::npos) {
      names.emplace_back(line.substr(0, line.find(':')));
    }
  }
  return names;
}

std::optional<ZooModel> find_zoo_model(const std::string& name) {
  const std::vector<std::string> names = zoo_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) return std::nullopt;
  return read_entry(name, 0);
}

}  // namespace megatwin::scenarios
