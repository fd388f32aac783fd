#include "model/program/group_topology.h"

#include <string>

#include "model/rank_layout.h"

namespace megatwin::model {

GroupTopology group_topology(const Job& job, GroupKind kind) {
  const NodeGroup& machine = job.cluster.groups.front();
  const RankLayout layout(job.plan);
  const NodeMap nodes(machine.node.num_gpus);
  GroupPlacement placement;
  if (kind == GroupKind::Pipeline) {
    // A hop joins two ranks; when stages are on different machines all of a machine's ranks send.
    // One time stands for all hops of a pipeline: that of the kind which most of them are.
    int crossing = 0;
    RankId rank{0};
    for (int stage = 0; stage + 1 < job.plan.pipeline; ++stage) {
      if (!layout.next_stage_in_node(rank, nodes)) ++crossing;
      rank = layout.next_stage_rank(rank);
    }
    const bool inside = 2 * crossing < job.plan.pipeline - 1 || job.plan.pipeline == 1;
    placement.ranks = job.plan.pipeline > 1 ? 2 : 1;
    placement.ranks_per_node = inside ? placement.ranks : 1;
    placement.groups_sharing_nics = inside ? 1 : machine.node.num_gpus;
  } else {
    const GroupSpread location = layout.spread(kind, RankId{0}, nodes);
    placement.ranks = location.size;
    placement.ranks_per_node = location.ranks_per_node;
    placement.groups_sharing_nics = location.groups_per_node;
  }
  const Fabric& fabric = job.cluster.fabric;
  GroupTopology topology =
      group_topology(placement, machine.node, machine.gpu, fabric, job.profile);
  // Not the group's own size decides, but how far apart its members are: neighbours of a strided
  // group are on other leaves as soon as the job is larger than one.
  const int job_nodes = (job.plan.gpus() + machine.node.num_gpus - 1) / machine.node.num_gpus;
  if (topology.nodes > 1 && job_nodes > fabric.nodes_per_leaf) {
    const bool static_routes = machine.node.nic_type.find("HDR") != std::string::npos &&
                               fabric.routing == FabricRouting::Ecmp;
    // Read off KORTH: step_constants.h.
    const double by_generation = static_routes ? 0.5 : 1.0;
    topology.nic_efficiency *=
        fabric.spine_efficiency > 0 ? fabric.spine_efficiency : by_generation;
  }
  return topology;
}

}  // namespace megatwin::model
