// Loads the shared library of `policy: ./my_policy.so`. It stays loaded until the program ends.
#ifndef MEGATWIN_CLI_POLICY_LIBRARY_H_
#define MEGATWIN_CLI_POLICY_LIBRARY_H_

#include <string>

#include "model/result.h"
#include "policies/policy.h"

namespace megatwin::cli {

// Errors: the file cannot be loaded, or has no function megatwin_policy_v1.
model::Result<policies::PolicyFactory> load_policy(const std::string& path);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_POLICY_LIBRARY_H_
