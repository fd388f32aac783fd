#include "model/topology/router.h"

#include <algorithm>
#include <utility>

#include "model/topology/machine_topology.h"

namespace megatwin::model {
namespace {

std::size_t as_index(VertexId id) { return static_cast<std::size_t>(id.value); }

// One GPU may pass a message on over NVLink; NCCL goes no further either.
constexpr int kRelaysMax = 1;

// Source: Steele et al., "Fast splittable pseudorandom number generators", OOPSLA 2014, figure 15.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

Route measured(const Topology& topology, std::vector<LinkId> links) {
  Route route{.links = std::move(links)};
  for (const LinkId id : route.links) {
    const Link& link = topology.link(id);
    route.latency += link.latency;
    route.bandwidth =
        id == route.links.front() ? link.bandwidth : std::min(route.bandwidth, link.bandwidth);
  }
  return route;
}

}  // namespace

Router::Router(const Topology& topology, RoutingOptions options)
    : topology_(topology), options_(std::move(options)) {
  seen_.resize(static_cast<std::size_t>(topology.num_vertices()));
}

void Router::forget() {
  distances_.clear();
  hops_to_.clear();
  seen_.assign(static_cast<std::size_t>(topology_.num_vertices()), {});
  round_ = 0;
}

Result<Route> Router::route(const FlowKey& key) {
  for (const RankId rank : {key.from, key.to}) {
    if (rank.value >= 0 && rank.value < topology_.num_gpus()) continue;
    return fail({.message = "rank " + std::to_string(rank.value) + " is not in the topology",
                 .allowed = "ranks 0 to " + std::to_string(topology_.num_gpus() - 1)});
  }
  if (key.from == key.to) return Route{};
  const VertexId from = topology_.gpu(key.from), to = topology_.gpu(key.to);
  if (topology_.vertex(from).machine == topology_.vertex(to).machine) {
    Links links;
    if (inside_machine(from, to, links)) return measured(topology_, std::move(links));
    // A machine whose inside is torn may still be joined outside.
  }
  return between_machines(from, to, key);
}

Result<Route> Router::between_machines(VertexId from, VertexId to, const FlowKey& key) {
  const auto no_way = [&](const std::string& reason) {
    return fail({.message = "no route from " + topology_.vertex(from).name + " to " +
                            topology_.vertex(to).name + ": " + reason +
                            (options_.cuts.empty() ? "" : "; " + options_.cuts)});
  };
  const Topology::Machine& source = topology_.machine(topology_.vertex(from).machine);
  const Topology::Machine& target = topology_.machine(topology_.vertex(to).machine);
  if (source.nics.empty() || target.nics.empty()) return no_way("a machine has no adapter");
  const auto own = [&](const Topology::Machine& machine, int gpu) {
    return adapter_of(machine, gpu, key.adapter);
  };
  const std::size_t in = own(target, topology_.vertex(to).position);
  std::size_t out = own(source, topology_.vertex(from).position);
  VertexId leaving = from;
  Links links;
  const bool rails = source.nics.size() == target.nics.size();
  if (options_.pxn && rails && in != out) {
    for (const VertexId gpu : source.gpus) {
      if (own(source, topology_.vertex(gpu).position) != in) continue;
      if (search(from, gpu, Inside::Nvlink, links)) leaving = gpu, out = in;
      break;
    }
  }
  if (!to_nic(leaving, source.nics[out], links)) return no_way("no PCIe leads to an adapter");
  if (!through_fabric(source.nics[out], target.nics[in], key, links)) {
    return no_way("the network does not join " + topology_.vertex(source.nics[out]).name + " and " +
                  topology_.vertex(target.nics[in]).name);
  }
  // PCIe is searched from the GPU, which may be the end of a way but never on it.
  if (!search(target.nics[in], to, Inside::Pcie, links)) {
    return no_way("no PCIe leads from " + topology_.vertex(target.nics[in]).name);
  }
  return measured(topology_, std::move(links));
}

std::size_t Router::links_between(VertexId gpu, VertexId nic) {
  Links links;
  return to_nic(gpu, nic, links) ? links.size() : 0;
}

Result<Router::Uplink> Router::uplink(RankId gpu, int adapter) {
  if (gpu.value < 0 || gpu.value >= topology_.num_gpus()) {
    return fail({.message = "rank " + std::to_string(gpu.value) + " is not in the topology",
                 .allowed = "ranks 0 to " + std::to_string(topology_.num_gpus() - 1)});
  }
  const VertexId at = topology_.gpu(gpu);
  const Vertex& vertex = topology_.vertex(at);
  const Topology::Machine& machine = topology_.machine(vertex.machine);
  const auto lost = [&](const std::string& reason) {
    return fail({.message = vertex.name + " does not reach the network: " + reason});
  };
  if (machine.nics.empty()) return lost("its machine has no adapter");
  Uplink way{.nic = machine.nics[adapter_of(machine, vertex.position, adapter)]};
  const std::string& nic = topology_.vertex(way.nic).name;
  const LinkId port = port_of(way.nic);
  if (port.value < 0) {
    return lost("the port of " + nic + " is down, and no other that it reaches is up");
  }
  const LinkId back = port_to(way.nic, topology_.link(port).to);
  if (back.value < 0) return lost("no port leads back to " + nic);
  way.down.push_back(back);
  if (!to_nic(at, way.nic, way.up) || !search(way.nic, at, Inside::Pcie, way.down)) {
    return lost("no PCIe leads to " + nic + " and back");
  }
  way.up.push_back(port);
  return way;
}

VertexId Router::adapter_of(RankId gpu) {
  const Vertex& vertex = topology_.vertex(topology_.gpu(gpu));
  const Topology::Machine& machine = topology_.machine(vertex.machine);
  return machine.nics[adapter_of(machine, vertex.position, 0)];
}

// The GPU's own adapter; or the nearest one whose port is up, by links of PCIe: on its own switch,
// then its socket, then beyond; of several the next one after its own.
int Router::own_adapters(RankId gpu) const {
  const Vertex& vertex = topology_.vertex(topology_.gpu(gpu));
  const Topology::Machine& machine = topology_.machine(vertex.machine);
  const std::size_t count = machine.nics.size(), own = count / machine.gpus.size();
  const auto first = static_cast<std::size_t>(
      nic_of_gpu(vertex.position, static_cast<int>(machine.gpus.size()), static_cast<int>(count)));
  int up = 0;
  for (std::size_t i = first; i < first + own; ++i)
    up += port_of(machine.nics[i]).value >= 0 ? 1 : 0;
  return std::max(up, 1);
}

std::size_t Router::adapter_of(const Topology::Machine& machine, int gpu, int adapter) {
  const std::size_t count = machine.nics.size();
  const auto nic = static_cast<std::size_t>(
      nic_of_gpu(gpu, static_cast<int>(machine.gpus.size()), static_cast<int>(count)));
  const auto is_up = [&](std::size_t i) { return port_of(machine.nics[i]).value >= 0; };
  std::vector<std::size_t> own_up;
  for (std::size_t i = nic; i < nic + count / machine.gpus.size(); ++i) {
    if (is_up(i)) own_up.push_back(i);
  }
  if (!own_up.empty()) return own_up[static_cast<std::size_t>(adapter) % own_up.size()];
  if (is_up(nic)) return nic;
  std::size_t nearest = nic, least = 0;
  for (std::size_t i = 1; i < count; ++i) {
    const std::size_t other = (nic + i) % count;
    if (!is_up(other)) continue;
    const std::size_t far =
        links_between(machine.gpus[static_cast<std::size_t>(gpu)], machine.nics[other]);
    if (far > 0 && (least == 0 || far < least)) nearest = other, least = far;
  }
  return nearest;
}

bool Router::inside_machine(VertexId from, VertexId to, Links& links) {
  return search(from, to, Inside::Nvlink, links) || search(from, to, Inside::Pcie, links);
}

bool Router::to_nic(VertexId gpu, VertexId nic, Links& links) {
  return search(gpu, nic, Inside::Pcie, links);
}

// Fewest hops; of those the widest; of those the one whose links were added first.
bool Router::search(VertexId from, VertexId to, Inside by, Links& links) {
  ++round_;
  const int machine = topology_.vertex(from).machine;
  std::vector<VertexId> level = {from}, next;
  seen_[as_index(from)] = {.round = round_, .hops = 0, .width = 1e300, .by = LinkId{-1}};
  for (int hops = 1; !level.empty() && seen_[as_index(to)].round != round_; ++hops) {
    next.clear();
    for (const VertexId at : level) {
      const VertexKind kind = topology_.vertex(at).kind;
      const bool end = kind == VertexKind::Gpu || kind == VertexKind::Nic;
      if (by == Inside::Pcie && end && at != from) continue;
      for (const LinkId id : topology_.links_from(at)) {
        const Link& link = topology_.link(id);
        if (!link.up || (link.kind == LinkKind::Nvlink) != (by == Inside::Nvlink)) continue;
        if (topology_.vertex(link.to).machine != machine) continue;
        Seen& there = seen_[as_index(link.to)];
        const double width = std::min(seen_[as_index(at)].width, link.bandwidth.value);
        if (there.round != round_) {
          there = {.round = round_, .hops = hops, .width = width, .by = id};
          next.push_back(link.to);
        } else if (there.hops == hops && width > there.width) {
          there.width = width;
          there.by = id;
        }
      }
    }
    std::sort(next.begin(), next.end());
    std::swap(level, next);
  }
  if (seen_[as_index(to)].round != round_) return false;
  Links way;
  int relays = 0;
  for (VertexId at = to; at != from; at = topology_.link(way.back()).from) {
    way.push_back(seen_[as_index(at)].by);
    if (at != to && topology_.vertex(at).kind == VertexKind::Gpu) ++relays;
  }
  if (relays > kRelaysMax) return false;
  links.insert(links.end(), way.rbegin(), way.rend());
  return true;
}

LinkId Router::port_of(VertexId nic) const {
  for (const LinkId id : topology_.links_from(nic)) {
    if (topology_.link(id).kind == LinkKind::Port && topology_.link(id).up) return id;
  }
  return LinkId{-1};
}

LinkId Router::port_to(VertexId nic, VertexId from) const {
  for (const LinkId id : topology_.links_from(from)) {
    if (topology_.link(id).up && topology_.link(id).to == nic) return id;
  }
  return LinkId{-1};
}

std::uint64_t Router::weight(const FlowKey& key, LinkId link) const {
  std::uint64_t h = mix(options_.seed);
  const int lane = key.channel ^ (key.adapter << 16);
  for (const int part : {key.from.value, key.to.value, lane, link.value}) {
    h = mix(h ^ static_cast<std::uint32_t>(part));
  }
  return h;
}

const std::vector<std::uint16_t>& Router::hops_to(VertexId target) {
  if (distances_.empty()) distances_.emplace_back(topology_);
  auto found = hops_to_.find(target);
  if (found == hops_to_.end()) found = hops_to_.emplace(target, distances_[0].to(target)).first;
  return found->second;
}

bool Router::through_fabric(VertexId from_nic, VertexId to_nic, const FlowKey& key, Links& links) {
  const LinkId up = port_of(from_nic), back = port_of(to_nic);
  if (up.value < 0 || back.value < 0) return false;
  const VertexId target = topology_.link(back).to;
  const std::vector<std::uint16_t>& hops = hops_to(target);
  links.push_back(up);
  VertexId at = topology_.link(up).to;
  if (hops[as_index(at)] == FabricDistances::kUnreachable) return false;
  while (at != target) {
    LinkId best{-1};
    std::uint64_t best_weight = 0;
    for (const LinkId id : topology_.links_from(at)) {
      const Link& link = topology_.link(id);
      if (!link.up || hops[as_index(link.to)] + 1 != hops[as_index(at)]) continue;
      if (best.value >= 0 && options_.choice == WayChoice::First) continue;
      const std::uint64_t w = weight(key, id);
      if (best.value < 0 || w > best_weight) best = id, best_weight = w;
    }
    links.push_back(best);
    at = topology_.link(best).to;
  }
  const LinkId in = port_to(to_nic, target);
  if (in.value < 0) return false;
  links.push_back(in);
  return true;
}

std::string to_text(const Topology& topology, const Route& route) {
  if (route.links.empty()) return "stays where it is";
  std::string text = topology.vertex(topology.link(route.links.front()).from).name;
  for (const LinkId id : route.links) text += " -> " + topology.vertex(topology.link(id).to).name;
  return text;
}

}  // namespace megatwin::model
