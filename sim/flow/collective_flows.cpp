#include "sim/flow/collective_flows.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "model/assert.h"
#include "model/numbers.h"

namespace megatwin::sim {
namespace {

using model::as_index;
using model::Bytes;
using model::RankId;
using model::Route;
using model::Seconds;

}  // namespace

FlowIndex CollectiveFlows::barrier(std::vector<FlowIndex> after) {
  return flows_.add({.after = std::move(after)}, std::span<const std::int32_t>{});
}

int CollectiveFlows::lanes_of(const Stream& stream) const {
  switch (stream.way) {
    case Stream::Way::Between:
      return lanes(stream.from, stream.to);
    case Stream::Way::TreeUp:
    case Stream::Way::TreeDown:
      return router_.own_adapters(stream.from);
    case Stream::Way::ToSwitch:
    case Stream::Way::FromSwitch:
      return 1;
  }
  return 1;
}

int CollectiveFlows::lanes(RankId from, RankId to) const {
  const model::Topology& topology = router_.topology();
  const auto machine = [&](RankId rank) { return topology.vertex(topology.gpu(rank)).machine; };
  if (machine(from) == machine(to)) return 1;
  return std::lcm(router_.own_adapters(from), router_.own_adapters(to));
}

model::Result<std::vector<FlowIndex>> CollectiveFlows::along(const std::vector<Edge>& edges,
                                                             int steps, Seconds step,
                                                             const std::vector<FlowIndex>& after) {
  struct Part {
    Route route;
    Bytes bytes;
    int channel = 0;
  };
  std::vector<Part> parts;
  parts.reserve(edges.size());
  std::vector<Seconds> slowest;
  for (const Edge& edge : edges) {
    const int count = lanes(edge.from, edge.to);
    for (int adapter = 0; adapter < count; ++adapter) {
      MEGATWIN_TRY(Route route, router_.route({edge.from, edge.to, edge.channel, adapter}));
      if (as_index(edge.channel) >= slowest.size()) slowest.resize(as_index(edge.channel) + 1);
      Seconds& latency = slowest[as_index(edge.channel)];
      latency = std::max(latency, route.latency);
      parts.push_back({std::move(route), edge.bytes / count, edge.channel});
    }
  }
  std::vector<FlowIndex> added;
  added.reserve(parts.size());
  for (const Part& part : parts) {
    const Seconds latency = steps * (slowest[as_index(part.channel)] + step);
    added.push_back(
        flows_.add({.size = part.bytes, .latency = latency, .after = after}, part.route));
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

CollectiveFlows::Done CollectiveFlows::by_algorithm(const CommunicatorRanks& group, Bytes bytes,
                                                    const PatternWish& wish,
                                                    std::vector<FlowIndex> after) {
  if (group.ranks.size() < 2) return barrier(std::move(after));
  MEGATWIN_TRY(const CollectivePattern pattern,
               collective_pattern(router_.topology(), group, wish));
  PatternRoutes routes(router_, pattern);
  MEGATWIN_TRY(const Seconds tree, routes.tree_latency());
  struct Part {
    Route route;
    double share = 0;
    int channel = 0;
  };
  std::vector<Part> parts;
  parts.reserve(pattern.streams.size());
  std::vector<Seconds> slowest(1);  // Of Between, by channel.
  for (const Stream& stream : pattern.streams) {
    if (as_index(stream.channel) >= slowest.size()) slowest.resize(as_index(stream.channel) + 1);
    const int count = lanes_of(stream);
    for (int adapter = 0; adapter < count; ++adapter) {
      MEGATWIN_TRY(Route route, routes.route(stream, adapter));
      Seconds& latency = slowest[as_index(stream.channel)];
      if (stream.way == Stream::Way::Between) latency = std::max(latency, route.latency);
      parts.push_back({std::move(route), stream.share / count, stream.channel});
    }
  }
  std::vector<FlowIndex> added;
  added.reserve(parts.size());
  for (const Part& part : parts) {
    const Seconds latency =
        pattern.network_steps * slowest[as_index(part.channel)] + pattern.steps * group.step + tree;
    added.push_back(
        flows_.add({.size = part.share * bytes, .latency = latency, .after = after}, part.route));
  }
  return barrier(std::move(added));
}

CollectiveFlows::Done CollectiveFlows::tree_all_reduce(const CommunicatorRanks& group, Bytes bytes,
                                                       std::vector<FlowIndex> after) {
  return by_algorithm(group, bytes, {.algorithm = model::CollectiveAlgorithm::Tree},
                      std::move(after));
}

CollectiveFlows::Done CollectiveFlows::sharp_all_reduce(const CommunicatorRanks& group, Bytes bytes,
                                                        bool multicast,
                                                        std::vector<FlowIndex> after) {
  return by_algorithm(
      group, bytes,
      {.algorithm = model::CollectiveAlgorithm::CollNetDirect, .multicast = multicast},
      std::move(after));
}

CollectiveFlows::Done CollectiveFlows::hierarchical_all_reduce(const CommunicatorRanks& group,
                                                               Bytes bytes,
                                                               std::vector<FlowIndex> after) {
  if (group.ranks.size() < 2) return barrier(std::move(after));
  const MachineRanks machines = by_machine(router_.topology(), group);
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

model::Result<bool> CollectiveFlows::add_message(const Edge& message, Seconds step,
                                                 const std::vector<FlowIndex>& after,
                                                 std::vector<FlowIndex>& added) {
  if (message.from == message.to || message.bytes.value <= 0) return true;
  const int count = lanes(message.from, message.to);
  for (int adapter = 0; adapter < count; ++adapter) {
    MEGATWIN_TRY(const Route route,
                 router_.route({message.from, message.to, message.channel, adapter}));
    added.push_back(flows_.add(
        {.size = message.bytes / count, .latency = route.latency + step, .after = after}, route));
  }
  return true;
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
      MEGATWIN_TRY(
          [[maybe_unused]] const bool done,
          add_message({group.ranks[i], group.ranks[j], sent[i][j]}, group.step, after, added));
    }
  }
  if (added.empty()) return barrier(std::move(after));
  return barrier(std::move(added));
}

RankId CollectiveFlows::beside_adapter_of(RankId to, RankId near) {
  const model::Topology& topology = router_.topology();
  const auto adapter = [&](RankId rank) {
    return topology.vertex(router_.adapter_of(rank)).position;
  };
  const int wanted = adapter(to);
  const model::Vertex& vertex = topology.vertex(topology.gpu(near));
  const int first = near.value - vertex.position;  // A machine's GPUs are numbered in order.
  const auto count = static_cast<int>(topology.machine(vertex.machine).gpus.size());
  for (int gpu = 0; gpu < count; ++gpu) {
    if (const RankId rank{first + gpu}; adapter(rank) == wanted) return rank;
  }
  return near;
}

CollectiveFlows::Done CollectiveFlows::all_to_all_by_machines(
    const CommunicatorRanks& group, Bytes bytes, const std::vector<std::vector<Bytes>>& sent,
    std::vector<FlowIndex> after) {
  const std::size_t n = group.ranks.size();
  const Bytes part = bytes / static_cast<double>(n);
  const MachineRanks machines = by_machine(router_.topology(), group);
  const auto machine_of = [&](RankId rank) {
    return router_.topology().vertex(router_.topology().gpu(rank)).machine;
  };
  std::vector<FlowIndex> added;
  for (std::size_t j = 0; j < n; ++j) {
    const RankId to = group.ranks[j];
    std::size_t i = 0;
    for (const auto& members : machines) {
      const bool inside = machine_of(members.front()) == machine_of(to);
      Bytes sum;
      for (const RankId from : members) {
        const Bytes size = sent.empty() ? part : sent[i][j];
        ++i;
        sum += size;
        if (!inside) continue;
        MEGATWIN_TRY([[maybe_unused]] const bool done,
                     add_message({from, to, size}, group.step, after, added));
      }
      if (inside) continue;
      MEGATWIN_TRY(
          [[maybe_unused]] const bool done,
          add_message({beside_adapter_of(to, members.front()), to, sum}, group.step, after, added));
    }
  }
  if (added.empty()) return barrier(std::move(after));
  return barrier(std::move(added));
}

CollectiveFlows::Done CollectiveFlows::nvls_all_reduce(const CommunicatorRanks& group, Bytes bytes,
                                                       std::vector<FlowIndex> after) {
  return by_algorithm(group, bytes, {.algorithm = model::CollectiveAlgorithm::Nvls},
                      std::move(after));
}

}  // namespace megatwin::sim
