#include "scenarios/scenario_document.h"

#include <utility>

#include "scenarios/overrides.h"
#include "scenarios/yaml_reader.h"

namespace megatwin::scenarios {

model::Result<Document> scenario_document(const std::string& file, std::string_view text,
                                          const ScenarioOptions& options) {
  MEGATWIN_TRY(Document document, parse_yaml(file, text));
  model::Diagnostics diagnostics;
  const auto apply = [&](const std::string& option, const std::string& given) {
    const model::Result<Setting> setting = parse_setting(option, given);
    const model::Diagnostics problems =
        setting ? apply_setting(document, option, *setting) : setting.error();
    diagnostics.insert(diagnostics.end(), problems.begin(), problems.end());
  };
  for (const std::string& given : options.set) apply("--set", given);
  for (const auto& [option, given] : options.implied) apply(option, given);
  if (!diagnostics.empty()) return model::fail(std::move(diagnostics));
  return document;
}

std::map<std::string, std::string> places_in(const Document& document, std::string_view section) {
  std::map<std::string, std::string> places;
  const TreeNode* node = document.root.find(section);
  if (node == nullptr) return places;
  for (const TreeEntry& entry : node->entries) {
    const Position& at = entry.value.position;
    const std::string& file = document.sources[static_cast<std::size_t>(at.source)].file;
    places[entry.key] = at.line > 0 ? file + ":" + std::to_string(at.line) : file;
  }
  return places;
}

}  // namespace megatwin::scenarios
