// From a job to the program of its pipeline: the content of each chunk, its lowered and priced
// tasks, the data-parallel traffic, the optimizer, the memory each stage holds. The one place where
// a model, a plan and a cluster become durations and bytes; simulate() runs what comes out.
#ifndef MEGATWIN_MODEL_PROGRAM_JOB_PROGRAM_H_
#define MEGATWIN_MODEL_PROGRAM_JOB_PROGRAM_H_

#include <memory>
#include <vector>

#include "model/job.h"
#include "model/parameters.h"
#include "model/program/lowering.h"
#include "model/program/program_spec.h"
#include "model/program/task_price.h"

namespace megatwin::model {

// One chunk of one stage with everything that its durations were made of.
struct PricedChunk {
  ChunkContent content;
  std::shared_ptr<const TaskOps> ops;  // Shared by all chunks of equal content.
  TaskPrice forward, backward;
  Seconds gather, reduce;                  // Data-parallel traffic of its parameters, in full …
  Seconds gather_exposed, reduce_exposed;  // … and what its own compute cannot hide.
  Seconds sharded_forward, sharded_backward;  // Exposed per micro-batch (ZeRO stage 3).
};

struct PricedStage {
  std::vector<PricedChunk> chunks;
  RankParameters parameters;
  MicroOps optimizer_ops;
  Seconds optimizer, optimizer_exposed;  // Kernels; and traffic that waits with it.
  Seconds table_exchange;  // Of which: gradients of a token table that both ends hold.
};

struct JobProgram {
  ProgramSpec spec;
  std::vector<PricedStage> stages;
  Seconds step_overhead;            // Host work once a step: data, logging, synchronisation.
  std::vector<int> replicas = {0};  // Data-parallel replicas that run it.
};

// The tasks of one chunk by themselves, before any data-parallel traffic.
struct ChunkTasks {
  std::shared_ptr<const TaskOps> ops;
  TaskPrice forward, backward;
  TaskPrice backward_input, backward_weight;  // The same backward, split.
  SavedActivations saved;
};
ChunkTasks price_chunk(const LoweringInput& input, const ChunkContent& content,
                       const TaskPricer& pricer);

// `chunk` with its data-parallel traffic, `tasks` what it was priced from.
ChunkCost chunk_cost(const PricedChunk& chunk, const ChunkTasks& tasks);

// Hops of a micro-batch by boundary, p entries, the slowest of `replicas` each; none for a single
// stage.
std::vector<PipelineHop> pipeline_hops(const Job& job, const std::vector<int>& replicas);
// Of all replicas.
std::vector<PipelineHop> pipeline_hops(const Job& job);

// The program without costs: what schedules and memory profiles ask for.
ProgramSpec program_shape(const Plan& plan);

JobProgram build_job_program(const Job& job, const PricedEffects& effects = {});

// One program for each class of replicas that cannot differ, in the order of their first replica: a
// cluster of one kind of machine and as many micro-batches everywhere make a single class.
std::vector<JobProgram> build_job_programs(const Job& job, const PricedEffects& effects = {});

// The contents of every chunk, [stage][chunk], under the schedule's chunk-to-rank map.
std::vector<std::vector<ChunkContent>> chunk_contents(const Transformer& transformer,
                                                      const Plan& plan);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PROGRAM_JOB_PROGRAM_H_
