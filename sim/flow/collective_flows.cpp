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
using model::RankId;
using model::Route;
using model::Seconds;

}  // namespace

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

CollectiveFlows::Done CollectiveFlows::by_algorithm(const CommunicatorRanks& group, Bytes bytes,
                                                    const PatternWish& wish,
                                                    std::vector<FlowIndex> after) {
  if (group.ranks.size() < 2) return barrier(std::move(after));
  MEGATWIN_TRY(const CollectivePattern pattern,
               collective_pattern(router_.topology(), group, wish));
  PatternRoutes routes(router_, pattern);
  MEGATWIN_TRY(const Seconds tree, routes.tree_latency());
  std::vector<Route> ways;
  ways.reserve(pattern.streams.size());
  std::vector<Seconds> slowest(1);  // Of Between, by channel.
  for (const Stream& stream : pattern.streams) {
    MEGATWIN_TRY(Route route, routes.route(stream));
    if (as_index(stream.channel) >= slowest.size()) slowest.resize(as_index(stream.channel) + 1);
    Seconds& latency = slowest[as_index(stream.channel)];
    if (stream.way == Stream::Way::Between) latency = std::max(latency, route.latency);
    ways.push_back(std::move(route));
  }
  std::vector<FlowIndex> added;
  added.reserve(ways.size());
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const Stream& stream = pattern.streams[i];
    const Seconds latency = pattern.network_steps * slowest[as_index(stream.channel)] +
                            pattern.steps * group.step + tree;
    added.push_back(
        flows_.add({.size = stream.share * bytes, .latency = latency, .after = after}, ways[i]));
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
  return by_algorithm(group, bytes, {.algorithm = model::CollectiveAlgorithm::Nvls},
                      std::move(after));
}

}  // namespace megatwin::sim
