// The policy that a plan names and the options of the Executors that run it, for every world.
#ifndef MEGATWIN_POLICIES_POLICY_CHOICE_H_
#define MEGATWIN_POLICIES_POLICY_CHOICE_H_

#include <string>
#include <vector>

#include "model/plan.h"
#include "policies/equal_memory.h"
#include "policies/executor.h"
#include "policies/policy.h"

namespace megatwin::policies {

// Without a limit of memory, which each world has of its own. Ranks that have no neighbours have no
// receive slots.
ExecutorOptions executor_options_of(const model::Plan& plan);

// Empty when the schedule is a static one. `memory` counts where receive slots are limited and
// ranks have memory limits.
PolicyFactory policy_of(const model::Plan& plan, const EqualMemory& memory = {});

// Why no policy can keep to the bound of live activations that `plan` sets, in words for its
// author; empty when one can.
std::vector<std::string> bound_problems(const model::Plan& plan);

}  // namespace megatwin::policies

#endif  // MEGATWIN_POLICIES_POLICY_CHOICE_H_
