#include "sim/flow/collective_flows.h"

#include <algorithm>
#include <string>
#include <utility>

#include "model/assert.h"
#include "model/numbers.h"

namespace megatwin::sim {
namespace {

using model::as_index;
using model::Bytes;
using model::Link;
using model::LinkId;
using model::RankId;
using model::Route;
using model::Seconds;
using model::VertexId;
using model::VertexKind;

using Machines = std::vector<std::vector<RankId>>;

std::size_t smallest(const Machines& machines) {
  std::size_t least = machines.front().size();
  for (const auto& members : machines) least = std::min(least, members.size());
  return least;
}

int num_channels(const CommunicatorRanks& group, const Machines& machines) {
  return group.channels > 0 ? group.channels : static_cast<int>(smallest(machines));
}

// Channel c visits a machine from its c-th member downwards: c, c − 1, …, c + 1. The last of them
// sends to the c-th of the next machine.
std::vector<RankId> ring_order(const Machines& machines, int channel) {
  std::vector<RankId> order;
  for (const auto& members : machines) {
    const int count = static_cast<int>(members.size());
    for (int i = 0; i < count; ++i) {
      order.push_back(members[as_index(((channel - i) % count + count) % count)]);
    }
  }
  return order;
}

Machines by_machine(const model::Topology& topology, const CommunicatorRanks& group) {
  Machines machines;
  int last = -1;
  for (const RankId rank : group.ranks) {
    const bool known = rank.value >= 0 && rank.value < topology.num_gpus();
    const int machine = known ? topology.vertex(topology.gpu(rank)).machine : -2;
    if (machines.empty() || machine != last) machines.emplace_back();
    machines.back().push_back(rank);
    last = machine;
  }
  return machines;
}

// Highest power of two that divides a positive number.
int lowest_bit(int number) { return number & -number; }

}  // namespace

// Source: NVIDIA/nccl v2.30.7, src/graph/trees.cc. Machine 0 is the root and has one child; the
// parent of another is found by its lowest set bit. The second tree is the first one shifted by one
// machine when their number is odd, mirrored when it is even.
std::vector<int> binary_tree(int count, bool second) {
  std::vector<int> parent(as_index(count), -1);
  for (int i = 1; i < count; ++i) {
    const int bit = lowest_bit(i);
    int up = (i ^ bit) | (bit << 1);
    if (up >= count) up = i ^ bit;
    parent[as_index(i)] = up;
  }
  if (!second) return parent;
  std::vector<int> other(as_index(count), -1);
  for (int i = 0; i < count; ++i) {
    const int from = count % 2 == 0 ? count - 1 - i : (i + 1) % count;
    const int up = parent[as_index(from)];
    if (up < 0) continue;
    other[as_index(i)] = count % 2 == 0 ? count - 1 - up : (up - 1 + count) % count;
  }
  return other;
}

Rings rings_of(const model::Topology& topology, const CommunicatorRanks& group) {
  const Machines machines = by_machine(topology, group);
  Rings rings{.channels = num_channels(group, machines)};
  for (int c = 0; c < rings.channels; ++c) {
    const std::vector<RankId> order = ring_order(machines, c);
    for (std::size_t i = 0; i < order.size(); ++i) {
      rings.edges.push_back({order[i], order[(i + 1) % order.size()], c});
    }
  }
  return rings;
}

FlowIndex CollectiveFlows::barrier(std::vector<FlowIndex> after) {
  return flows_.add({.after = std::move(after)}, std::span<const std::int32_t>{});
}

model::Result<std::vector<FlowIndex>> CollectiveFlows::along(const std::vector<Edge>& edges,
                                                             int steps, Seconds step,
                                                             const std::vector<FlowIndex>& after) {
  std::vector<Route> routes;
  routes.reserve(edges.size());
  std::vector<Seconds> slowest;
  for (const Edge& edge : edges) {
    MEGATWIN_TRY(Route route, router_.route({edge.from, edge.to, edge.channel}));
    if (as_index(edge.channel) >= slowest.size()) slowest.resize(as_index(edge.channel) + 1);
    Seconds& latency = slowest[as_index(edge.channel)];
    latency = std::max(latency, route.latency);
    routes.push_back(std::move(route));
  }
  std::vector<FlowIndex> added;
  added.reserve(edges.size());
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const Seconds latency = steps * (slowest[as_index(edges[i].channel)] + step);
    added.push_back(
        flows_.add({.size = edges[i].bytes, .latency = latency, .after = after}, routes[i]));
  }
  return added;
}

