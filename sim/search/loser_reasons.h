// Why a plan lost: the term that costs it more than it costs the winner, such that without it the
// plan would have won. Found by simulating the plan again with the effect switched off.
#ifndef MEGATWIN_SIM_SEARCH_LOSER_REASONS_H_
#define MEGATWIN_SIM_SEARCH_LOSER_REASONS_H_

#include "model/job.h"
#include "sim/search/search.h"
#include "sim/simulate.h"

namespace megatwin::sim {

struct Winner {
  model::Plan plan;
  model::Seconds step_time;
};

// The terms of a plan that fits and is slower than `winner`.
Loser slow_loser(const model::Job& job, const model::Plan& plan, const Winner& winner);

// A plan that needs more than `memory_limit`.
Loser large_loser(const model::Job& job, const model::Plan& plan, model::Bytes memory_limit);

// The simulated report of a plan, whether it fits or not.
// Requires: the plan is legal.
SimulationReport report_of_plan(const model::Job& job, const model::Plan& plan,
                                const SimulateOptions& options);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_LOSER_REASONS_H_
