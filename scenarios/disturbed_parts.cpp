#include "scenarios/disturbed_parts.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string_view>

#include "model/topology/fabric_topology.h"
#include "model/topology/router.h"

namespace megatwin::scenarios {
namespace {

using model::Disturbance;
using model::DisturbanceKind;
using model::LinkKind;
using model::VertexId;
using model::VertexKind;

// The key under which Disturbance::at was given; Disturbance::to has no other than `to`.
std::string_view key_of_at(DisturbanceKind kind) {
  switch (kind) {
    case DisturbanceKind::SlowGpu:
      return "gpu";
    case DisturbanceKind::PcieWidth:
      return "at";
    case DisturbanceKind::DeadNic:
      return "nic";
    case DisturbanceKind::SlowLink:
    case DisturbanceKind::FlappingLink:
    case DisturbanceKind::Background:
      return "from";
    case DisturbanceKind::Jitter:
    case DisturbanceKind::ExpertImbalance:
    case DisturbanceKind::SlowStorage:
      return {};
  }
  return {};
}

class PartChecker {
 public:
  PartChecker(MapReader& scenario, const model::Topology& topology, bool is_sprayed)
      : scenario_(scenario), topology_(topology), is_sprayed_(is_sprayed) {
    for (VertexId id; id.value < topology.num_vertices(); ++id.value) {
      vertices_.emplace(topology.vertex(id).name, id);
    }
  }

  // A cable that hangs on an adapter which is dead all the time that it would be slow.
  void check_adapter(const DisturbanceAt& at, const DisturbanceAt& other) {
    const Disturbance &d = at.disturbance, &dead = other.disturbance;
    const bool cable =
        d.kind == DisturbanceKind::SlowLink || d.kind == DisturbanceKind::FlappingLink;
    if (!cable || dead.kind != DisturbanceKind::DeadNic || dead.at.empty()) return;
    if (dead.at != d.at && dead.at != d.to) return;
    if (topology_.find_link(d.at, d.to).value < 0) return;
    const bool outlives = !dead.until || (d.until && *d.until <= *dead.until);
    if (dead.start > d.start || !outlives) return;
    report(at, dead.at == d.at ? "from" : "to",
           "the cable from " + d.at + " to " + d.to + " hangs on " + dead.at + ", which is dead" +
               window_of(dead) + " by " + other.path + " (line " +
               std::to_string(other.map->position.line) + "): it carries nothing",
           "a cable of another adapter, or a dead-nic of another time");
  }

  void check(const DisturbanceAt& at) {
    const Disturbance& d = at.disturbance;
    const auto from = part(at, key_of_at(d.kind), d.at);
    const auto to = part(at, "to", d.to);
    if (!from) return;
    switch (d.kind) {
      case DisturbanceKind::PcieWidth:
        return check_slot(at, *from);
      case DisturbanceKind::SlowLink:
      case DisturbanceKind::FlappingLink:
        if (to) check_cable(at);
        return;
      case DisturbanceKind::Background:
        if (to) check_rate(at, *from, *to);
        return;
      case DisturbanceKind::SlowGpu:
      case DisturbanceKind::DeadNic:
      case DisturbanceKind::Jitter:
      case DisturbanceKind::ExpertImbalance:
      case DisturbanceKind::SlowStorage:
        return;
    }
  }

 private:
  void report(const DisturbanceAt& at, std::string_view key, std::string message,
              std::string allowed) {
    const TreeNode* value = at.map->find(key);
    scenario_.error_at(value == nullptr ? *at.map : *value, at.path + "." + std::string(key),
                       std::move(message), std::move(allowed));
  }