CollectiveFlows::Done CollectiveFlows::ring(const CommunicatorRanks& group, Bytes per_edge,
                                            int steps, std::vector<FlowIndex> after) {
  if (group.ranks.size() < 2) return barrier(std::move(after));
  const Rings rings = rings_of(router_.topology(), group);
  std::vector<Edge> edges;
  for (const RingEdge& edge : rings.edges) {
    edges.push_back({edge.from, edge.to, per_edge / rings.channels, edge.channel});
  }
  MEGATWIN_TRY(std::vector<FlowIndex> added, along(edges, steps, group.step, after));
  return barrier(std::move(added));
}

CollectiveFlows::Done CollectiveFlows::ring_all_reduce(const CommunicatorRanks& group, Bytes bytes,
                                                       std::vector<FlowIndex> after) {
  const auto n = static_cast<double>(group.ranks.size());
  return ring(group, (2 * (n - 1) / n) * bytes, 2 * (static_cast<int>(n) - 1), std::move(after));
}

CollectiveFlows::Done CollectiveFlows::ring_all_gather(const CommunicatorRanks& group, Bytes bytes,
                                                       std::vector<FlowIndex> after) {
  const auto n = static_cast<double>(group.ranks.size());
  return ring(group, ((n - 1) / n) * bytes, static_cast<int>(n) - 1, std::move(after));
}

CollectiveFlows::Done CollectiveFlows::tree_all_reduce(const CommunicatorRanks& group, Bytes bytes,
                                                       std::vector<FlowIndex> after) {
  if (group.ranks.size() < 2) return barrier(std::move(after));
  const Machines machines = by_machine(router_.topology(), group);
  const int channels = num_channels(group, machines);
  const int count = static_cast<int>(machines.size());
  std::vector<Edge> edges;
  int chain = 0, depth = 0;
  for (int c = 0; c < channels; ++c) {
    for (const bool second : {false, true}) {
      const Bytes part = bytes / (2 * channels);
      const std::vector<int> parent = binary_tree(count, second);
      for (int m = 0; m < count; ++m) {
        // The head of the chain is the c-th member; the chain hangs below it.
        const std::vector<RankId>& members = machines[as_index(m)];
        const int size = static_cast<int>(members.size());
        for (int i = 1; i < size; ++i) {
          const RankId upper = members[as_index((c + i - 1) % size)];
          const RankId lower = members[as_index((c + i) % size)];
          edges.push_back({lower, upper, part, 2 * c + (second ? 1 : 0)});
          edges.push_back({upper, lower, part, 2 * c + (second ? 1 : 0)});
        }
        chain = std::max(chain, size - 1);
        int above = 0;
        for (int at = m; parent[as_index(at)] >= 0; at = parent[as_index(at)]) ++above;
        depth = std::max(depth, above);
        const int up = parent[as_index(m)];
        if (up < 0) continue;
        const std::vector<RankId>& parents = machines[as_index(up)];
        const RankId head = members[as_index(c % size)];
        const RankId over = parents[as_index(c % static_cast<int>(parents.size()))];
        edges.push_back({head, over, part, 2 * c + (second ? 1 : 0)});
        edges.push_back({over, head, part, 2 * c + (second ? 1 : 0)});
      }
    }
  }
  MEGATWIN_TRY(std::vector<FlowIndex> added, along(edges, 2 * (chain + depth), group.step, after));
  return barrier(std::move(added));
}

