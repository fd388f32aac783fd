#include "scenarios/overrides.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>

#include "scenarios/yaml_reader.h"

namespace megatwin::scenarios {
namespace {

// A key of a map, or with `index` ≥ 0 an item of a list.
struct Step {
  std::string key;
  int index = -1;
};

model::Diagnostic problem(const std::string& option, std::string key, std::string message,
                          std::string allowed = {}) {
  return {.file = option,
          .key = std::move(key),
          .message = std::move(message),
          .allowed = std::move(allowed)};
}

// "cluster.nodes[1].count" in steps; nothing when it is not of that form.
std::optional<std::vector<Step>> steps_of(std::string_view path) {
  std::vector<Step> steps;
  while (!path.empty()) {
    if (path.front() == '[') {
      const std::size_t end = path.find(']');
      if (steps.empty() || end == std::string_view::npos) return std::nullopt;
      Step step{.index = -1};
      const auto [last, error] = std::from_chars(path.data() + 1, path.data() + end, step.index);
      if (error != std::errc{} || last != path.data() + end || step.index < 0) return std::nullopt;
      steps.push_back(step);
      path.remove_prefix(end + 1);
      continue;
    }
    if (path.front() == '.') {
      if (steps.empty()) return std::nullopt;
      path.remove_prefix(1);
    } else if (!steps.empty()) {
      return std::nullopt;
    }
    const std::string_view key = path.substr(0, path.find_first_of(".["));
    if (key.empty()) return std::nullopt;
    steps.push_back({.key = std::string(key)});
    path.remove_prefix(key.size());
  }
  if (steps.empty() || static_cast<int>(steps.size()) > kNestingMax) return std::nullopt;
  return steps;
}

void relocate(TreeNode& node, const Position& position) {
  node.position = position;
  for (TreeNode& item : node.items) relocate(item, position);
  for (TreeEntry& entry : node.entries) {
    entry.position = position;
    relocate(entry.value, position);
  }
}

}  // namespace

model::Result<Setting> parse_setting(const std::string& option, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return model::fail(problem(option, "", quoted(text) + " sets nothing",
                               "a key and its value, such as plan.tensor=4"));
  }
  return Setting{text.substr(0, equals), text.substr(equals + 1)};
}

model::Result<std::vector<Setting>> parse_sweep(const std::string& text) {
  MEGATWIN_TRY(const Setting whole, parse_setting("--sweep", text));
  std::vector<Setting> settings;
  std::string value;
  int depth = 0;
  char quote = '\0';
  for (const char c : whole.value + ",") {
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      settings.push_back({whole.path, std::move(value)});
      value.clear();
      continue;
    }
    value += c;
  }
  if (!value.empty()) settings.push_back({whole.path, value});
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const auto is_same = [&](const Setting& other) { return other.value == settings[i].value; };
    if (settings[i].value.empty()) {
      return model::fail(problem("--sweep", whole.path, "has an empty value",
                                 "values with commas between them, such as plan.tensor=1,2,4"));
    }
    if (std::any_of(settings.begin(), settings.begin() + static_cast<std::ptrdiff_t>(i), is_same)) {
      return model::fail(
          problem("--sweep", whole.path, "names " + quoted(settings[i].value) + " twice"));
    }
  }
  return settings;
}

namespace {

// Only a written null takes a key away: an empty value is more often a shell variable that was not
// set.
bool says_null(std::string_view value) { return value.find_first_of("nN~") < value.find('#'); }

// Takes the last key of `steps` away, so that it is as if it had not been written.
model::Diagnostics remove_key(TreeNode& map, const std::string& option, const std::string& path,
                              const std::string& key) {
  const auto entry = std::find_if(map.entries.begin(), map.entries.end(),
                                  [&](const TreeEntry& e) { return e.key == key; });
  if (entry == map.entries.end()) {
    return {problem(option, path, "is not there to be taken away", "a key of the file")};
  }
  map.entries.erase(entry);
  return {};
}

}  // namespace

model::Diagnostics apply_setting(Document& document, const std::string& option,
                                 const Setting& setting) {
  const auto steps = steps_of(setting.path);
  if (!steps) {
    return {problem(option, "", quoted(setting.path) + " is not the path of a key",
                    "keys joined by dots, items of a list by number: cluster.nodes[1].count")};
  }
  model::Result<TreeNode> value = parse_yaml_value(option, setting.value);
  if (!value) return std::move(value).error();
  if (value->kind == TreeKind::Null && !says_null(setting.value)) {
    return {
        problem(option, setting.path, "has an empty value", "a value; null takes the key away")};
  }
  const Position position{.source = static_cast<int>(document.sources.size())};
  document.sources.push_back({option, setting.path + "=" + setting.value});
  const bool removes = value->kind == TreeKind::Null && steps->back().index < 0;
  TreeNode* node = &document.root;
  std::string walked;
  for (const Step& step : *steps) {
    if (step.index >= 0) {
      walked += "[" + std::to_string(step.index) + "]";
      const auto index = static_cast<std::size_t>(step.index);
      if (node->kind != TreeKind::Sequence || index >= node->items.size()) {
        return {problem(option, walked, "there is no such item")};
      }
      node = &node->items[index];
      continue;
    }
    if (node->kind == TreeKind::Null) node->kind = TreeKind::Map;
    if (node->kind != TreeKind::Map) {
      return {
          problem(option, walked, "is not a map, so that '" + step.key + "' cannot be set in it")};
    }
    walked += (walked.empty() ? "" : ".") + step.key;
    if (removes && &step == &steps->back()) return remove_key(*node, option, walked, step.key);
    TreeNode* child = node->find(step.key);
    if (child == nullptr) {
      node->entries.push_back({step.key, position, TreeNode{.position = position}});
      child = &node->entries.back().value;
    }
    node = child;
  }
  *node = *std::move(value);
  relocate(*node, position);
  return {};
}

}  // namespace megatwin::scenarios
