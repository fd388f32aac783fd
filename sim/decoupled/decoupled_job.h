// From a job with policy.schedule fbd to its simulation: each side is priced as a plain pipeline on
// its own machines with its own tensor-parallel size, what crosses between the sides on the slower
// of the two links.
//
// Taken: a forward rank keeps weights only (gradients too when weight gradients are left to it);
// backward ranks step the optimizer and send the weights back, which the next step's forwards wait
// for. When both sides use the same kind and the ranks of a stage fill machines evenly, machines
// hold whole stages, of which each side has its part: crossings stay inside, hops leave when the
// next stage is on the next machine. Else each side has machines of its own.
#ifndef MEGATWIN_SIM_DECOUPLED_DECOUPLED_JOB_H_
#define MEGATWIN_SIM_DECOUPLED_DECOUPLED_JOB_H_

#include <optional>
#include <string>
#include <vector>

#include "model/diagnostic.h"
#include "model/job.h"
#include "model/program/decoupled_sides.h"
#include "model/program/job_program.h"
#include "sim/decoupled/decoupled_pipeline.h"
#include "sim/simulation_report.h"

namespace megatwin::sim {

// Every reason why `job` cannot run decoupled; each side must be a legal plan on its machines.
std::vector<std::string> decoupled_problems(const model::Job& job);

struct DecoupledJob {
  model::Job forward, backward;  // Each side as a plain job.
  model::JobProgram forward_program, backward_program;
  DecoupledSpec spec;
  bool leaves_gradients = false;  // To the forward side.
};

// By the prices and the memory of the cluster's GPUs. Empty where nothing says: no cluster, not one
// for this plan, another schedule.
model::DecidedSides decided_sides(const model::Job& job);

// The share of the plan; of `auto` the number of micro-batches with the shortest step that fits in
// memory, or just the shortest when none is found that fits. Looked for from the share at which
// both sides work equally long a micro-batch on, by strides that are halved: where leaving one more
// is worse and then better again, the best may be missed. Requires: as price_decoupled().
double decided_weight_share(const model::Job& job);

// Requires: decoupled_problems(job) is empty.
DecoupledJob price_decoupled(const model::Job& job, const model::PricedEffects& effects = {});

// The forward side without the model state that its ranks do not hold.
model::JobProgram forward_ranks_program(const DecoupledJob& job);

// Whether the ranks of both sides have the memory for what `result` held at once.
bool sides_fit(const DecoupledJob& job, const DecoupledResult& result);

// As endless_step(), of both sides and what crosses between them.
std::optional<model::Diagnostic> endless_decoupled(const DecoupledJob& job);

// Fills the times, the breakdown of the busiest backward rank, memory, parameters, the FLOP that
// run and the sides of `report`. Requires: `priced` is of `job` and not endless.
void report_decoupled(const model::Job& job, const DecoupledJob& priced,
                      const model::PricedEffects& effects, bool timeline, SimulationReport& report);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_DECOUPLED_DECOUPLED_JOB_H_
