#include "sim/group_lanes.h"

#include <algorithm>

#include "model/assert.h"
#include "sim/flow/collective_flows.h"

namespace megatwin::sim {

using model::BytesPerSecond;
using model::RankId;

namespace {

// A lane that leaves its machine, in equal parts over the adapters of its GPU.
void add_lane(std::vector<GroupLane>& lanes, const JobNetwork& network, const GroupLane& lane) {
  const RankId from = lane.key.from, to = lane.key.to;
  const bool leaves = network.machine_of(from) != network.machine_of(to);
  const int parts = leaves ? network.adapter_lanes(from) : 1;
  for (int adapter = 0; adapter < parts; ++adapter) {
    lanes.push_back({{from, to, lane.key.channel, adapter}, lane.rate / parts});
  }
}

}  // namespace

bool uses_network(const JobNetwork& network, const std::vector<RankId>& members) {
  if (members.size() < 2) return false;
  const int first = network.machine_of(members.front());
  return std::any_of(members.begin(), members.end(), [&](RankId rank) {
    const int machine = network.machine_of(rank);
    return machine != first || network.disturbed_inside(machine);
  });
}

bool uses_network(ChangingNetwork& network, const std::vector<RankId>& members) {
  for (std::size_t k = 0; k < network.size(); ++k) {
    if (uses_network(network.at(k), members)) return true;
  }
  return false;
}

model::Result<std::vector<CappedWays::Way>> ways_of(
    ChangingNetwork& network, const model::FlowKey& key,
    const std::function<BytesPerSecond(std::size_t stretch)>& rate) {
  MEGATWIN_TRY(std::vector<JobNetwork::Way> ways, network.ways(key));
  std::vector<CappedWays::Way> by_stretch;
  for (std::size_t k = 0; k < ways.size(); ++k) {
    by_stretch.push_back({std::move(ways[k].route), std::min(rate(k), ways[k].undisturbed)});
  }
  return by_stretch;
}

std::vector<GroupLane> ring_lanes(const JobNetwork& network, const std::vector<RankId>& members,
                                  BytesPerSecond bus) {
  const Rings rings = rings_of(network.topology(), {.ranks = members});
  std::vector<GroupLane> lanes;
  for (const RingEdge& edge : rings.edges) {
    add_lane(lanes, network, {{edge.from, edge.to, edge.channel}, bus / rings.channels});
  }
  return lanes;
}

std::vector<GroupLane> pair_lanes(const JobNetwork& network, const std::vector<RankId>& members,
                                  BytesPerSecond pair) {
  std::vector<GroupLane> lanes;
  for (const RankId from : members) {
    for (const RankId to : members) {
      if (network.machine_of(from) == network.machine_of(to)) continue;
      add_lane(lanes, network, {{from, to}, pair});
    }
  }
  return lanes;
}

std::vector<GroupLane> shifted_lanes(const JobNetwork& network, const std::vector<RankId>& members,
                                     BytesPerSecond pair) {
  std::vector<GroupLane> lanes;
  const std::size_t count = members.size();
  for (std::size_t i = 0; i < count; ++i) {
    const int own = network.machine_of(members[i]);
    const auto here = [&](RankId rank) { return network.machine_of(rank) == own; };
    const auto first = std::find_if(members.begin(), members.end(), here);
    const auto inside =
        static_cast<std::size_t>(std::count_if(members.begin(), members.end(), here));
    MEGATWIN_ASSERT(inside > 0, "the member itself is there");
    const std::size_t outside = count - inside;
    if (outside == 0) continue;
    // The i-th member of a machine goes to its fellow on another, the next one to the machine
    // after.
    const std::size_t place = i - static_cast<std::size_t>(first - members.begin());
    const std::size_t machines = std::max<std::size_t>(1, outside / inside);
    std::size_t shift = inside * (1 + place % machines);
    while (here(members[(i + shift) % count])) ++shift;
    add_lane(lanes, network,
             {{members[i], members[(i + shift) % count]}, static_cast<double>(outside) * pair});
  }
  return lanes;
}

}  // namespace megatwin::sim
