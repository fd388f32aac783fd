// A step's prices where collectives take longer than their closed forms say, because links are
// short: of a whole pipeline, and of the replicas of it that are delayed otherwise than the worst.
#ifndef MEGATWIN_SIM_DELAYED_PROGRAM_H_
#define MEGATWIN_SIM_DELAYED_PROGRAM_H_

#include "model/program/job_program.h"
#include "sim/group_contention.h"

namespace megatwin::sim {

class DelayedProgram {
 public:
  // `plain`: as the closed forms have it. Both are borrowed.
  DelayedProgram(const model::Job& job, const model::JobProgram& plain,
                 const GroupContention& contention);

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
  struct Factors {
    double tensor = 1, context = 1, expert = 1;
    friend bool operator==(const Factors&, const Factors&) = default;
  };
  Factors of_unit(int replica, int stage) const;
  static model::Seconds delay(model::TaskPrice& price, const Factors& factors);

  const model::Job& job_;
  const model::JobProgram& plain_;
  const GroupContention& contention_;
  std::vector<Factors> worst_factors_;  // By stage.
  model::JobProgram worst_;
};

// Kernels take `factor` times as long; collectives and the host do not.
model::StageCost slowed(const model::StageCost& plain, const model::PricedStage& stage,
                        double factor);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_DELAYED_PROGRAM_H_
