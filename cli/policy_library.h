// What decides while a step runs, as a plan names it: a policy of the program, or the shared
// library of `policy: ./my_policy.so`, which stays loaded until the program ends.
#ifndef MEGATWIN_CLI_POLICY_LIBRARY_H_
#define MEGATWIN_CLI_POLICY_LIBRARY_H_

#include <string>

#include "model/plan.h"
#include "model/result.h"
#include "policies/policy.h"

namespace megatwin::cli {

// Errors: the file cannot be loaded, or has no function megatwin_policy_v1.
model::Result<policies::PolicyFactory> load_policy(const std::string& path);

// Empty when the schedule is a static one. Errors: as load_policy().
model::Result<policies::PolicyFactory> policy_of(const model::Plan& plan);

// The setting of a scenario that names a policy or a static schedule by --policy NAME, or FILE.so.
std::string policy_setting(const std::string& name);
// The same for the policy of a log; empty when the scenario's own says it all: a static schedule,
// or a library, whose path no log has.
std::string policy_setting_of_log(const std::string& name);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_POLICY_LIBRARY_H_
