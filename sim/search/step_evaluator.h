// Exact step times of priced plans by the dataflow engine. Compiled programs are kept from plan to
// plan within a budget of memory. Not thread-safe: one a thread.
#ifndef MEGATWIN_SIM_SEARCH_STEP_EVALUATOR_H_
#define MEGATWIN_SIM_SEARCH_STEP_EVALUATOR_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>

#include "model/plan.h"
#include "sim/compiled_pipeline.h"
#include "sim/dataflow.h"
#include "sim/search/plan_pricer.h"

namespace megatwin::sim {

// What a compiled program depends on. Plans of one shape are evaluated fastest one after another.
struct PlanShape {
  model::ScheduleKind schedule = model::ScheduleKind::OneForwardOneBackward;
  int pipeline = 1, model_chunks = 1;
  std::int64_t micro_batches = 1;
  friend auto operator<=>(const PlanShape&, const PlanShape&) = default;
};
PlanShape shape_of(const model::Plan& plan);
// Tasks of one step over all stages.
std::int64_t num_tasks(const PlanShape& shape);

class StepEvaluator {
 public:
  // `bytes_max` of compiled programs are kept, the last used ones.
  explicit StepEvaluator(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  // The time that simulate() reports, without the step's overhead.
  model::Instant makespan(const model::Plan& plan, const PricedPlan& priced);

 private:
  struct Entry {
    PlanShape shape;
    CompiledPipeline compiled;
    std::size_t bytes = 0;
  };

  const CompiledPipeline& compiled(const model::ProgramSpec& spec, const PlanShape& shape);

  std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  std::list<Entry> entries_;  // Last used first.
  std::map<PlanShape, std::list<Entry>::iterator> places_;
  DataflowEvaluator dataflow_;
};

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_STEP_EVALUATOR_H_
