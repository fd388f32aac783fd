#include "cli/policy_name.h"

#include <algorithm>

#include "policies/dynamic_pipeline.h"

namespace megatwin::cli {
namespace {

const std::vector<std::string>& static_names() {
  static const std::vector<std::string> kNames = {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"};
  return kNames;
}

}  // namespace

std::optional<NamedPolicy> policy_named(const std::string& name) {
  const auto& names = static_names();
  if (std::find(names.begin(), names.end(), name) != names.end()) return NamedPolicy{name, {}};
  if (name == "dpp-depth") {
    return NamedPolicy{
        "", policies::dynamic_pipeline_factory({.traversal = policies::Traversal::DepthFirst})};
  }
  if (name == "dpp-breadth") {
    return NamedPolicy{
        "", policies::dynamic_pipeline_factory({.traversal = policies::Traversal::BreadthFirst})};
  }
  return std::nullopt;
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names = static_names();
  names.insert(names.end(), {"dpp-depth", "dpp-breadth"});
  return names;
}

}  // namespace megatwin::cli
