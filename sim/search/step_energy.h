// A lower bound of the energy of a step, as step_bound.h is one of its time: what the tasks of the
// critical rank draw at least, and an idle GPU for the rest.
#ifndef MEGATWIN_SIM_SEARCH_STEP_ENERGY_H_
#define MEGATWIN_SIM_SEARCH_STEP_ENERGY_H_

#include "model/job.h"
#include "model/plan.h"
#include "model/program/task_price.h"
#include "model/units.h"
#include "sim/search/plan_pricer.h"

namespace megatwin::sim {

// No step of the plan that takes at least `time` needs less (SimulationReport::energy_per_step).
model::Joules energy_lower_bound(const model::Job& job, const model::Plan& plan,
                                 const PricedPlan& priced, model::Seconds time);

// What all GPUs draw while they wait for this long; a step that is longer than its bound needs so
// much more.
model::Joules idle_energy(const model::Job& job, model::Seconds time);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_STEP_ENERGY_H_
