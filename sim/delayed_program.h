// A step's prices where collectives take longer than their closed forms say, because links are
// short: of a whole pipeline, and of the replicas of it that are delayed otherwise than the worst.
#ifndef MEGATWIN_SIM_DELAYED_PROGRAM_H_
#define MEGATWIN_SIM_DELAYED_PROGRAM_H_

#include <compare>
#include <map>
#include <utility>
#include <vector>

#include "model/program/data_parallel.h"
#include "model/program/job_program.h"
#include "sim/group_algorithm.h"
#include "sim/group_contention.h"

namespace megatwin::sim {

// All borrowed.
struct DelayedProgramInput {
  const model::Job& job;
  const model::PricedEffects& effects;
  const model::JobProgram& plain;  // As the closed forms have it.
  const GroupContention& contention;
  const GroupAlgorithms& algorithms;
};

// Each collective takes longer by what its bytes take longer over what is left to its group
// (model::shared_time); what hides it hides as much of it as it can.
class DelayedProgram {
 public:
  explicit DelayedProgram(const DelayedProgramInput& input);

  // Each stage as in its worst replica. Reductions and gathers hide behind that one's compute: it
  // is the last to come.
  const model::JobProgram& worst() const { return worst_; }

  // Whether collectives inside the tasks of this unit are delayed less than in the worst.
  bool differs(int replica, int stage) const;
  // What the stage costs there. Equal delays give equal nanoseconds.
  model::StageCost stage_cost(int replica, int stage) const;
  // Prices of one chunk's tasks there.
  model::TaskPrice forward(int replica, int stage, int chunk) const;
  model::TaskPrice backward(int replica, int stage, int chunk) const;

  // The program as one replica meets it.
  model::JobProgram of_replica(int replica) const;

 private:
  // Of one unit's groups, as in GroupContention.
  struct Factors {
    double tensor = 1, context = 1, expert = 1, expert_tensor = 1;
    friend auto operator<=>(const Factors&, const Factors&) = default;
  };
  struct Prices {
    model::TaskPrice forward, backward;
    model::Seconds more_forward, more_backward;  // Than without delays.
  };
  Factors of_unit(int replica, int stage) const;
  Prices prices(int stage, std::size_t chunk, const Factors& factors) const;
  void delay_state(int stage, std::size_t chunk);

  DelayedProgramInput in_;
  model::TaskPricer pricer_;
  model::DataParallelTraffic traffic_;
  bool split_backward_ = false;
  std::vector<Factors> worst_factors_;  // By stage.
  model::JobProgram worst_;
  // What was priced before, by the chunk's list and factors: units in one state are alike.
  mutable std::map<std::pair<const model::TaskOps*, Factors>, Prices> known_;
};

// Kernels take `factor` times as long; collectives and the host do not.
model::StageCost slowed(const model::StageCost& plain, const model::PricedStage& stage,
                        double factor);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_DELAYED_PROGRAM_H_
