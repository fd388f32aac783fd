#include "scenarios/map_reader.h"

#include <algorithm>

namespace megatwin::scenarios {
namespace {

constexpr std::size_t kDiagnosticsMax = 100;
constexpr std::size_t kNamesMax = 30;

std::string_view kind_in_words(TreeKind kind) {
  switch (kind) {
    case TreeKind::Null:
      return "nothing";
    case TreeKind::Scalar:
      return "a single value";
    case TreeKind::Sequence:
      return "a list";
    case TreeKind::Map:
      return "a map";
  }
  return "nothing";
}

// A key as part of a path: printable, and no longer than a message can hold.
std::string shortened(const std::string& key) {
  const std::string text = quoted(key);
  return text.substr(1, text.size() - 2);
}

}  // namespace

void ReadContext::error(Finding finding) {
  has_error_ = true;
  if (diagnostics_.size() < kDiagnosticsMax) {
    diagnostics_.push_back(diagnostic_at(sources_, std::move(finding)));
  }
}

void ReadContext::warning(Finding finding) {
  if (diagnostics_.size() >= kDiagnosticsMax) return;
  diagnostics_.push_back(diagnostic_at(sources_, std::move(finding)));
  diagnostics_.back().severity = model::Diagnostic::Severity::Warning;
}

void ReadContext::append(const model::Diagnostics& diagnostics) {
  has_error_ = has_error_ || model::has_error(diagnostics);
  diagnostics_.insert(diagnostics_.end(), diagnostics.begin(), diagnostics.end());
}

MapReader::MapReader(ReadContext& context, const TreeNode& node, std::string path)
    : context_(context), node_(node), path_(std::move(path)) {
  if (node.kind == TreeKind::Map || node.kind == TreeKind::Null) return;
  context_.error({node.position, path_,
                  "holds " + std::string(kind_in_words(node.kind)) + "; a map of keys is expected",
                  ""});
}

std::string MapReader::path_of(std::string_view key) const {
  if (path_.empty()) return std::string(key);
  return key.empty() ? path_ : path_ + "." + std::string(key);
}

const TreeNode* MapReader::find_or_null(std::string_view key) {
  if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.emplace_back(key);
  return node_.find(key);
}

const TreeNode* MapReader::find(std::string_view key) {
  const TreeNode* value = find_or_null(key);
  if (value == nullptr || value->kind != TreeKind::Null) return value;
  if (std::find(reported_empty_.begin(), reported_empty_.end(), key) == reported_empty_.end()) {
    reported_empty_.emplace_back(key);
    // A parser knows where the key stands, but can only guess where nothing stands.
    const auto entry = std::find_if(node_.entries.begin(), node_.entries.end(),
                                    [&](const TreeEntry& e) { return e.key == key; });
    context_.error({entry->position, path_of(key), "has no value", ""});
  }
  return nullptr;
}

void MapReader::error_at(const TreeNode& node, std::string_view key, std::string message,
                         std::string allowed) {
  context_.error({node.position, path_of(key), std::move(message), std::move(allowed)});
}

void MapReader::unknown_word(const TreeNode& node, std::string_view key,
                             const std::vector<std::string>& names, std::string_view what) {
  const std::string kind = what.empty() ? "value" : std::string(what);
  error_at(node, key, "unknown " + kind + " " + quoted(node.text), allowed_names(node.text, names));
}

bool MapReader::is_scalar(const TreeNode& node, std::string_view key) {
  if (node.kind == TreeKind::Scalar) return true;
  error_at(node, key,
           "holds " + std::string(kind_in_words(node.kind)) + "; a single value is expected");
  return false;
}

std::optional<std::string> MapReader::text(std::string_view key) {
  const TreeNode* node = find(key);
  if (node == nullptr || !is_scalar(*node, key)) return std::nullopt;
  if (node->text.empty()) {
    error_at(*node, key, "is empty");
    return std::nullopt;
  }
  return node->text;
}

std::optional<std::int64_t> MapReader::integer(std::string_view key, IntegerRange range) {
  return parsed<std::int64_t>(find(key), key,
                              [&](std::string_view t) { return parse_integer(t, range); });
}

std::optional<double> MapReader::number(std::string_view key, NumberRange range) {
  return parsed<double>(find(key), key, [&](std::string_view t) { return parse_number(t, range); });
}

std::optional<bool> MapReader::boolean(std::string_view key) {
  return parsed<bool>(find(key), key, [](std::string_view t) { return parse_boolean(t); });
}

std::optional<std::vector<std::int64_t>> MapReader::integers(std::string_view key,
                                                             IntegerRange range) {
  const TreeNode* node = find(key);
  if (node == nullptr) return std::nullopt;
  if (node->kind != TreeKind::Sequence) {
    error_at(*node, key, "holds " + std::string(kind_in_words(node->kind)) + "; a list is expected",
             "whole numbers in brackets, such as [4, 4, 5]");
    return std::nullopt;
  }
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < node->items.size(); ++i) {
    const std::string item_key = std::string(key) + "[" + std::to_string(i) + "]";
    const auto value = parsed<std::int64_t>(
        &node->items[i], item_key, [&](std::string_view t) { return parse_integer(t, range); });
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

void MapReader::require(std::string_view key, std::string_view allowed) {
  if (find_or_null(key) != nullptr) return;
  if (node_.kind != TreeKind::Map && node_.kind != TreeKind::Null) return;
  context_.error({node_.position, path_of(key), "is missing", std::string(allowed)});
}

std::vector<std::string> MapReader::leftover_keys() const {
  std::vector<std::string> keys;
  for (const TreeEntry& entry : node_.entries) {
    if (std::find(asked_.begin(), asked_.end(), entry.key) == asked_.end()) {
      keys.push_back(entry.key);
    }
  }
  return keys;
}

void MapReader::finish() {
  for (const TreeEntry& entry : node_.entries) {
    if (std::find(asked_.begin(), asked_.end(), entry.key) != asked_.end()) continue;
    context_.error({entry.position, path_of(shortened(entry.key)), "unknown key",
                    allowed_names(entry.key, asked_)});
  }
}

void sort_by_place(model::Diagnostics& diagnostics, const std::string& file) {
  std::stable_sort(diagnostics.begin(), diagnostics.end(),
                   [&](const model::Diagnostic& a, const model::Diagnostic& b) {
                     const bool a_elsewhere = a.file != file;
                     const bool b_elsewhere = b.file != file;
                     if (a_elsewhere || b_elsewhere) return a_elsewhere < b_elsewhere;
                     return std::pair(a.line, a.column) < std::pair(b.line, b.column);
                   });
}

std::string allowed_names(const std::string& word, const std::vector<std::string>& names) {
  std::string list;
  for (std::size_t i = 0; i < names.size() && i < kNamesMax; ++i) {
    list += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kNamesMax) list += ", …";
  // A word of a thousand letters is nobody's typing error, and the distance costs its square.
  const std::string nearest = word.size() > 100 ? "" : model::nearest_word(word, names);
  if (!nearest.empty()) list += "; did you mean '" + nearest + "'?";
  return list;
}

}  // namespace megatwin::scenarios
