// Collectives inside tasks (tensor, context, expert parallelism) whose groups leave a machine, as
// users of the network beside messages between stages and data-parallel traffic: how much of a
// task's time they take, and over which ways.
#ifndef MEGATWIN_SIM_TASK_TRAFFIC_H_
#define MEGATWIN_SIM_TASK_TRAFFIC_H_

#include <array>
#include <cstdint>
#include <vector>

#include "model/result.h"
#include "sim/delayed_program.h"
#include "sim/flow/capped_ways.h"
#include "sim/group_contention.h"
#include "sim/job_network.h"
#include "sim/pipeline_costs.h"

namespace megatwin::sim {

// Tensor, context, expert, expert-tensor: in this order within a task.
inline constexpr std::size_t kTaskTrafficKinds = 4;

struct TaskTraffic {
  // What no compute hides, as far as bytes flow in it; the latencies beside hold no link.
  std::array<Nanoseconds, kTaskTrafficKinds> exposed{};
  Nanoseconds total() const { return exposed[0] + exposed[1] + exposed[2] + exposed[3]; }
};

// By PipelineCosts' task entries, one class a data-parallel replica.
std::vector<TaskTraffic> task_traffic(const DelayedProgram& program, const PipelineCosts& costs,
                                      const GroupContention& contention,
                                      const GroupAlgorithms& algorithms);

// Bandwidths by kind and unit (replica · p + stage), beside the other groups of the kind: what the
// durations stand for.
struct TaskTrafficRates {
  // While bytes flow, as GroupAlgorithm::peak; empty where there is no such group.
  std::array<std::vector<model::BytesPerSecond>, kTaskTrafficKinds> rate;
};
// Kinds of which nothing in `traffic` is exposed have no users.
TaskTrafficRates task_traffic_rates(const GroupContention& contention,
                                    const std::vector<TaskTraffic>& traffic,
                                    const GroupAlgorithms& algorithms);

inline constexpr std::int64_t kPairFlowsMax = 400'000;

// The users of the network by unit and kind.
class TaskLanes {
 public:
  using Handles = std::vector<CappedWays::Handle>;

  // Adds those of all units to `ways`. Errors: no route.
  // Rates of each stretch of the network. Of expert groups every pair of ranks, if with `tasks` a
  // unit these are no more flows than kPairFlowsMax in all; else machines in one (rail_lanes), and
  // beyond that ranks (shifted_lanes), if pairs are alike.
  static model::Result<TaskLanes> add(const model::Job& job,
                                      const std::vector<TaskTrafficRates>& rates,
                                      const GroupAlgorithms& algorithms, std::int64_t tasks,
                                      ChangingNetwork& network, CappedWays& ways);

  const Handles& of(std::size_t unit, std::size_t kind) const {
    return handles_[unit * kTaskTrafficKinds + kind];
  }
  // Whether anything can delay this unit's collectives. Requires: ways.settle().
  bool contended(std::size_t unit, const CappedWays& ways) const;

 private:
  std::vector<Handles> handles_;
};

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_TASK_TRAFFIC_H_
