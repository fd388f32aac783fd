// The longest step that is simulated. A step of years means that a rate was mistyped, and clocks
// that count nanoseconds in 64 bits overflow after 292 of them: it is refused before it runs.
// Thread-safe.
#ifndef MEGATWIN_SIM_STEP_LIMIT_H_
#define MEGATWIN_SIM_STEP_LIMIT_H_

#include <optional>

#include "model/diagnostic.h"
#include "model/plan.h"
#include "model/program/job_program.h"
#include "sim/pipeline_costs.h"

namespace megatwin::sim {

inline constexpr model::Seconds kStepTimeMax{1e8};
inline constexpr const char* kStepTimeKey = "step_time";  // Of the diagnostics below.
// Of the one that says that ranks wait for each other's receive slots.
inline constexpr const char* kReceiveSlotsKey = "policy.receive_slots";

// What the busiest stage of a program computes and sends in a step takes longer, where the slowest
// of its GPUs takes `slowest` times as long as it should: says what of it takes longest.
std::optional<model::Diagnostic> endless_step(const model::JobProgram& program, double slowest = 1);

// As above for one stage that a search has priced, without the priced parts.
bool is_endless(const model::Plan& plan, const model::StageCost& stage,
                const model::PipelineHop& hop);

// Messages and collectives as a network delays them.
std::optional<model::Diagnostic> endless_traffic(const PipelineCosts& costs);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_STEP_LIMIT_H_
