// Which ranks must run their tasks in one order, since they meet inside of them: the members of
// tensor-, context-, expert- and expert-tensor-parallel groups, and under ZeRO 2 and 3 the
// replicas, all taken together. One of them leads when a policy decides.
#ifndef MEGATWIN_EXEC_LOCKSTEP_H_
#define MEGATWIN_EXEC_LOCKSTEP_H_

#include <vector>

#include "exec/host_layout.h"
#include "model/ids.h"
#include "model/plan.h"

namespace megatwin::exec {

// By rank, the ranks that move with it, itself included, in ascending order. The first one leads.
std::vector<std::vector<model::RankId>> lockstep_groups(const model::Plan& plan,
                                                        const HostLayout& layout);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_LOCKSTEP_H_
