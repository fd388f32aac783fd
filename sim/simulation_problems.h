// Why a job has no answer: its plan is illegal, or a trainer may run it and the simulator does not
// (yet), so that it is refused rather than answered wrongly. One sentence a reason; pure
// arithmetic.
#ifndef MEGATWIN_SIM_SIMULATION_PROBLEMS_H_
#define MEGATWIN_SIM_SIMULATION_PROBLEMS_H_

#include <string>
#include <vector>

#include "model/job.h"

namespace megatwin::sim {

// Tasks of a replica's step. Requires: a legal plan.
double tasks_of_step(const model::Job& job);

// Stages or replicas that may not differ, and splits that cannot be found, under this schedule.
std::vector<std::string> difference_problems(const model::Job& job);

// These and all others. `has_policy`: a policy of the user's own is at hand.
std::vector<std::string> simulation_problems(const model::Job& job, bool has_policy);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SIMULATION_PROBLEMS_H_
