// A static schedule compiled for the dataflow evaluator: all tasks of all stages in one sequence
// that respects every dependency, each with the places that it reads and writes. Depends on the
// shape and the orders only, so that a search compiles once and evaluates many costs.
#ifndef MEGATWIN_SIM_COMPILED_PIPELINE_H_
#define MEGATWIN_SIM_COMPILED_PIPELINE_H_

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/program/program_spec.h"
#include "policies/schedule.h"
#include "sim/step_times.h"
#include "sim/task_rows.h"

namespace megatwin::sim {

struct CompiledPipeline {
  struct Step {
    std::uint32_t slot;       // Where the end and the arrival are written; see SlotLayout.
    std::uint32_t waits_for;  // Slot of the message or gather that must have arrived.
    std::uint32_t cost;       // Into PipelineCosts::task of the class.
    std::uint32_t send_lane;  // 2 · stage + (0 activation, 1 gradient), or one that nobody reads.
    std::uint16_t stage;
    std::uint16_t send;  // Into PipelineCosts::class_sends().
  };

  model::PipelineShape shape;
  TaskRows rows;
  std::vector<policies::Order> orders;  // One a stage.
  std::vector<Step> steps;
  // Per stage, the chunks in the order in which their last backward runs, with its slot.
  struct ChunkEnd {
    model::ChunkId chunk;
    std::uint32_t slot;
  };
  std::vector<std::vector<ChunkEnd>> chunk_ends;
  std::int64_t num_tasks = 0;
  std::int64_t num_events =
      0;  // Of one step of one replica: every span that the timeline can hold.
};

// Requires: policies::schedule_problems(spec) is empty.
CompiledPipeline compile_pipeline(const model::ProgramSpec& spec);

// Compiled pipelines by schedule and shape. Not thread-safe: one a thread.
class PipelineCache {
 public:
  std::shared_ptr<const CompiledPipeline> get(const model::ProgramSpec& spec);

 private:
  struct Key {
    model::ScheduleKind schedule;
    model::PipelineShape shape;
    int micro_batch_group;
    std::vector<std::vector<std::string>> orders;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  std::map<Key, std::shared_ptr<const CompiledPipeline>> compiled_;
};

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_COMPILED_PIPELINE_H_
