// The dataflow evaluator: the longest path through a compiled pipeline in which every lane of every
// rank is first-in first-out. One pass over the tasks, no queue; for static schedules without
// contention it gives the times of the event engine to the nanosecond.
#ifndef MEGATWIN_SIM_DATAFLOW_H_
#define MEGATWIN_SIM_DATAFLOW_H_

#include <span>
#include <vector>

#include "sim/compiled_pipeline.h"
#include "sim/pipeline_costs.h"
#include "sim/step_times.h"

namespace megatwin::sim {

// Evaluates one shape again and again; keeps its arrays between calls.
class DataflowEvaluator {
 public:
  // The makespan alone, from the start of the step to the end of the last optimizer step.
  // Requires: `costs` has the shape of `compiled`.
  Nanoseconds makespan(const CompiledPipeline& compiled, const PipelineCosts& costs);
  // The same for classes of several shapes: one compiled pipeline for each of costs.shapes.
  using CompiledShapes = std::span<const CompiledPipeline* const>;
  Nanoseconds makespan(CompiledShapes compiled, const PipelineCosts& costs);

  // All times of the last call of makespan(); the next call may be anything.
  const StepTimes& times() const { return times_; }

 private:
  void evaluate_class(const CompiledPipeline& compiled, const PipelineCosts& costs,
                      int replica_class);
  void evaluate_reduces(CompiledShapes compiled, const PipelineCosts& costs, int stage);

  StepTimes times_;
  std::vector<Nanoseconds> lane_free_;  // Per unit: when its compute lane has done all tasks.
  std::vector<Nanoseconds> send_free_;
  std::vector<Nanoseconds> slowed_;
};

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_DATAFLOW_H_
