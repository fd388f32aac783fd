// One step of a job as its network and its disturbances make it: the program with what contention
// adds, run rank by rank where ranks can differ, folded where they cannot.
#ifndef MEGATWIN_SIM_STEP_RUN_H_
#define MEGATWIN_SIM_STEP_RUN_H_

#include <algorithm>
#include <string>
#include <vector>

#include "model/job.h"
#include "model/program/job_program.h"
#include "model/result.h"
#include "policies/policy.h"
#include "sim/flow/capped_ways.h"
#include "sim/pipeline_simulation.h"

namespace megatwin::sim {

struct StepRun {
  // By class of replicas that differ in kind or micro-batches. The ranks of several classes stand
  // in the result one class after the other; a single one may have several replicas there.
  std::vector<model::JobProgram> programs;
  PipelineResult result;
  // Of result.ranks, the one whose step is reported: the critical stage's, of the replica that ends
  // last; with disturbances the rank that computes longest.
  std::size_t unit = 0;
  // How many times as long kernels take, from one change of the disturbances to the next: the
  // slowest member's of each unit.
  struct Stretch {
    model::Instant from;
    std::vector<double> unit_factor;  // By data-parallel replica · p + stage.
  };
  std::vector<Stretch> stretches;
  std::vector<LinkLoad> links;
  std::int64_t flows = 0, closed_form = 0;
  Engine engine = Engine::Dataflow;  // That it ran on.
  // By disturbance: whether the job sends over its cable, as it is without it or with it.
  std::vector<bool> sends_over;
  // By disturbance: who leaves by which other adapter while this one is dead, see
  // JobNetwork::detour(); how often a link goes down. Of others nothing.
  std::vector<std::string> notes;
  std::vector<bool> flaps;  // Of a flapping link: whether its outages count one by one.

  // How many times as long as it should the slowest GPU takes.
  double slowest() const {
    double slowest = 1;
    for (const Stretch& stretch : stretches) {
      for (const double factor : stretch.unit_factor) slowest = std::max(slowest, factor);
    }
    return slowest;
  }
  // Of the unit that is reported.
  const model::JobProgram& program() const {
    return programs.size() == 1 ? programs.front()
                                : programs[unit / programs.front().stages.size()];
  }
};

struct StepRunOptions {
  // Without a network; with one it is dataflow. A dynamic schedule needs events and no network, and
  // so do kernels whose time changes within the step: they get events whatever is said here.
  Engine engine = Engine::Dataflow;
  model::PricedEffects effects;
  bool timeline = false;
  PipelineCache* cache = nullptr;
  policies::PolicyFactory policy;  // ScheduleKind::UserPolicy: what its library holds.
};

// What of a job only closed forms know, and what asks for more: a network or disturbances where
// stages or replicas differ.
model::Diagnostics unsupported(const model::Job& job);

// Errors: what unsupported() and endless_step() say; a disturbance of a part that is not there, no
// route between two ranks, no SimGrid. Throws policies::UserPolicyError when the policy answers
// nonsense or waits for ever.
model::Result<StepRun> run_step(const model::Job& job, const StepRunOptions& options);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_STEP_RUN_H_
