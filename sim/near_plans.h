// What to take instead of a plan that was refused: the nearest plans that are legal and fit, each
// simulated once, without sensitivities: at most three, of the first 3,000 plans or 400 legal ones,
// of as many tasks together as the largest step that is simulated.
// Fills `nearest` and `others_tried` of the refusal. Deterministic.
#ifndef MEGATWIN_SIM_NEAR_PLANS_H_
#define MEGATWIN_SIM_NEAR_PLANS_H_

#include "model/job.h"
#include "sim/simulation_report.h"

namespace megatwin::sim {

// For an illegal plan and one that does not fit. Of a decoupled one: other tensor sizes of its two
// sides; else other stages, pipelines a side, micro-batches and recomputation, of 100 simulated;
// else one on more machines, and the plans near it that run both passes on the same ranks. Leaves a
// plan with a policy of the user's own alone: its library is not run for plans that nobody asked
// for.
void look_for_others(const model::Job& job, PlanRefusal& refusal);

// For ranks that wait for each other: more receive slots.
void look_for_slots(const model::Job& job, PlanRefusal& refusal);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_NEAR_PLANS_H_
