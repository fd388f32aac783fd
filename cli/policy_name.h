// Policies by the name that the command line gives them, for every world.
#ifndef MEGATWIN_CLI_POLICY_NAME_H_
#define MEGATWIN_CLI_POLICY_NAME_H_

#include <optional>
#include <string>
#include <vector>

#include "policies/policy.h"

namespace megatwin::cli {

// A static schedule, whose factory is empty, or what decides while a step runs.
struct NamedPolicy {
  std::string schedule;  // As policy.schedule has it; empty: the plan's own gives the shape.
  policies::PolicyFactory factory;
};
std::optional<NamedPolicy> policy_named(const std::string& name);
std::vector<std::string> policy_names();

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_POLICY_NAME_H_
