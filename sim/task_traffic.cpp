#include "sim/task_traffic.h"

#include <algorithm>
#include <optional>

#include "model/numbers.h"
#include "model/rank_layout.h"
#include "sim/group_lanes.h"

namespace megatwin::sim {
namespace {

using model::as_index;
using model::BytesPerSecond;
using model::GroupKind;
using model::RankId;
using model::TaskKind;
using model::TaskPrice;

constexpr std::array<GroupKind, kTaskTrafficKinds> kTrafficKinds{
    GroupKind::Tensor, GroupKind::Context, GroupKind::Expert, GroupKind::ExpertTensor};
constexpr std::size_t kExpert = 2;

// The weight part of a split backward is products only.
std::optional<TaskPrice> price_of(const DelayedProgram& program, int replica, int stage, int chunk,
                                  TaskKind kind) {
  switch (kind) {
    case TaskKind::Forward:
      return program.forward(replica, stage, chunk);
    case TaskKind::Backward:
    case TaskKind::BackwardInput:
      return program.backward(replica, stage, chunk);
    case TaskKind::BackwardWeight:
    case TaskKind::Recompute:
      return std::nullopt;
  }
  return std::nullopt;
}

// As finely as `most` lanes allow; see TaskLanes::add().
std::vector<GroupLane> expert_lanes(const JobNetwork& network, const std::vector<RankId>& members,
                                    BytesPerSecond pair, const PairWeights& weights,
                                    std::int64_t most) {
  std::vector<GroupLane> lanes = pair_lanes(network, members, pair, weights);
  if (std::ssize(lanes) <= most) return lanes;
  lanes = rail_lanes(network, members, pair, weights);
  if (std::ssize(lanes) <= most || !weights.empty()) return lanes;
  return shifted_lanes(network, members, pair);
}

std::array<const std::vector<double>*, kTaskTrafficKinds> delays_of(
    const GroupContention& contention) {
  return {&contention.tensor, &contention.context, &contention.expert, &contention.expert_tensor};
}

Nanoseconds rounded(model::Seconds time) { return model::round_to_instant(time).ns; }

}  // namespace

std::vector<TaskTraffic> task_traffic(const DelayedProgram& program, const PipelineCosts& costs,
                                      const GroupContention& contention,
                                      const GroupAlgorithms& algorithms) {
  std::vector<TaskTraffic> traffic(as_index(costs.num_classes) * costs.class_stride());
  const model::PipelineShape& shape = costs.shape;
  for (int replica = 0; replica < costs.num_classes; ++replica) {
    for (int stage = 0; stage < shape.pipeline; ++stage) {
      std::array<double, kTaskTrafficKinds> flowing{};
      for (std::size_t kind = 0; kind < kTaskTrafficKinds; ++kind) {
        const std::size_t unit = as_index(std::int64_t{replica} * shape.pipeline + stage);
        flowing[kind] =
            algorithms.flowing_part(kTrafficKinds[kind], (*delays_of(contention)[kind])[unit]);
      }
      for (int phase = 0; phase < shape.phases(); ++phase) {
        for (int chunk = 0; chunk < shape.model_chunks; ++chunk) {
          const auto price = price_of(program, replica, stage, chunk, shape.kind_of(phase));
          if (!price) continue;
          const std::size_t at = costs.task_index(replica, stage, phase, chunk);
          traffic[at].exposed = {
              rounded(flowing[0] * price->exposed_tp), rounded(flowing[1] * price->exposed_cp),
              rounded(flowing[2] * (price->exposed_ep - price->exposed_expert_tensor)),
              rounded(flowing[3] * price->exposed_expert_tensor)};
          // Rounding of the parts must not exceed the whole.
          if (traffic[at].total() > costs.task[at]) traffic[at] = {};
        }
      }
    }
  }
  return traffic;
}

TaskTrafficRates task_traffic_rates(const GroupContention& contention,
                                    const std::vector<TaskTraffic>& traffic,
                                    const GroupAlgorithms& algorithms) {
  TaskTrafficRates rates;
  const auto delays = delays_of(contention);
  for (std::size_t kind = 0; kind < kTaskTrafficKinds; ++kind) {
    const bool exposed = std::any_of(traffic.begin(), traffic.end(), [&](const TaskTraffic& task) {
      return task.exposed[kind] > 0;
    });
    if (!exposed) continue;
    const GroupKind group = kTrafficKinds[kind];
    if (algorithms.of(group).peak.value <= 0) continue;
    for (const double factor : *delays[kind]) {
      rates.rate[kind].push_back(algorithms.of(group).peak / factor);
    }
  }
  return rates;
}

model::Result<TaskLanes> TaskLanes::add(const model::Job& job,
                                        const std::vector<TaskTrafficRates>& rates,
                                        const GroupAlgorithms& algorithms, std::int64_t tasks,
                                        ChangingNetwork& network, CappedWays& ways) {
  TaskLanes lanes;
  const model::RankLayout layout(job.plan);
  const PairWeights weights = pair_weights(job);
  const int p = job.plan.pipeline;
  lanes.handles_.resize(as_index(std::int64_t{job.plan.data} * p) * kTaskTrafficKinds);
  for (std::size_t kind = 0; kind < kTaskTrafficKinds; ++kind) {
    if (rates.front().rate[kind].empty()) continue;
    for (int r = 0; r < job.plan.gpus(); ++r) {
      const RankId rank{r};
      if (layout.leader(kTrafficKinds[kind], rank) != rank) continue;
      const std::vector<RankId> members = layout.members(kTrafficKinds[kind], rank);
      if (!uses_network(network, members)) continue;
      const int stage = layout.coordinates(rank).pipeline;
      const auto unit_of = [&](RankId member) {
        return as_index(layout.coordinates(member).data * p + stage);
      };
      const BytesPerSecond first = rates.front().rate[kind][unit_of(rank)];
      GroupLanes group;
      if (kind == kExpert) {
        const std::int64_t budget = kPairFlowsMax / job.plan.gpus() * std::ssize(members);
        group.lanes = expert_lanes(network.at(0), members, first, weights, budget / tasks);
      } else {
        MEGATWIN_TRY(
            group, group_lanes(network.at(0), members, algorithms.of(kTrafficKinds[kind]), first));
      }
      ChangingLaneRoutes routes(network, group.pattern);
      for (const GroupLane& lane : group.lanes) {
        const double share = ratio(lane.rate / first);
        const std::size_t unit = unit_of(lane.key.from);
        MEGATWIN_TRY(const std::vector<CappedWays::Way> by_stretch,
                     routes.ways(lane, [&](std::size_t k) {
                       const BytesPerSecond rate = rates[k].rate[kind][unit];
                       // As it is, so that a step without changes has the bits of its rate.
                       return k == 0 && rate == first ? lane.rate : share * rate;
                     }));
        const int replica = layout.coordinates(lane.key.from).data;
        lanes.handles_[unit * kTaskTrafficKinds + kind].push_back(
            ways.add(by_stretch, {.kind = FlowUser::Kind::InTasks,
                                  .group = kTrafficKinds[kind],
                                  .stage = stage,
                                  .replica = replica,
                                  .rank = lane.key.from}));
      }
    }
  }
  return lanes;
}

bool TaskLanes::contended(std::size_t unit, const CappedWays& ways) const {
  for (std::size_t kind = 0; kind < kTaskTrafficKinds; ++kind) {
    for (const CappedWays::Handle handle : of(unit, kind)) {
      if (ways.contended(handle)) return true;
    }
  }
  return false;
}

}  // namespace megatwin::sim
