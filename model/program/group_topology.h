// Where the members of each communicator of a plan sit: how many ranks, over how many nodes, how
// many groups share a node's network cards. What collective_cost.h needs to know of a job.
#ifndef MEGATWIN_MODEL_PROGRAM_GROUP_TOPOLOGY_H_
#define MEGATWIN_MODEL_PROGRAM_GROUP_TOPOLOGY_H_

#include "model/collective_cost.h"
#include "model/job.h"
#include "model/micro_op.h"

namespace megatwin::model {

// Ranks are laid out tp fastest, then cp (and ep inside the rest), dp, pp slowest: Megatron's
// order. The Data group is that of a dense parameter's gradient: data × context ranks.
GroupTopology group_topology(const Job& job, GroupKind kind);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PROGRAM_GROUP_TOPOLOGY_H_
