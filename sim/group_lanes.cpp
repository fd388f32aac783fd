#include "sim/group_lanes.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "model/assert.h"
#include "model/expert_imbalance.h"
#include "model/numbers.h"
#include "model/program/group_topology.h"
#include "model/topology/machine_topology.h"

namespace megatwin::sim {

using model::BytesPerSecond;
using model::CollectiveAlgorithm;
using model::RankId;

namespace {

// A lane that leaves its machine, in equal parts over the adapters of its GPU.
void add_lane(std::vector<GroupLane>& lanes, const JobNetwork& network, const GroupLane& lane) {
  const RankId from = lane.key.from, to = lane.key.to;
  const bool tree = lane.way == Stream::Way::TreeUp || lane.way == Stream::Way::TreeDown;
  const bool leaves = tree || network.machine_of(from) != network.machine_of(to);
  const int parts = leaves ? network.adapter_lanes(from) : 1;
  for (int adapter = 0; adapter < parts; ++adapter) {
    lanes.push_back(
        {{from, to, lane.key.channel, adapter}, lane.rate / parts, lane.way, lane.member});
  }
}

// Groups of one kind may lie over machines in several ways: NCCL chooses for each by itself.
CollectiveAlgorithm fitting(const PatternWish& wish, const MachineRanks& machines) {
  const bool several = machines.size() > 1;
  const bool lone = std::all_of(machines.begin(), machines.end(),
                                [](const auto& members) { return members.size() == 1; });
  const bool reduces = wish.kind == model::CollectiveKind::AllReduce;
  switch (wish.algorithm) {
    case CollectiveAlgorithm::Nvls:
      if (!several) return wish.algorithm;
      return reduces && wish.multicast ? CollectiveAlgorithm::NvlsTree : CollectiveAlgorithm::Ring;
    case CollectiveAlgorithm::NvlsTree:
    case CollectiveAlgorithm::CollNetDirect:
      if (several) return wish.algorithm;
      return wish.multicast ? CollectiveAlgorithm::Nvls : CollectiveAlgorithm::Ring;
    case CollectiveAlgorithm::Pat:
      return lone ? wish.algorithm : CollectiveAlgorithm::Ring;
    case CollectiveAlgorithm::Ring:
    case CollectiveAlgorithm::Tree:
    case CollectiveAlgorithm::CollNetChain:
    case CollectiveAlgorithm::Direct:
      break;
  }
  return wish.algorithm;
}

// Whether what a member sends another one meets anything that is not as it should be.
bool meets_network(const JobNetwork& network, RankId from, RankId to) {
  const int machine = network.machine_of(from);
  return machine != network.machine_of(to) || network.disturbed_inside(machine);
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

model::Result<GroupLanes> group_lanes(const JobNetwork& network, const std::vector<RankId>& members,
                                      const GroupAlgorithm& algorithm, BytesPerSecond rate) {
  PatternWish wish = algorithm.wish;
  wish.algorithm = fitting(wish, by_machine(network.topology(), {.ranks = members}));
  if (wish.algorithm == CollectiveAlgorithm::Ring) {
    return GroupLanes{.lanes = ring_lanes(network, members, rate)};
  }
  GroupLanes group;
  MEGATWIN_TRY(group.pattern, collective_pattern(network.topology(), {.ranks = members}, wish));
  // The closed form counts a mean where the ends of a tree send less than its middle: what it lets
  // the busiest send is enough for that.
  const double most = std::max(algorithm.busiest, group.pattern.busiest);
  if (algorithm.busiest > 0) group.denser = most / algorithm.busiest;
  // Streams inside a machine that share all their links are one.
  std::map<std::tuple<Stream::Way, RankId, RankId>, std::size_t> inside;
  for (const Stream& stream : group.pattern.streams) {
    const GroupLane lane{.key = {stream.from, stream.to, stream.channel},
                         .rate = stream.share / most * rate,
                         .way = stream.way,
                         .member = stream.member};
    const bool tree = stream.way == Stream::Way::TreeUp || stream.way == Stream::Way::TreeDown;
    if (tree || network.machine_of(stream.from) != network.machine_of(stream.to)) {
      add_lane(group.lanes, network, lane);
      continue;
    }
    const auto [known, added] =
        inside.emplace(std::tuple{stream.way, stream.from, stream.to}, group.lanes.size());
    if (added) {
      group.lanes.push_back(lane);
    } else {
      group.lanes[known->second].rate += lane.rate;
    }
  }
  return group;
}

model::Result<JobNetwork::Way> LaneRoutes::way(const GroupLane& lane) {
  if (lane.way == Stream::Way::Between) return network_.way(lane.key);
  const Stream stream{.way = lane.way,
                      .from = lane.key.from,
                      .to = lane.key.to,
                      .channel = lane.key.channel,
                      .member = lane.member};
  MEGATWIN_TRY(model::Route route, disturbed_.route(stream, lane.key.adapter));
  MEGATWIN_TRY(const model::Route plain, pristine_.route(stream, lane.key.adapter));
  return JobNetwork::Way{std::move(route), network_.undisturbed_rate(plain)};
}

ChangingLaneRoutes::ChangingLaneRoutes(ChangingNetwork& network, const CollectivePattern& pattern)
    : network_(network) {
  for (std::size_t k = 0; k < network.size(); ++k) routes_.emplace_back(network.at(k), pattern);
}

model::Result<std::vector<CappedWays::Way>> ChangingLaneRoutes::ways(
    const GroupLane& lane, const std::function<BytesPerSecond(std::size_t stretch)>& rate) {
  std::vector<CappedWays::Way> by_stretch;
  std::vector<JobNetwork::Way> ways;
  for (std::size_t k = 0; k < routes_.size(); ++k) {
    const std::size_t first = network_.first_like(k);
    JobNetwork::Way way;
    if (first < k) {
      way = ways[first];
    } else {
      MEGATWIN_TRY(way, routes_[k].way(lane));
    }
    by_stretch.push_back({way.route, std::min(rate(k), way.undisturbed)});
    ways.push_back(std::move(way));
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
                                  BytesPerSecond pair, const PairWeights& weights) {
  std::vector<GroupLane> lanes;
  for (std::size_t i = 0; i < members.size(); ++i) {
    for (std::size_t j = 0; j < members.size(); ++j) {
      const double weight = weights.empty() ? 1 : weights[i][j];
      if (i == j || weight <= 0 || !meets_network(network, members[i], members[j])) continue;
      add_lane(lanes, network, {{members[i], members[j]}, weight * pair});
    }
  }
  return lanes;
}

namespace {

// Pairs on machines that are not as they should be; what leaves a machine goes otherwise.
void add_inside(std::vector<GroupLane>& lanes, const JobNetwork& network,
                const std::vector<RankId>& members, BytesPerSecond pair,
                const PairWeights& weights) {
  for (std::size_t i = 0; i < members.size(); ++i) {
    const int machine = network.machine_of(members[i]);
    if (!network.disturbed_inside(machine)) continue;
    for (std::size_t j = 0; j < members.size(); ++j) {
      const double weight = weights.empty() ? 1 : weights[i][j];
      if (i == j || weight <= 0 || network.machine_of(members[j]) != machine) continue;
      add_lane(lanes, network, {{members[i], members[j]}, weight * pair});
    }
  }
}

}  // namespace

std::vector<GroupLane> rail_lanes(const JobNetwork& network, const std::vector<RankId>& members,
                                  BytesPerSecond pair, const PairWeights& weights) {
  std::vector<GroupLane> lanes;
  const model::Topology& topology = network.topology();
  const auto rail = [&](RankId rank) {
    const model::Topology::Machine& machine = topology.machine(network.machine_of(rank));
    return model::nic_of_gpu(topology.vertex(topology.gpu(rank)).position,
                             static_cast<int>(machine.gpus.size()),
                             static_cast<int>(machine.nics.size()));
  };
  for (std::size_t j = 0; j < members.size(); ++j) {
    for (std::size_t first = 0; first < members.size();) {
      const int machine = network.machine_of(members[first]);
      std::size_t sender = first, last = first;
      double weight = 0;
      for (; last < members.size() && network.machine_of(members[last]) == machine; ++last) {
        weight += weights.empty() ? 1 : weights[last][j];
        if (rail(members[last]) == rail(members[j])) sender = last;
      }
      if (machine != network.machine_of(members[j]) && weight > 0) {
        add_lane(lanes, network, {{members[sender], members[j]}, weight * pair});
      }
      first = last;
    }
  }
  add_inside(lanes, network, members, pair, weights);
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
  add_inside(lanes, network, members, pair, {});
  return lanes;
}

PairWeights pair_weights(const model::Job& job) {
  if (!job.transformer.experts || job.plan.expert < 2) return {};
  const auto ranks = model::as_index(job.plan.expert);
  const double count = job.plan.expert;
  const double busiest =
      std::min(job.plan.expert_capacity_imbalance,
               model::expert_imbalance_max(*job.transformer.experts, job.plan.expert));
  if (PairWeights table = model::table_weights(job); !table.empty()) return table;
  if (busiest <= 1) return {};
  std::vector<double> row(ranks, (count - busiest) / (count - 1) / busiest);
  row.front() = 1;
  return PairWeights(ranks, row);
}

}  // namespace megatwin::sim
