#include "model/program/group_topology.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "model/assert.h"
#include "model/numbers.h"
#include "model/rank_layout.h"
#include "model/topology/fabric_hops.h"
#include "model/topology/machine_topology.h"
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

// Whether a group of the kind has members on several leaves: not its own size decides, but how far
// apart its members are.
bool crosses_leaves(const Job& job, const RankLayout& layout, GroupKind kind) {
  const int machines = std::max(job.cluster.fabric.nodes_per_leaf, 1);
  if (nodes_of(job) <= machines) return false;
  return layout.crosses(kind, machines * job.cluster.groups.front().node.num_gpus);
}

GroupTopology placed_topology(const Job& job, const RankLayout& layout, GroupKind kind,
                              const NodeMap& nodes, const GroupSpread& spread) {
  const NodeGroup& machine = job.cluster.groups.front();
  const Fabric& fabric = job.cluster.fabric;
  GroupPlacement placement{.ranks = spread.size,
                           .ranks_per_node = spread.ranks_per_node,
                           .groups_sharing_nics = spread.groups_per_node};
  if (!spread.inside_node()) placement.switch_hops = ring_hops(job, layout, kind, nodes);
  GroupTopology topology =
      group_topology(placement, machine.node, machine.gpu, fabric, job.profile);
  if (!spread.inside_node()) topology.nodes = spread.num_nodes;
  if (topology.nodes > 1 && crosses_leaves(job, layout, kind)) {
    topology.nic_efficiency *= spine_efficiency(fabric, machine);
    topology.oversubscription = leaf_oversubscription(fabric);
  }
  return topology;
}

// All of a kind wait for the group that is worst off, or for what waits for it.
GroupTopology slowest(GroupKind kind, const std::vector<GroupTopology>& topologies) {
  constexpr Bytes kLarge{256e6};
  const CollectiveKind collective =
      kind == GroupKind::Expert ? CollectiveKind::AllToAll : CollectiveKind::AllReduce;
  std::size_t worst = 0;
  Seconds longest;
  for (std::size_t i = 0; topologies.size() > 1 && i < topologies.size(); ++i) {
    const Seconds time = collective_time(collective, kLarge, topologies[i]).time;
    if (time > longest) longest = time, worst = i;
  }
  return topologies[worst];
}

// The load of the table's worst group, and its adapters. Groups that stand alike on their machines
// load them alike.
void take_table(const Job& job, const RankLayout& layout, const NodeMap& nodes,
                GroupTopology& topology) {
  const PairWeights weights = table_weights(job);
  if (weights.empty()) return;
  const Node& node = job.cluster.groups.front().node;
  std::set<std::vector<std::pair<int, int>>> seen;  // Machines from the group's first, adapters.
  AllToAllLoad worst;
  for (int r = 0; r < layout.num_ranks(); ++r) {
    if (layout.leader(GroupKind::Expert, {r}).value != r) continue;
    std::vector<MemberSite> members;
    std::vector<std::pair<int, int>> places;
    for (const RankId rank : layout.members(GroupKind::Expert, {r})) {
      const NodeId machine = nodes.node_of(rank);
      const int gpu = rank.value - nodes.ranks_on(machine).first.value;
      members.push_back(
          {machine.value, nic_of_gpu(gpu, node.num_gpus, std::max(node.num_nics, 1))});
      places.emplace_back(machine.value - members.front().machine, members.back().adapter);
    }
    if (!seen.insert(std::move(places)).second) continue;
    const AllToAllLoad load = all_to_all_load(
        {.members = members, .weights = weights, .forwards = forwards_to_rails(topology)});
    worst = {.inside = std::max(worst.inside, load.inside),
             .adapter = std::max(worst.adapter, load.adapter),
             .peers = std::max(worst.peers, load.peers)};
    if (seen.size() == 1) topology.adapters = fewest_adapters(members);
  }
  topology.exchange = worst;
}

}  // namespace

PairWeights table_weights(const Job& job) {
  if (!job.transformer.experts || job.plan.expert < 2) return {};
  const auto ranks = static_cast<std::size_t>(job.plan.expert);
  for (const Disturbance& d : job.disturbances) {
    if (d.tokens.size() != ranks) continue;
    double total = 0;
    for (const auto& row : d.tokens) {
      for (const double tokens : row) total += tokens;
    }
    PairWeights weights = d.tokens;
    for (auto& row : weights) {
      for (double& weight : row) weight *= job.plan.expert * (job.plan.expert / total) / d.factor;
    }
    return weights;
  }
  return {};
}

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
  const std::vector<GroupSpread> spreads = layout.spreads(kind, machine.node.num_gpus);
  std::vector<GroupTopology> topologies;
  for (const GroupSpread& spread : spreads) {
    topologies.push_back(placed_topology(job, layout, kind, nodes, spread));
  }
  GroupTopology topology = slowest(kind, topologies);
  if (topology.nodes > 1 && counts_torus(job)) {
    topology.oversubscription =
        torus_narrowing(job, topology, 1 / busiest_cable(job, layout, kind, nodes));
  }
  if (kind == GroupKind::Expert) take_table(job, layout, nodes, topology);
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
