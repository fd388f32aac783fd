#include "model/program/group_topology.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "model/assert.h"
#include "model/rank_layout.h"
#include "model/topology/fabric_hops.h"
#include "model/topology/torus_load.h"

namespace megatwin::model {
namespace {

// Whether there is anything above the switch that machines hang on.
bool has_spine(const Fabric& fabric) {
  return fabric.kind != FabricKind::SingleSwitch && fabric.kind != FabricKind::Ideal;
}

// Part of the network cards that is left of what crosses the spine.
double spine_efficiency(const Fabric& fabric, const NodeGroup& machine) {
  if (fabric.spine_efficiency > 0) return fabric.spine_efficiency;
  if (!has_spine(fabric) || fabric.kind == FabricKind::Torus) return 1;
  // A single card has nothing to collide with.
  const bool alone = machine.count * machine.node.num_nics <= 1;
  // Read off KORTH: step_constants.h.
  const bool collides = routing_of(fabric, machine.node) == FabricRouting::Ecmp && !alone;
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

// Machines of the first kind that the job fills.
int nodes_of(const Job& job) {
  const int gpus = job.cluster.groups.front().node.num_gpus;
  return (job.plan.gpus() + gpus - 1) / gpus;
}

// Where closed forms have to know of a torus's cables; flows find them on the graph.
bool counts_torus(const Job& job) {
  if (job.cluster.fabric.kind != FabricKind::Torus || job.network != NetworkKind::Analytic) {
    return false;
  }
  // What asks for more machines than there are is refused elsewhere.
  std::int64_t machines = 1;
  for (const int size : fabric_shape(job.cluster).torus) machines *= size;
  return nodes_of(job) <= machines;
}

// What a group of the kind sends over the busiest cable of the torus, in times that which its
// busiest machine sends, summed over the groups that talk at once: those of a stage for gradients,
// all for what is inside tasks. Rings go from machine to machine, experts from each to each.
double busiest_cable(const Job& job, const RankLayout& layout, GroupKind kind,
                     const NodeMap& nodes) {
  const bool by_stage = kind == GroupKind::Data || kind == GroupKind::ExpertData;
  const std::vector<int> sizes = fabric_shape(job.cluster).torus;
  std::vector<TorusLoad> loads(by_stage ? as_index(job.plan.pipeline) : 1, TorusLoad(sizes));
  for (int r = 0; r < layout.num_ranks(); ++r) {
    if (layout.leader(kind, {r}).value != r) continue;
    TorusLoad& load = loads[by_stage ? as_index(layout.coordinates({r}).pipeline) : 0];
    const std::vector<RankId> members = layout.members(kind, {r});
    if (kind == GroupKind::Expert) {
      std::map<NodeId, int> on_node;
      for (const RankId member : members) ++on_node[nodes.node_of(member)];
      for (const auto& [from, own] : on_node) {
        const int outside = static_cast<int>(members.size()) - own;
        for (const auto& [to, count] : on_node) {
          if (from != to) load.send(from.value, to.value, static_cast<double>(count) / outside);
        }
      }
      continue;
    }
    NodeId last = nodes.node_of(members.back());
    for (const RankId member : members) {
      const NodeId node = nodes.node_of(member);
      load.send(last.value, node.value, 1);
      last = node;
    }
  }
  double busiest = 0;
  for (const TorusLoad& load : loads) busiest = std::max(busiest, load.busiest());
  return busiest;
}

// By how much the adapters are wider than the cables of the torus that they send over, of which the
// groups that share the adapters have `part` each.
double torus_narrowing(const Job& job, const GroupTopology& topology, double part) {
  const BytesPerSecond cable = torus_cable(job.cluster, fabric_shape(job.cluster));
  const BytesPerSecond injection = static_cast<double>(topology.num_nics) /
                                   std::max(topology.groups_sharing_nics, 1) *
                                   topology.nic_efficiency * topology.nic_per_direction;
  return std::max(1.0, ratio(injection / (part * cable)));
}

// How far apart the two ends of a hop are; the farther, the slower.
enum class Reach { InsideNode, AcrossNodes, AcrossLeaves };

Reach reach_of(const StageSites& sites, const Fabric& fabric, const StageSite& from,
               const StageSite& to) {
  const NodeId a = sites.nodes().node_of(from.first), b = sites.nodes().node_of(to.first);
  if (a == b) return Reach::InsideNode;
  // Machines of different kinds are bought as different pods.
  const int per_leaf = std::max(fabric.nodes_per_leaf, 1);
  const bool same_leaf =
      !has_spine(fabric) || (from.kind == to.kind && a.value / per_leaf == b.value / per_leaf);
  return same_leaf ? Reach::AcrossNodes : Reach::AcrossLeaves;
}

int hops_between(const StageSites& sites, const FabricHops& hops, const StageSite& from,
                 const StageSite& to) {
  const NodeId a = sites.nodes().node_of(from.first), b = sites.nodes().node_of(to.first);
  // Machines of different kinds are bought as different pods.
  const int least = from.kind != to.kind && !hops.levels().empty() ? 3 : 0;
  return std::max(least, hops.between(a.value, b.value));
}

// Of one ring over machines of several kinds, which hang on different leaves.
int mixed_ring_hops(const Job& job, const std::set<NodeId>& nodes) {
  if (!job.cluster.fabric.is_given) return 0;
  const FabricHops hops(job.cluster);
  int most = hops.levels().empty() ? 1 : 3;
  NodeId last = *nodes.rbegin();
  for (const NodeId node : nodes) {
    most = std::max(most, hops.between(last.value, node.value));
    last = node;
  }
  return most;
}

// On the farthest way between neighbours of any ring of the kind; 0 where nothing is said of the
// fabric.
int ring_hops(const Job& job, const RankLayout& layout, GroupKind kind, const NodeMap& nodes) {
  if (!job.cluster.fabric.is_given) return 0;
  const FabricHops hops(job.cluster);
  const int gpus = job.cluster.groups.front().node.num_gpus;
  int most = 1;
  for (const FabricHops::Level& level : hops.levels()) {
    if (!hops.has_levels() || level.machines >= nodes_of(job)) continue;
    if (layout.crosses(kind, level.machines * gpus)) return level.hops;
  }
  if (hops.has_levels()) return most;
  for (int r = 0; r < layout.num_ranks(); ++r) {
    if (layout.leader(kind, {r}).value != r) continue;
    const std::vector<RankId> members = layout.members(kind, {r});
    NodeId last = nodes.node_of(members.back());
    for (const RankId member : members) {
      const NodeId node = nodes.node_of(member);
      most = std::max(most, hops.between(last.value, node.value));
      last = node;
    }
  }
  return most;
}

}  // namespace

bool meets_equal_ways(const Job& job) {
  const Fabric& fabric = job.cluster.fabric;
  return has_spine(fabric) && fabric.kind != FabricKind::Torus &&
         nodes_of(job) > std::max(fabric.nodes_per_leaf, 1);
}

GroupTopology group_topology(const Job& job, GroupKind kind) {
  MEGATWIN_ASSERT(kind != GroupKind::Pipeline, "a pipeline has hops");
  const NodeGroup& machine = job.cluster.groups.front();
  const NodeMap nodes(machine.node.num_gpus);
  const RankLayout layout(job.plan);
  const GroupSpread location = layout.spread(kind, RankId{0}, nodes);
  GroupPlacement placement{.ranks = location.size,
                           .ranks_per_node = location.ranks_per_node,
                           .groups_sharing_nics = location.groups_per_node};
  if (!location.inside_node()) placement.switch_hops = ring_hops(job, layout, kind, nodes);
  const Fabric& fabric = job.cluster.fabric;
  GroupTopology topology =
      group_topology(placement, machine.node, machine.gpu, fabric, job.profile);
  // Not the group's own size decides, but how far apart its members are: neighbours of a strided
  // group are on other leaves as soon as the job is larger than one.
  if (topology.nodes > 1 && nodes_of(job) > fabric.nodes_per_leaf) {
    topology.nic_efficiency *= spine_efficiency(fabric, machine);
    topology.oversubscription = leaf_oversubscription(fabric);
  }
  if (topology.nodes > 1 && counts_torus(job)) {
    topology.oversubscription =
        torus_narrowing(job, topology, 1 / busiest_cable(job, layout, kind, nodes));
  }
  return topology;
}

GroupTopology hop_topology(const Job& job, const StageSites& sites,
                           const std::vector<int>& replicas, int boundary) {
  const int next = (boundary + 1) % job.plan.pipeline;
  const bool is_given = job.cluster.fabric.is_given;
  Reach reach = Reach::InsideNode;
  StageSite from = sites.site(replicas.front(), boundary);
  StageSite to = sites.site(replicas.front(), next);
  const FabricHops hops(job.cluster);
  int switches = 0;
  for (const int replica : replicas) {
    const StageSite here = sites.site(replica, boundary), there = sites.site(replica, next);
    const Reach its = reach_of(sites, job.cluster.fabric, here, there);
    if (is_given) switches = std::max(switches, hops_between(sites, hops, here, there));
    if (its <= reach) continue;
    reach = its;
    from = here;
    to = there;
    if (reach == Reach::AcrossLeaves && !is_given) break;
  }
  const auto end = [&](const StageSite& site, int stage) {
    const NodeGroup& machine = job.cluster.groups[static_cast<std::size_t>(site.kind)];
    const bool inside = reach == Reach::InsideNode;
    // When stages are on different machines, all ranks of the stage on a machine send at once.
    const GroupPlacement placement{
        .ranks = 2,
        .ranks_per_node = inside ? 2 : 1,
        .groups_sharing_nics = inside ? 1 : sites.ranks_of_stage_on_node(site.first, stage),
        .switch_hops = is_given                       ? switches
                       : reach == Reach::AcrossLeaves ? 3
                                                      : 1};
    GroupTopology topology = group_topology(placement, machine.node, machine.gpu,
                                            job.cluster.fabric, profile_of(job, site.kind));
    if (reach == Reach::AcrossLeaves) {
      topology.nic_efficiency *= spine_efficiency(job.cluster.fabric, machine);
      topology.oversubscription = leaf_oversubscription(job.cluster.fabric);
    }
    // All ranks that share the adapters go to the same machine, dimension by dimension.
    if (!inside && counts_torus(job)) {
      topology.oversubscription =
          torus_narrowing(job, topology, 1.0 / std::max(topology.groups_sharing_nics, 1));
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
        group_topology({.ranks = ranks,
                        .ranks_per_node = per_node,
                        .groups_sharing_nics = sharing,
                        .switch_hops = mixed_ring_hops(job, nodes)},
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
