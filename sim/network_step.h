// A step laid out over the network of its job: contention of the groups inside tasks and of each
// stage's reductions first, then all of the step as flows, replica by replica.
#ifndef MEGATWIN_SIM_NETWORK_STEP_H_
#define MEGATWIN_SIM_NETWORK_STEP_H_

#include <memory>
#include <string>
#include <vector>

#include "model/job.h"
#include "model/program/job_program.h"
#include "model/result.h"
#include "sim/group_contention.h"
#include "sim/step_run.h"

namespace megatwin::sim {

struct NetworkStepInput {
  const model::Job& named;           // Whose disturbances the report names.
  const model::Job& placed;          // Whose graph it is, with the same ones or their phases.
  const model::Job& priced;          // By whose closed forms the program was priced.
  const model::JobProgram& program;  // Undelayed, priced with:
  const model::PricedEffects& effects;
  // How many times as long kernels take, as StepRun has it; those of the network.
  const std::vector<StepRun::Stretch>& stretches;
  // By disturbance of `named`: whether its outages are stretches of `placed`; empty: none.
  const std::vector<bool>& counted;
  double slowest = 1;  // Of these.
};

struct NetworkStep {
  PipelineResult result;  // One rank a unit, none folded.
  std::vector<LinkLoad> links;
  std::int64_t flows = 0, closed_form = 0;
  std::vector<bool> sends_over;    // By disturbance, see StepRun.
  std::vector<std::string> notes;  // By disturbance, see StepRun.
  // By stretch: what its network does to groups.
  std::vector<std::shared_ptr<const GroupContention>> contention;
};

// Errors: what endless_step() says; no route; what the network refuses.
model::Result<NetworkStep> network_step(const NetworkStepInput& input,
                                        const StepRunOptions& options);

// The program's prices as one replica meets them: of several stretches those of their mean, see
// mean_prices(). Requires: `step` is of `input`.
model::JobProgram program_of_replica(const NetworkStepInput& input, const NetworkStep& step,
                                     int replica);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_NETWORK_STEP_H_
