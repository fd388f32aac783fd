#include "scenarios/huggingface_config.h"

namespace megatwin::scenarios {

std::string_view HuggingfaceConfig::present(Aliases aliases) {
  std::string_view found;
  for (const std::string_view alias : aliases) {
    const TreeNode* value = map_.find_or_null(alias);
    if (found.empty() && value != nullptr && value->kind != TreeKind::Null) found = alias;
  }
  return found;
}

std::optional<std::int64_t> HuggingfaceConfig::size(Aliases aliases, IntegerRange range) {
  const std::string_view key = present(aliases);
  if (key.empty()) return std::nullopt;
  return map_.integer(key, range);
}

std::int64_t HuggingfaceConfig::needed_size(Aliases aliases, IntegerRange range) {
  if (present(aliases).empty()) {
    std::string names;
    for (const std::string_view alias : aliases) {
      names += (names.empty() ? "" : ", ") + std::string(alias);
    }
    map_.error_at(map_.node(), *aliases.begin(), "is missing",
                  "a whole number" + (aliases.size() > 1 ? " under one of " + names : ""));
    return 0;
  }
  return size(aliases, range).value_or(0);
}

std::int64_t HuggingfaceConfig::size_or(Aliases aliases, std::int64_t fallback,
                                        IntegerRange range) {
  return size(aliases, range).value_or(fallback);
}

std::int64_t HuggingfaceConfig::size_or_warn(Aliases aliases, std::int64_t fallback,
                                             std::string_view reason, IntegerRange range) {
  if (present(aliases).empty()) {
    warn(*aliases.begin(),
         "is missing; " + std::to_string(fallback) + " is taken, " + std::string(reason));
    return fallback;
  }
  return size_or(aliases, fallback, range);
}

bool HuggingfaceConfig::flag(Aliases aliases, bool fallback) {
  const std::string_view key = present(aliases);
  return key.empty() ? fallback : map_.boolean(key).value_or(fallback);
}

bool HuggingfaceConfig::flag_or_warn(std::string_view key, bool fallback) {
  if (present({key}).empty()) {
    warn(key, std::string("is missing; ") + (fallback ? "true" : "false") +
                  " is taken, the default of this architecture");
  }
  return flag({key}, fallback);
}

std::string HuggingfaceConfig::word(Aliases aliases, std::string_view fallback) {
  const std::string_view key = present(aliases);
  if (key.empty()) return std::string(fallback);
  return map_.text(key).value_or(std::string(fallback));
}

double HuggingfaceConfig::probability(Aliases aliases) {
  const std::string_view key = present(aliases);
  return key.empty() ? 0 : map_.number(key, {.min = 0, .max = 1}).value_or(0);
}

const TreeNode* HuggingfaceConfig::node(std::string_view key) {
  const TreeNode* value = map_.find_or_null(key);
  return value == nullptr || value->kind == TreeKind::Null ? nullptr : value;
}

void HuggingfaceConfig::warn(std::string_view key, std::string message) {
  // What is missing stands on no line.
  const Position file_only{.source = map_.node().position.source};
  map_.context().warning({file_only, map_.path_of(key), std::move(message), ""});
}

}  // namespace megatwin::scenarios
