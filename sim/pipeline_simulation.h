// Simulates one training step of a pipeline: who runs what when, how long the step takes, and where
// each rank's time goes. Folded by default: one simulated rank a stage stands for all data-parallel
// replicas (and the tensor-parallel group acts as one), since they cannot differ.
//
// What is assumed:
// * Every lane of a rank (compute, sends of activations, sends of gradients, data-parallel traffic)
//   runs one thing at a time, first in first out.
// * Without overlap_p2p a send holds the sender's compute lane behind the task that made the data,
//   and the receiver waits; with it the send runs in its own lane.
// * The gathers of a rank start with the step, in chunk order. With overlap_param_gather a chunk's
//   first forward waits for its own gather, so the first one is exposed; otherwise for all.
// * With overlap_grad_reduce a chunk is reduced after its last backward; otherwise all chunks are
//   reduced after all compute of the rank, in the order in which they were finished.
// * The optimizer step follows all reductions of the rank. The step ends with the last of them.
// * overlap_slowdown: see sim/overlap_budget.h.
#ifndef MEGATWIN_SIM_PIPELINE_SIMULATION_H_
#define MEGATWIN_SIM_PIPELINE_SIMULATION_H_

#include <cstdint>
#include <vector>

#include "model/program/event_record.h"
#include "model/program/program_spec.h"
#include "policies/schedule.h"
#include "sim/compiled_pipeline.h"

namespace megatwin::sim {

enum class Engine { Dataflow, Events };

// One simulated rank. The five parts sum to the makespan.
struct RankResult {
  model::RankId rank;
  model::StageId stage;
  int multiplicity = 1;             // Replicas that it stands for.
  model::Instant compute;           // Tasks, with the slowdown by traffic beside them.
  model::Instant optimizer;
  // The compute lane held by a blocking send, or empty while the message that the next task waits
  // for is queued or under way (its producer done, everything else there).
  model::Instant exposed_p2p;
  model::Instant exposed_data_parallel;  // Empty and waiting for a gather or a reduction only.
  model::Instant bubble;            // The rest: the other stages have not got there yet, or are done.
  model::Instant finish;            // End of its optimizer step.
  policies::Order order;            // As executed.
};

struct PipelineResult {
  model::PipelineShape shape;
  model::Instant makespan;
  std::vector<RankResult> ranks;
  int critical_rank = 0;            // The first whose optimizer step ends last.
  std::int64_t events = 0;          // Tasks, transfers and optimizer steps simulated.
  // By rank, then start. Spans of no length are left out.
  std::vector<model::EventRecord> timeline;
};

struct SimulationOptions {
  bool timeline = false;
  PipelineCache* cache = nullptr;   // Borrowed; compiled programs are reused from call to call.
};

// Requires: policies::schedule_problems(spec) is empty.
PipelineResult simulate_pipeline(const model::ProgramSpec& spec, Engine engine,
                                 const SimulationOptions& options = {});

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_PIPELINE_SIMULATION_H_
