#include "model/program/group_topology.h"

#include <algorithm>
#include <set>
#include <string>

#include "model/assert.h"
#include "model/rank_layout.h"

namespace megatwin::model {
namespace {

// Part of the network cards that is left of what crosses the spine.
double spine_efficiency(const Fabric& fabric, const NodeGroup& machine) {
  if (fabric.spine_efficiency > 0) return fabric.spine_efficiency;
  // A single card has nothing to collide with.
  const bool alone = machine.count * machine.node.num_nics <= 1;
  // Read off KORTH: step_constants.h.
  const bool collides =
      machine.node.static_routes && fabric.routing == FabricRouting::Ecmp && !alone;
  return collides ? 0.5 : 1.0;
}

// What divides the bandwidth of traffic that leaves a leaf switch.
double leaf_oversubscription(const Fabric& fabric) {
  const bool has_leaves =
      fabric.kind == FabricKind::FatTree || fabric.kind == FabricKind::RailOptimizedFatTree;
  return has_leaves ? fabric.oversubscription : 1;
}

const GpuProfile& profile_of(const Job& job, int kind) {
  return job.group_profiles.empty() ? job.profile
                                    : job.group_profiles[static_cast<std::size_t>(kind)];
}

// Every link of the result is as slow as the slower of the two.
GroupTopology weaker(const GroupTopology& a, const GroupTopology& b) {
  const auto injection = [](const GroupTopology& one) {
    return one.num_nics * one.nic_per_direction.value / std::max(one.groups_sharing_nics, 1) /
           std::max(one.oversubscription, 1.0) * one.nic_efficiency;
  };
  GroupTopology result = injection(b) < injection(a) ? b : a;
  result.nvlink_per_direction = std::min(a.nvlink_per_direction, b.nvlink_per_direction);
  result.nic_latency = std::max(a.nic_latency, b.nic_latency);
  result.channels = std::min(a.channels, b.channels);
  result.nvls = a.nvls && b.nvls;
  // The older generation's tables hold for both; between generations of which one is older than
  // Hopper, NCCL leaves LL128 out.
  const NcclGeneration first = nccl_generation(a.architecture);
  const NcclGeneration second = nccl_generation(b.architecture);
  result.architecture = first <= second ? a.architecture : b.architecture;
  const bool same_protocols = first == second || std::min(first, second) >= NcclGeneration::Hopper;
  result.ll128_over_network = same_protocols && a.ll128_over_network && b.ll128_over_network;
  return result;
}

// How far apart the two ends of a hop are; the farther, the slower.
enum class Reach { InsideNode, AcrossNodes, AcrossLeaves };

Reach reach_of(const StageSites& sites, const Fabric& fabric, const StageSite& from,
               const StageSite& to) {
  const NodeId a = sites.nodes().node_of(from.first), b = sites.nodes().node_of(to.first);
  if (a == b) return Reach::InsideNode;
  // Machines of different kinds are bought as different pods.
  const int per_leaf = std::max(fabric.nodes_per_leaf, 1);
  const bool same_leaf = from.kind == to.kind && a.value / per_leaf == b.value / per_leaf;
  return same_leaf ? Reach::AcrossNodes : Reach::AcrossLeaves;
}

}  // namespace

GroupTopology group_topology(const Job& job, GroupKind kind) {
  MEGATWIN_ASSERT(kind != GroupKind::Pipeline, "a pipeline has hops");
  const NodeGroup& machine = job.cluster.groups.front();
  const NodeMap nodes(machine.node.num_gpus);
  const GroupSpread location = RankLayout(job.plan).spread(kind, RankId{0}, nodes);
  const GroupPlacement placement{.ranks = location.size,
                                 .ranks_per_node = location.ranks_per_node,
                                 .groups_sharing_nics = location.groups_per_node};
  const Fabric& fabric = job.cluster.fabric;
  GroupTopology topology =
      group_topology(placement, machine.node, machine.gpu, fabric, job.profile);
  // Not the group's own size decides, but how far apart its members are: neighbours of a strided
  // group are on other leaves as soon as the job is larger than one.
  const int job_nodes = (job.plan.gpus() + machine.node.num_gpus - 1) / machine.node.num_gpus;
  if (topology.nodes > 1 && job_nodes > fabric.nodes_per_leaf) {
    topology.nic_efficiency *= spine_efficiency(fabric, machine);
    topology.oversubscription = leaf_oversubscription(fabric);
  }
  return topology;
}

GroupTopology hop_topology(const Job& job, const StageSites& sites,
                           const std::vector<int>& replicas, int boundary) {
  const int next = (boundary + 1) % job.plan.pipeline;
  Reach reach = Reach::InsideNode;
  StageSite from = sites.site(replicas.front(), boundary);
  StageSite to = sites.site(replicas.front(), next);
  for (const int replica : replicas) {
    const StageSite here = sites.site(replica, boundary), there = sites.site(replica, next);
    const Reach its = reach_of(sites, job.cluster.fabric, here, there);
    if (its <= reach) continue;
    reach = its;
    from = here;
    to = there;
    if (reach == Reach::AcrossLeaves) break;
  }
  const auto end = [&](const StageSite& site, int stage) {
    const NodeGroup& machine = job.cluster.groups[static_cast<std::size_t>(site.kind)];
    const bool inside = reach == Reach::InsideNode;
    // When stages are on different machines, all ranks of the stage on a machine send at once.
    const GroupPlacement placement{
        .ranks = 2,
        .ranks_per_node = inside ? 2 : 1,
        .groups_sharing_nics = inside ? 1 : sites.ranks_of_stage_on_node(site.first, stage)};
    GroupTopology topology = group_topology(placement, machine.node, machine.gpu,
                                            job.cluster.fabric, profile_of(job, site.kind));
    if (reach == Reach::AcrossLeaves) {
      topology.nic_efficiency *= spine_efficiency(job.cluster.fabric, machine);
      topology.oversubscription = leaf_oversubscription(job.cluster.fabric);
      topology.switch_hops = 3;
    }
    return topology;
  };
  const GroupTopology sender = end(from, boundary);
  return from.kind == to.kind ? sender : weaker(sender, end(to, next));
}

GroupTopology mixed_data_topology(const Job& job, const StageSites& sites, int stage) {
  std::set<NodeId> nodes;
  for (int replica = 0; replica < job.plan.data; ++replica) {
    for (int context = 0; context < job.plan.context; ++context) {
      nodes.insert(sites.nodes().node_of(sites.rank(replica, stage, 0, context)));
    }
  }
  const int ranks = job.plan.data * job.plan.context;
  std::optional<GroupTopology> result;
  for (const int kind : sites.kinds_of_stage(stage)) {
    const NodeGroup& machine = job.cluster.groups[static_cast<std::size_t>(kind)];
    // Each tensor rank has a group of its own, and so has each stage on the machine.
    const int per_node = std::max(1, ranks / static_cast<int>(nodes.size()));
    const int sharing = std::max(1, machine.node.num_gpus / per_node);
    GroupTopology topology =
        group_topology({.ranks = ranks, .ranks_per_node = per_node, .groups_sharing_nics = sharing},
                       machine.node, machine.gpu, job.cluster.fabric, profile_of(job, kind));
    // Kinds hang on different leaves.
    topology.nic_efficiency *= spine_efficiency(job.cluster.fabric, machine);
    topology.oversubscription = leaf_oversubscription(job.cluster.fabric);
    result = result ? weaker(*result, topology) : topology;
  }
  result->nodes = static_cast<int>(nodes.size());
  return *result;
}

}  // namespace megatwin::model