  // The part of this name, if it is there and of a kind that the disturbance can strike.
  std::optional<VertexId> part(const DisturbanceAt& at, std::string_view key,
                               const std::string& name) {
    if (name.empty()) return std::nullopt;
    const auto found = vertices_.find(name);
    if (found == vertices_.end()) {
      report(at, key, "the cluster has no part " + quoted(name) + of_spray(name),
             "names as 'megatwin topology show' prints them, such as n0/gpu0, n0/nic1, "
             "rail0/leaf0");
      return std::nullopt;
    }
    const VertexKind kind = topology_.vertex(found->second).kind;
    switch (at.disturbance.kind) {
      case DisturbanceKind::SlowGpu:
      case DisturbanceKind::Background:
        if (kind == VertexKind::Gpu) break;
        report(at, key, quoted(name) + " is no GPU", "a GPU, such as n0/gpu0");
        return std::nullopt;
      case DisturbanceKind::DeadNic:
        if (kind == VertexKind::Nic) break;
        report(at, key, quoted(name) + " is no adapter", "an adapter, such as n0/nic0");
        return std::nullopt;
      case DisturbanceKind::PcieWidth:
      case DisturbanceKind::SlowLink:
      case DisturbanceKind::FlappingLink:
      case DisturbanceKind::Jitter:
      case DisturbanceKind::ExpertImbalance:
      case DisturbanceKind::SlowStorage:
        break;
    }
    return found->second;
  }

  // Why a spine that the scenario counts on may not be there.
  std::string of_spray(const std::string& name) const {
    const bool above =
        name.find("spine") != std::string::npos || name.find("core") != std::string::npos;
    if (!above || !is_sprayed_) return "";
    return ": packets are sprayed over the spines of a level, which are one, unless "
           "cluster.fabric.routing is ecmp";
  }

  void check_slot(const DisturbanceAt& at, VertexId part) {
    const auto links = topology_.links_from(part);
    if (std::any_of(links.begin(), links.end(), [&](model::LinkId link) {
          return topology_.link(link).kind == LinkKind::Pcie;
        })) {
      return;
    }
    report(at, "at", quoted(at.disturbance.at) + " is in no PCIe slot",
           "a GPU or an adapter in one, such as n0/nic0");
  }

  void check_cable(const DisturbanceAt& at) {
    const Disturbance& d = at.disturbance;
    if (topology_.find_link(d.at, d.to).value >= 0) return;
    report(at, "to", "no cable joins " + quoted(d.at) + " and " + quoted(d.to),
           "two neighbours of 'megatwin topology show'");
  }

  // No job sends more than the narrowest link of its way takes.
  void check_rate(const DisturbanceAt& at, VertexId from, VertexId to) {
    const Disturbance& d = at.disturbance;
    if (from == to) return report(at, "to", "from and to are one GPU", "two GPUs");
    const auto route = model::Router(topology_).route({gpu_at(from), gpu_at(to)});
    if (!route || d.rate <= route->bandwidth) return;  // Without a way: said where it is used.
    report(at, "rate", "is above what the narrowest link from " + d.at + " to " + d.to + " takes",
           "at most " + short_number(route->bandwidth.value / 1e9) + " GB/s");
  }

  model::RankId gpu_at(VertexId vertex) const {
    model::RankId rank{0};
    while (topology_.gpu(rank) != vertex) ++rank.value;
    return rank;
  }

  MapReader& scenario_;
  const model::Topology& topology_;
  bool is_sprayed_;
  std::map<std::string, VertexId, std::less<>> vertices_;
};

}  // namespace

void check_parts(MapReader& scenario, const model::Cluster& cluster,
                 const std::vector<DisturbanceAt>& disturbances) {
  const bool named =
      std::any_of(disturbances.begin(), disturbances.end(), [](const DisturbanceAt& at) {
        return !at.disturbance.at.empty() || !at.disturbance.to.empty();
      });
  if (!named || cluster.groups.empty()) return;
  const auto topology = model::build_topology(cluster);
  if (!topology) return;
  PartChecker checker(scenario, *topology, routing_of(cluster) == model::FabricRouting::Spray);
  for (const DisturbanceAt& at : disturbances) {
    checker.check(at);
    for (const DisturbanceAt& other : disturbances) checker.check_adapter(at, other);
  }
}

}  // namespace megatwin::scenarios
