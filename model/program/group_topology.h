// Where the members of each communicator of a plan sit: how many ranks, over how many nodes, how
// many groups share a node's network cards. What collective_cost.h needs to know of a job.
#ifndef MEGATWIN_MODEL_PROGRAM_GROUP_TOPOLOGY_H_
#define MEGATWIN_MODEL_PROGRAM_GROUP_TOPOLOGY_H_

#include <vector>

#include "model/collective_cost.h"
#include "model/job.h"
#include "model/micro_op.h"
#include "model/stage_sites.h"

namespace megatwin::model {

// Ranks are laid out tp fastest, then cp (and ep inside the rest), dp, pp slowest: Megatron's
// order. The Data group is that of a dense parameter's gradient: data × context ranks. On the first
// kind of machine of the job. Where machines and groups do not nest, of the groups the one that is
// worst off. Of experts with what a table of tokens says of their pairs. Requires: not
// GroupKind::Pipeline, see hop_topology().
GroupTopology group_topology(const Job& job, GroupKind kind);

// What the pairs of an expert group's ranks send by the job's table of tokens (disturbance
// expert-imbalance), over the load of its busiest rank, which the sizes of the collectives have.
// Empty: no table of as many ranks.
PairWeights table_weights(const Job& job);

// Whether messages of the job have several equal ways: beyond one leaf of a tree or of a
// dragonfly+.
bool meets_equal_ways(const Job& job);

// Two ranks, one at `boundary` and its partner at the next stage (after the last, the first), in
// the replica of those given whose partners are farthest apart: in one machine, on machines of one
// leaf, or across the spine. Between kinds of machines the weaker side of every link counts.
GroupTopology hop_topology(const Job& job, const StageSites& sites,
                           const std::vector<int>& replicas, int boundary);

// The data-parallel group of `stage` when its replicas stand on several kinds of machines: as wide
// as it is, at the rates of the weakest; LL128 is off, as between compute capabilities.
GroupTopology mixed_data_topology(const Job& job, const StageSites& sites, int stage);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PROGRAM_GROUP_TOPOLOGY_H_
