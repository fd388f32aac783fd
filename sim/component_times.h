// The critical rank's step by what it works on and waits for: attention, feed-forward, experts,
// norms, loss, casts, each kind of traffic, idle time. Compute comes from the priced operations,
// waits from the breakdown, so that all of them sum to the step.
#ifndef MEGATWIN_SIM_COMPONENT_TIMES_H_
#define MEGATWIN_SIM_COMPONENT_TIMES_H_

#include <string_view>
#include <vector>

#include "model/program/job_program.h"
#include "sim/simulation_report.h"

namespace megatwin::sim {

// The part of the model that an operation belongs to, by its name; collectives are traffic.
std::string_view component_of(const model::MicroOp& op);

// Of a report whose breakdown, step time and critical stage are filled. `pricer`: of that stage.
std::vector<ComponentTime> component_times(const model::JobProgram& program,
                                           const model::TaskPricer& pricer,
                                           const SimulationReport& report);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_COMPONENT_TIMES_H_
