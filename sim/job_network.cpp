#include "sim/job_network.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numbers>
#include <string>
#include <utility>

#include "model/assert.h"
#include "model/topology/fabric_topology.h"
#include "sim/failures.h"
#include "sim/flapping.h"

namespace megatwin::sim {
namespace {

using model::Disturbance;
using model::DisturbanceKind;
using model::LinkId;
using model::LinkKind;
using model::RankId;
using model::Topology;
using model::VertexId;
using model::VertexKind;

constexpr int kSlotLanes = 16;
// From a GPU to an adapter: up to a PCIe switch and down; up to a socket and down.
constexpr std::size_t kLinksOfOneSwitch = 2, kLinksOfOneSocket = 4;
constexpr double kFactorMin = 0.5;

VertexId vertex_of(const Topology& topology, const std::string& name) {
  for (VertexId id; id.value < topology.num_vertices(); ++id.value) {
    if (topology.vertex(id).name == name) return id;
  }
  return VertexId{-1};
}

model::Diagnostics no_part(const Disturbance& disturbance, const std::string& what) {
  return {{.key = "disturbances",
           .message = to_text(disturbance) + ": the cluster has no " + what,
           .allowed = "names as 'megatwin topology show' prints them, such as n0/gpu0, n0/nic1, "
                      "rail0/leaf0"}};
}

model::Diagnostics never_up(const std::vector<Disturbance>& flapping) {
  std::string all;
  for (const Disturbance& d : flapping) all += (all.empty() ? "" : " and ") + to_text(d);
  return {{.key = "disturbances",
           .message = all + ": together the cable is never up",
           .allowed = "outages that leave time between them, or one with an end"}};
}

int number_after(std::string_view& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// What takes ways away at `now`.
std::string cuts_of(const model::Job& job, model::Instant now) {
  std::string cuts;
  for (const Disturbance& d : job.disturbances) {
    if (d.kind != DisturbanceKind::DeadNic || !d.holds_at(now)) continue;
    cuts += (cuts.empty() ? "disturbances: " : ", ") + to_text(d);
  }
  return cuts;
}

bool strikes_links(const Disturbance& d) {
  switch (d.kind) {
    case DisturbanceKind::SlowLink:
    case DisturbanceKind::FlappingLink:
    case DisturbanceKind::PcieWidth:
    case DisturbanceKind::DeadNic:
    case DisturbanceKind::Background:
      return true;
    case DisturbanceKind::SlowGpu:
    case DisturbanceKind::Jitter:
    case DisturbanceKind::ExpertImbalance:
    case DisturbanceKind::SlowStorage:
      return false;
  }
  return false;
}

}  // namespace

std::optional<RankId> gpu_of_name(const model::Cluster& cluster, std::string_view name) {
  if (!name.starts_with("n")) return std::nullopt;
  name.remove_prefix(1);
  int machine = number_after(name);
  if (machine < 0 || !name.starts_with("/gpu")) return std::nullopt;
  name.remove_prefix(4);
  const int gpu = number_after(name);
  if (gpu < 0 || !name.empty()) return std::nullopt;
  int first = 0;
  for (const model::NodeGroup& group : cluster.groups) {
    if (machine < group.count) {
      if (gpu >= group.node.num_gpus) return std::nullopt;
      return RankId{first + machine * group.node.num_gpus + gpu};
    }
    machine -= group.count;
    first += group.count * group.node.num_gpus;
  }
  return std::nullopt;
}

model::Diagnostics missing_gpus(const model::Job& job) {
  for (const Disturbance& d : job.disturbances) {
    if (d.kind == DisturbanceKind::SlowGpu && !gpu_of_name(job.cluster, d.at)) {
      return no_part(d, "GPU " + d.at);
    }
  }
  return {};
}

std::vector<double> compute_factors(const model::Job& job, model::Instant now) {
  std::vector<double> factors(static_cast<std::size_t>(job.plan.gpus()), 1.0);
  RandomStream random(job.seed);
  for (const Disturbance& d : job.disturbances) {
    const bool holds = d.holds_at(now);
    if (d.kind == DisturbanceKind::SlowGpu && holds) {
      const auto rank = gpu_of_name(job.cluster, d.at);
      MEGATWIN_ASSERT(rank.has_value(), d.at);
      if (rank->value < job.plan.gpus()) factors[static_cast<std::size_t>(rank->value)] *= d.factor;
    }
    if (d.kind != DisturbanceKind::Jitter) continue;
    for (double& factor : factors) {
      const double radius = std::sqrt(-2 * std::log(random.uniform()));
      const double z = radius * std::cos(2 * std::numbers::pi * random.uniform());
      // Drawn whether it holds or not, so that a window changes no draw.
      if (holds) factor *= std::max(kFactorMin, 1 + d.deviation * z);
    }
  }
  return factors;
}

bool needs_network(const model::Job& job) {
  return job.network != model::NetworkKind::Analytic ||
         std::any_of(job.disturbances.begin(), job.disturbances.end(), strikes_links);
}

model::NetworkKind network_of(const model::Job& job) {
  const bool analytic = job.network == model::NetworkKind::Analytic;
  return analytic && needs_network(job) ? model::NetworkKind::MaxMin : job.network;
}

void JobNetwork::narrow(LinkId link, double factor) {
  disturbed_.set_bandwidth(link, disturbed_.link(link).bandwidth / factor);
  for (const VertexId end : {disturbed_.link(link).from, disturbed_.link(link).to}) {
    if (disturbed_.vertex(end).machine >= 0) {
      disturbed_machines_.insert(disturbed_.vertex(end).machine);
    }
  }
  links_disturbed_ = true;
}

model::Diagnostics JobNetwork::apply(const Disturbance& d) {
  switch (d.kind) {
    case DisturbanceKind::SlowLink: {
      const std::vector<LinkId> cable = planned_cable(d);
      for (const LinkId link : cable) narrow(link, d.factor);
      return cable.empty() ? no_part(d, "cable from " + d.at + " to " + d.to)
                           : model::Diagnostics{};
    }
    case DisturbanceKind::PcieWidth: {
      const VertexId at = vertex_of(disturbed_, d.at);
      if (at.value < 0) return no_part(d, "part " + d.at);
      bool any = false;
      for (LinkId link; link.value < disturbed_.num_links(); ++link.value) {
        const model::Link& l = disturbed_.link(link);
        if (l.kind != LinkKind::Pcie || (l.from != at && l.to != at)) continue;
        narrow(link, static_cast<double>(kSlotLanes) / d.lanes);
        any = true;
      }
      return any ? model::Diagnostics{} : no_part(d, "PCIe slot at " + d.at);
    }
    case DisturbanceKind::DeadNic: {
      const VertexId nic = vertex_of(disturbed_, d.at);
      if (nic.value < 0 || disturbed_.vertex(nic).kind != VertexKind::Nic) {
        return no_part(d, "adapter " + d.at);
      }
      for (const LinkId link : disturbed_.links_from(nic)) {
        if (disturbed_.link(link).kind == LinkKind::Port) disturbed_.cut_cable(link);
      }
      links_disturbed_ = true;
      return {};
    }
    case DisturbanceKind::FlappingLink:  // See apply_flaps().
    case DisturbanceKind::SlowGpu:
    case DisturbanceKind::Background:
    case DisturbanceKind::Jitter:
    case DisturbanceKind::ExpertImbalance:
    case DisturbanceKind::SlowStorage:
      return {};
  }
  return {};
}

std::vector<LinkId> JobNetwork::planned_cable(const Disturbance& d) const {
  const LinkId there = pristine_.find_link(d.at, d.to), back = pristine_.find_link(d.to, d.at);
  if (there.value < 0 || back.value < 0) return {};
  return {there, back};
}

model::Diagnostics JobNetwork::apply_flaps(const model::Job& job, model::Instant now) {
  std::map<std::pair<std::string, std::string>, std::vector<Disturbance>> by_cable;
  for (const Disturbance& d : job.disturbances) {
    if (d.kind == DisturbanceKind::FlappingLink && d.holds_at(now)) {
      by_cable[cable_of(d)].push_back(d);
    }
  }
  for (const auto& [ends, flapping] : by_cable) {
    const std::vector<LinkId> cable = planned_cable(flapping.front());
    if (cable.empty()) {
      return no_part(flapping.front(), "cable from " + ends.first + " to " + ends.second);
    }
    const bool down = std::any_of(flapping.begin(), flapping.end(), is_outage);
    const double uptime = down ? 0 : mean_uptime(flapping);
    const bool ends_once = std::any_of(flapping.begin(), flapping.end(),
                                       [](const Disturbance& d) { return d.until.has_value(); });
    if (uptime <= 0 && !ends_once) return never_up(flapping);
    for (const LinkId link : cable) {
      if (uptime > 0) {
        narrow(link, 1 / uptime);
        disturbed_.set_uptime(link, uptime);
      } else {
        narrow(link, 1);
        disturbed_.set_bandwidth(link, pristine_.link(link).bandwidth / kDownFactor);
      }
    }
  }
  return {};
}

model::Result<JobNetwork::Way> JobNetwork::way(const model::FlowKey& key) {
  MEGATWIN_TRY(model::Route route, router_->route(key));
  if (!links_disturbed_) {
    const model::BytesPerSecond bandwidth = rate_at_ends(disturbed_, route);
    return Way{std::move(route), bandwidth};
  }
  MEGATWIN_TRY(const model::Route plain, pristine_router_->route(key));
  return Way{std::move(route), rate_at_ends(pristine_, plain)};
}

std::string JobNetwork::detour(const std::string& nic, int num_ranks) {
  std::string text;
  for (RankId rank; rank.value < std::min(num_ranks, pristine_.num_gpus()); ++rank.value) {
    const VertexId gpu = pristine_.gpu(rank);
    if (pristine_.machine(pristine_.vertex(gpu).machine).nics.empty()) continue;
    if (pristine_.vertex(pristine_router_->adapter_of(rank)).name != nic) continue;
    const VertexId other = router_->adapter_of(rank);
    if (pristine_.vertex(other).name == nic) continue;
    const auto links = router_->links_between(gpu, other);
    text += (text.empty() ? "" : ", ") + pristine_.vertex(gpu).name + " uses " +
            pristine_.vertex(other).name +
            (links <= kLinksOfOneSwitch   ? " on its PCIe switch"
             : links <= kLinksOfOneSocket ? " on its socket"
                                          : " on another socket");
  }
  return text;
}

model::BytesPerSecond JobNetwork::rate_at_ends(const Topology& topology,
                                               const model::Route& route) const {
  constexpr model::BytesPerSecond kNoLimit{1e30};
  model::BytesPerSecond narrowest = kNoLimit;
  for (const LinkId id : route.links) {
    const model::Link& link = topology.link(id);
    if (link.kind == LinkKind::Fabric) continue;
    const int machine = topology.vertex(link.from).machine;
    const bool inside = machine >= 0 && machine == topology.vertex(link.to).machine;
    if (inside && described_machines_.contains(machine)) continue;
    narrowest = std::min(narrowest, link.bandwidth);
  }
  return narrowest;
}

model::BytesPerSecond JobNetwork::undisturbed_rate(const model::Route& plain) const {
  return rate_at_ends(pristine_, plain);
}

int JobNetwork::adapter_lanes(RankId rank) const {
  const Topology::Machine& machine = disturbed_.machine(machine_of(rank));
  const auto own = static_cast<int>(machine.nics.size() / machine.gpus.size());
  // Where adapters fail so many that they come out even over those that are left: 12 over four,
  // three, two or one. Of five and more as many as there are; what a dead one had goes to the next.
  return !adapters_fail_ || own > 4 ? std::max(own, 1) : own == 4 ? 12 : own == 3 ? 6 : own;
}

model::Result<std::unique_ptr<JobNetwork>> JobNetwork::build(const model::Job& job,
                                                             model::Instant now) {
  std::unique_ptr<JobNetwork> network(new JobNetwork);
  MEGATWIN_TRY(network->pristine_, model::build_topology(job.cluster));
  network->disturbed_ = network->pristine_;
  int machine = 0;
  for (const model::NodeGroup& group : job.cluster.groups) {
    for (int i = 0; i < group.count; ++i, ++machine) {
      if (!group.node.inside) continue;
      network->described_machines_.insert(machine);
      network->disturbed_machines_.insert(machine);
    }
  }
  network->adapters_fail_ =
      std::any_of(job.disturbances.begin(), job.disturbances.end(),
                  [](const Disturbance& d) { return d.kind == DisturbanceKind::DeadNic; });
  for (const Disturbance& disturbance : job.disturbances) {
    if (!disturbance.holds_at(now)) continue;
    model::Diagnostics faults = network->apply(disturbance);
    if (!faults.empty()) return model::fail(std::move(faults));
  }
  if (model::Diagnostics faults = network->apply_flaps(job, now); !faults.empty()) {
    return model::fail(std::move(faults));
  }
  const model::RoutingOptions routing = model::routing_options(job.cluster);
  model::RoutingOptions disturbed = routing;
  disturbed.cuts = cuts_of(job, now);
  network->router_ = std::make_unique<model::Router>(network->disturbed_, std::move(disturbed));
  network->pristine_router_ = std::make_unique<model::Router>(network->pristine_, routing);
  for (std::size_t i = 0; i < job.disturbances.size(); ++i) {
    const Disturbance& d = job.disturbances[i];
    if (d.kind != DisturbanceKind::Background || !d.holds_at(now)) continue;
    const auto from = gpu_of_name(job.cluster, d.at), to = gpu_of_name(job.cluster, d.to);
    if (!from || !to) return model::fail(no_part(d, "GPU " + (from ? d.to : d.at)));
    MEGATWIN_TRY(model::Route route, network->router_->route({*from, *to}));
    if (route.links.empty()) return model::fail(no_part(d, "way from " + d.at + " to itself"));
    // Groups that stay inside that machine meet it.
    const int machine = network->machine_of(*from);
    if (machine == network->machine_of(*to)) network->disturbed_machines_.insert(machine);
    // The other job, too, gets no more through a wire than the wire takes.
    const model::BytesPerSecond rate = std::min(d.rate, route.bandwidth);
    network->background_.push_back({std::move(route), rate, *from, i});
  }
  return network;
}

std::vector<model::Instant> stretch_starts(const model::Job& job) {
  std::set<model::Instant> starts{model::Instant{}};
  for (const Disturbance& d : job.disturbances) {
    starts.insert(d.start);
    if (d.until) starts.insert(*d.until);
  }
  return {starts.begin(), starts.end()};
}

model::Result<ChangingNetwork> ChangingNetwork::build(const model::Job& job) {
  ChangingNetwork changing;
  changing.starts_ = stretch_starts(job);
  // Those of the same disturbances are one, however often they come and go.
  std::map<std::vector<std::pair<std::string, std::size_t>>, std::shared_ptr<JobNetwork>> known;
  for (const model::Instant now : changing.starts_) {
    // By what they do, but for other jobs, which are told apart by their number.
    std::vector<std::pair<std::string, std::size_t>> hold;
    for (std::size_t i = 0; i < job.disturbances.size(); ++i) {
      Disturbance d = job.disturbances[i];
      if (!strikes_links(d) || !d.holds_at(now)) continue;
      d.start = {};
      d.until.reset();
      hold.emplace_back(to_text(d), d.kind == DisturbanceKind::Background ? i : 0);
    }
    std::shared_ptr<JobNetwork>& network = known[hold];
    if (network == nullptr) {
      MEGATWIN_TRY(network, JobNetwork::build(job, now));
    }
    changing.networks_.push_back(network);
  }
  return changing;
}

model::Result<std::vector<JobNetwork::Way>> ChangingNetwork::ways(const model::FlowKey& key) {
  std::vector<JobNetwork::Way> ways;
  for (std::size_t k = 0; k < size(); ++k) {
    if (const std::size_t first = first_like(k); first < k) {
      ways.push_back(ways[first]);
      continue;
    }
    MEGATWIN_TRY(JobNetwork::Way way, at(k).way(key));
    ways.push_back(std::move(way));
  }
  return ways;
}

}  // namespace megatwin::sim
