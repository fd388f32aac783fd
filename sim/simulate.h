// One simulation, from a job to its report: checks the plan, builds the program, runs it, plans its
// memory, and says where the time goes. Deterministic; no global state; callable from many threads.
#ifndef MEGATWIN_SIM_SIMULATE_H_
#define MEGATWIN_SIM_SIMULATE_H_

#include <optional>
#include <set>
#include <string>
#include <variant>

#include "model/job.h"
#include "model/program/task_price.h"
#include "policies/policy.h"
#include "sim/compiled_pipeline.h"
#include "sim/simulation_report.h"

namespace megatwin::sim {

enum class EngineChoice { Auto, Dataflow, Events };

struct SimulateOptions {
  model::PricedEffects effects;
  EngineChoice engine =
      EngineChoice::Auto;          // Auto: dataflow, which equals events for static orders.
  bool explain = false;            // Fill priced_ops.
  bool timeline = false;           // Fill timeline.
  PipelineCache* cache = nullptr;  // Borrowed; compiled programs are reused from call to call.
  policies::PolicyFactory policy;  // ScheduleKind::UserPolicy: what its library holds.
  // Re-run with changed assumptions: some ten more simulations; look for others when refused.
  bool sensitivities = true;
};

// A report, or a refusal that says every reason and the nearest plans.
std::variant<SimulationReport, PlanRefusal> simulate(const model::Job& job,
                                                     const SimulateOptions& options = {});

// The effects that `--without NAME,…` switches off: wave, memory-bound, tensor, pipeline,
// recompute, data-parallel, expert, context, quantisation, launch. Nothing when a name is unknown.
std::optional<model::PricedEffects> effects_without(const std::set<std::string>& names);
std::vector<std::string> effect_names();

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SIMULATE_H_
