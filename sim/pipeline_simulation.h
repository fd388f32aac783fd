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

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "model/program/decision_record.h"
#include "model/program/event_record.h"
#include "model/program/program_spec.h"
#include "policies/executor.h"
#include "policies/policy.h"
#include "policies/schedule.h"
#include "sim/compiled_pipeline.h"
#include "sim/link_disturbance.h"
#include "sim/pipeline_costs.h"

namespace megatwin::sim {

enum class Engine { Dataflow, Events };

// One simulated rank. The five parts sum to the makespan.
struct RankResult {
  model::RankId rank;
  model::StageId stage;
  int multiplicity = 1;    // Replicas that it stands for.
  model::Instant compute;  // Tasks, with the slowdown by traffic beside them.
  // Of which: what traffic of others adds to tensor, context and expert collectives inside tasks.
  std::array<model::Instant, 3> delayed_collectives;
  model::Instant optimizer;
  // The compute lane held by a blocking send, or empty while the message that the next task waits
  // for is queued or under way (its producer done, everything else there).
  model::Instant exposed_p2p;
  model::Instant exposed_data_parallel;  // Empty and waiting for a gather or a reduction only.
  model::Instant bubble;  // The rest: the other stages have not got there yet, or are done.
  model::Instant finish;  // End of its optimizer step.
  policies::Order order;  // As executed.
};

struct PipelineResult {
  model::PipelineShape shape;
  model::Instant makespan;
  std::vector<RankResult> ranks;
  int critical_rank = 0;    // The first whose optimizer step ends last.
  std::int64_t events = 0;  // Tasks, transfers and optimizer steps simulated.
  // By rank, then start. Spans of no length are left out.
  std::vector<model::EventRecord> timeline;
  std::vector<model::ExecutorLog> logs;  // One a rank when asked for; event engine only.
  // A policy can stop for good: then one sentence a rank that did, and no other field means a
  // thing.
  std::vector<std::string> stalled;
};

struct SimulationOptions {
  bool timeline = false;
  PipelineCache* cache = nullptr;  // Borrowed; compiled programs are reused from call to call.
  // Event engine only. With a policy the schedule of the program gives its shape, not its order.
  policies::PolicyFactory policy;
  policies::ExecutorOptions executor;
  // One a stage, or one a stage of each class; instead of the executor's. Or empty.
  std::vector<model::Bytes> memory_limits;
  std::vector<LinkDisturbance> links;
  bool log = false;
};

// Requires: policies::schedule_problems(spec) is empty. A policy needs Engine::Events.
PipelineResult simulate_pipeline(const model::ProgramSpec& spec, Engine engine,
                                 const SimulationOptions& options = {});

// As above for classes of replicas that meet in the data-parallel collectives of each stage: a
// reduction starts when the last replica is ready and ends for all at once. The classes may differ
// in costs, hops and micro-batches. Rank r of the result is stage r mod p of class r / p; `shape`
// is that of the first class. Requires: as pipeline_costs(), and all classes finish the chunks of a
// stage in the same order; the same switches of overlap.
PipelineResult simulate_classes(const std::vector<ReplicaClass>& classes, Engine engine,
                                const SimulationOptions& options = {});

// The specs that decoupled_sides() gives: rank r of the result is stage r mod p of the instance of
// spec r / p. Or the one spec of any other pipeline.
PipelineResult simulate_sides(const std::vector<model::ProgramSpec>& specs,
                              const SimulationOptions& options = {});

// Replicas of the pipeline of which some ranks differ from `spec`.
struct Replicas {
  struct Difference {
    int replica = 0;
    model::StageId stage;
    model::StageCost cost;
  };
  int count = 1;
  std::vector<Difference> differences;
  // From an instant of the step on these instead, ascending. Event engine only.
  struct Later {
    model::Instant from;
    std::vector<Difference> differences;
  };
  std::vector<Later> later = {};
  // Replicas that are alike are simulated once. Without folding each is, for tests and timelines.
  bool fold = true;
};

// As simulate_classes() for `replicas.count` pipelines, of which equal ones form a class, in the
// order of their first replica.
PipelineResult simulate_replicas(const model::ProgramSpec& spec, const Replicas& replicas,
                                 Engine engine, const SimulationOptions& options = {});

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_PIPELINE_SIMULATION_H_
