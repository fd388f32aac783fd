// A step time that no schedule of a plan can beat, in closed form: the busiest stage's work, what
// must run before it and after it, and what data-parallel traffic and the optimizer add. Sends of a
// rank and queues between ranks are left out, so the truth is never below.
#ifndef MEGATWIN_SIM_SEARCH_STEP_BOUND_H_
#define MEGATWIN_SIM_SEARCH_STEP_BOUND_H_

#include "model/plan.h"
#include "sim/search/plan_pricer.h"

namespace megatwin::sim {

// Whether a step would take longer than is simulated: see sim/step_limit.h.
bool is_endless(const model::Plan& plan, const PricedPlan& priced);

// Requires: not is_endless().
model::Instant step_lower_bound(const model::Plan& plan, const PricedPlan& priced);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_STEP_BOUND_H_
