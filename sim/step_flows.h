// A whole step as one set of flows: tasks are flows that hold no link, messages and collectives are
// flows over the real placement's links, all in the order in which the schedule runs them. Any
// FlowNet answers when each ends; out of that come durations in nanoseconds, with which the
// dataflow evaluator lays the step out as it always does.
#ifndef MEGATWIN_SIM_STEP_FLOWS_H_
#define MEGATWIN_SIM_STEP_FLOWS_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "model/rank_layout.h"
#include "sim/compiled_pipeline.h"
#include "sim/flow/capped_ways.h"
#include "sim/flow/flow_net.h"
#include "sim/group_algorithm.h"
#include "sim/job_network.h"
#include "sim/pipeline_costs.h"
#include "sim/task_traffic.h"

namespace megatwin::sim {

// The step as it would be if all of it were as it is from `from` on, until the next stretch begins.
struct StepStretch {
  model::Instant from;
  // One class a data-parallel replica, none folded; not slowed by overlap.
  PipelineCosts costs;
  // Of a data-parallel group by stage: what its busiest machine sends at (for a ring its bus
  // bandwidth) beside the other groups of its stage, as the durations in `costs` have it.
  std::vector<model::BytesPerSecond> ring_rate;
  // Collectives inside tasks: by task entry, and their rates. Empty: none.
  std::vector<TaskTraffic> traffic;
  TaskTrafficRates traffic_rates;
};

struct StepFlowsInput {
  const model::Job& job;
  const CompiledPipeline& compiled;
  std::vector<StepStretch> stretches;  // Those of the network.
  model::Bytes message;                // One rank sends to the next stage, for its rate.
  GroupAlgorithms algorithms;
  // Stretches that begin later have no say in how much is sent.
  model::Instant sized_until{std::numeric_limits<std::int64_t>::max()};
};

struct StepFlows {
  PipelineCosts costs;  // With sends, gathers, reductions and tasks as the network delays them.
  std::vector<LinkLoad> links;   // Those that delayed anybody, the worst first.
  std::vector<bool> used;        // By link of the topology: whether the job sends there.
  std::int64_t flows = 0;        // On links; the rest was known in closed form.
  std::int64_t closed_form = 0;  // Messages and collectives that nothing can delay.
};

// Errors: no route; what the FlowNet refuses.
model::Result<StepFlows> run_step_flows(const StepFlowsInput& input, ChangingNetwork& network,
                                        const FlowNet& net);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_STEP_FLOWS_H_
