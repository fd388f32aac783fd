#include "model/program/group_topology.h"

#include "model/rank_layout.h"

namespace megatwin::model {

GroupTopology group_topology(const Job& job, GroupKind kind) {
  const NodeGroup& machine = job.cluster.groups.front();
  const RankLayout layout(job.plan);
  const NodeMap nodes(machine.node.num_gpus);
  GroupPlacement placement;
  if (kind == GroupKind::Pipeline) {
    // A hop joins two ranks; when stages are on different machines all of a machine's ranks send.
    const bool inside = layout.next_stage_in_node(RankId{0}, nodes);
    placement.ranks = job.plan.pipeline > 1 ? 2 : 1;
    placement.ranks_per_node = inside ? placement.ranks : 1;
    placement.groups_sharing_nics = inside ? 1 : machine.node.num_gpus;
  } else {
    const GroupSpread location = layout.spread(kind, RankId{0}, nodes);
    placement.ranks = location.size;
    placement.ranks_per_node = location.ranks_per_node;
    placement.groups_sharing_nics = location.groups_per_node;
  }
  return group_topology(placement, machine.node, machine.gpu, job.cluster.fabric, job.profile);
}

}  // namespace megatwin::model