CollectiveFlows::Done CollectiveFlows::hierarchical_all_reduce(const CommunicatorRanks& group,
                                                               Bytes bytes,
                                                               std::vector<FlowIndex> after) {
  if (group.ranks.size() < 2) return barrier(std::move(after));
  const Machines machines = by_machine(router_.topology(), group);
  const std::size_t size = machines.front().size();
  for (const auto& members : machines) {
    if (members.size() == size) continue;
    return model::fail({.message = "a hierarchical all-reduce over machines of " +
                                   std::to_string(size) + " and " + std::to_string(members.size()) +
                                   " members",
                        .allowed = "as many members on every machine"});
  }
  // NOLINTNEXTLINE(performance-unnecessary-value-param): every caller gives a list away.
  const auto inside = [&](std::vector<FlowIndex> before) -> Done {
    std::vector<FlowIndex> ends;
    for (const auto& members : machines) {
      const CommunicatorRanks local{.ranks = members, .step = group.step};
      MEGATWIN_TRY(const FlowIndex end, ring_all_gather(local, bytes, before));
      ends.push_back(end);
    }
    return barrier(std::move(ends));
  };
  MEGATWIN_TRY(const FlowIndex scattered, inside(std::move(after)));
  std::vector<FlowIndex> rails;
  for (std::size_t r = 0; r < size; ++r) {
    CommunicatorRanks rail{.channels = 1, .step = group.step};
    for (const auto& members : machines) rail.ranks.push_back(members[r]);
    MEGATWIN_TRY(const FlowIndex end,
                 ring_all_reduce(rail, bytes / static_cast<double>(size), {scattered}));
    rails.push_back(end);
  }
  return inside({barrier(std::move(rails))});
}

CollectiveFlows::Done CollectiveFlows::all_to_all(const CommunicatorRanks& group, Bytes bytes,
                                                  AllToAll how, std::vector<FlowIndex> after) {
  const std::size_t n = group.ranks.size();
  if (n < 2) return barrier(std::move(after));
  const Bytes part = bytes / static_cast<double>(n);
  if (!how.rounds) {
    std::vector<std::vector<Bytes>> sent(n, std::vector<Bytes>(n, part));
    return all_to_all(group, sent, std::move(after));
  }
  FlowIndex last = barrier(std::move(after));
  for (std::size_t round = 1; round < n; ++round) {
    std::vector<Edge> edges;
    for (std::size_t i = 0; i < n; ++i) {
      edges.push_back({group.ranks[i], group.ranks[(i + round) % n], part, 0});
    }
    MEGATWIN_TRY(std::vector<FlowIndex> added, along(edges, 1, group.step, {last}));
    last = barrier(std::move(added));
  }
  return last;
}

CollectiveFlows::Done CollectiveFlows::all_to_all(const CommunicatorRanks& group,
                                                  const std::vector<std::vector<Bytes>>& sent,
                                                  std::vector<FlowIndex> after) {
  const std::size_t n = group.ranks.size();
  MEGATWIN_ASSERT(sent.size() == n, sent.size(), " rows of bytes for ", n, " ranks");
  std::vector<FlowIndex> added;
  for (std::size_t i = 0; i < n; ++i) {
    MEGATWIN_ASSERT(sent[i].size() == n, sent[i].size());
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j || sent[i][j].value <= 0) continue;
      MEGATWIN_TRY(const Route route, router_.route({group.ranks[i], group.ranks[j]}));
      added.push_back(flows_.add(
          {.size = sent[i][j], .latency = route.latency + group.step, .after = after}, route));
    }
  }
  if (added.empty()) return barrier(std::move(after));
  return barrier(std::move(added));
}

CollectiveFlows::Done CollectiveFlows::nvls_all_reduce(const CommunicatorRanks& group, Bytes bytes,
                                                       std::vector<FlowIndex> after) {
  if (group.ranks.size() < 2) return barrier(std::move(after));
  if (by_machine(router_.topology(), group).size() != 1) {
    return model::fail({.message = "NVLS adds inside one NVSwitch, the ranks are on several"});
  }
  const model::Topology& topology = router_.topology();
  std::vector<FlowIndex> added;
  for (const RankId rank : group.ranks) {
    MEGATWIN_TRY(const Route any, router_.route({group.ranks.front(), rank}));
    const VertexId gpu = topology.gpu(rank);
    std::vector<std::int32_t> up, down;
    for (const LinkId id : topology.links_from(gpu)) {
      const Link& link = topology.link(id);
      if (link.up && topology.vertex(link.to).kind == VertexKind::NvSwitch) {
        up.push_back(id.value);
        for (const LinkId back : topology.links_from(link.to)) {
          if (topology.link(back).to == gpu && topology.link(back).up) down.push_back(back.value);
        }
        break;
      }
    }
    if (up.empty() || down.empty()) {
      return model::fail({.message = topology.vertex(gpu).name + " has no NVSwitch to add in"});
    }
    const FlowSet::Order order{.size = bytes, .latency = 2 * group.step, .after = after};
    added.push_back(flows_.add(order, up));
    added.push_back(flows_.add(order, down));
  }
  return barrier(std::move(added));
}

}  // namespace megatwin::sim
