// Memory of every stage from the planner over the executed program, and the refusals that follow:
// an illegal plan, one that does not fit, and a step that cannot be simulated. Plans to take
// instead are near_plans.h's.
#ifndef MEGATWIN_SIM_MEMORY_REPORT_H_
#define MEGATWIN_SIM_MEMORY_REPORT_H_

#include <string>
#include <vector>

#include "model/diagnostic.h"
#include "model/job.h"
#include "model/program/job_program.h"
#include "sim/pipeline_simulation.h"
#include "sim/simulation_report.h"

namespace megatwin::sim {

// What each stage's rank may hold while it runs tasks in an order that is not known beforehand: the
// GPU's memory without what the report adds beside tensors, at least one micro-batch.
std::vector<model::Bytes> task_memory_limits(const model::Job& job,
                                             const std::vector<model::JobProgram>& programs);

// What a rank needs whose tasks hold `held` at their peak, on the machine and with the sizes of
// `job`: the arithmetic of fill_memory() without the walk over the tasks.
model::Bytes rank_memory_peak(const model::Job& job, const model::StageCost& cost,
                              model::Bytes held);

// Fills memory, memory_peak, memory_allocated, memory_limit and fits. `programs` are the classes of
// replicas that `result` simulated; the peak is that of the rank nearest to, or furthest beyond,
// its GPU's limit.
void fill_memory(const model::Job& job, const std::vector<model::JobProgram>& programs,
                 const PipelineResult& result, SimulationReport& report);

// "61.3 GiB", for reasons.
std::string in_gib(model::Bytes bytes);

PlanRefusal refuse_illegal(const std::vector<std::string>& problems);

// What run_step() did not simulate: a network, or a step of years.
PlanRefusal refuse_step(const model::Diagnostics& faults);

PlanRefusal refuse_unfit(const model::Job& job, SimulationReport report);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_MEMORY_REPORT_H_
