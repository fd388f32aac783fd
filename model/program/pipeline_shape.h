// The shape of a pipeline without its costs: how many stages, chunks and micro-batches, which rank
// holds which virtual stage, and how tasks are numbered. Two jobs of equal shape share compiled
// programs.
#ifndef MEGATWIN_MODEL_PROGRAM_PIPELINE_SHAPE_H_
#define MEGATWIN_MODEL_PROGRAM_PIPELINE_SHAPE_H_

#include <compare>

#include "model/ids.h"
#include "model/program/left_weights.h"
#include "model/program/program_spec.h"
#include "model/program/task.h"

namespace megatwin::model {

// Which rank holds virtual stage s of p·v.
enum class ChunkPlacement {
  RoundRobin,  // Chunk s div p of stage s mod p.
  Fold,        // v = 2; chunk 0 of stage s up to p−1, then back: chunk 1 of stage 2p−1−s.
};

struct PipelineShape {
  int pipeline = 1;
  int model_chunks = 1;
  int micro_batches = 1;  // That pass through this pipeline: every one, or those of one instance.
  bool split_backward = false;
  ChunkPlacement placement = ChunkPlacement::RoundRobin;
  PipelineSide side = PipelineSide::Both;
  // Of an instance of a side: its micro-batches are `instance`, `instance` + `instances` and so on.
  int instance = 0;
  int instances = 1;
  // Decoupled: the micro-batches of the step that leave their weight gradients to the forward side.
  LeftWeights left;

  friend constexpr auto operator<=>(const PipelineShape&, const PipelineShape&) = default;

  int virtual_stages() const { return pipeline * model_chunks; }
  int virtual_stage(StageId stage, ChunkId chunk) const {
    if (placement == ChunkPlacement::Fold && chunk.value == 1) {
      return 2 * pipeline - 1 - stage.value;
    }
    return chunk.value * pipeline + stage.value;
  }
  StageId stage_of(int virtual_stage) const {
    if (placement == ChunkPlacement::Fold && virtual_stage >= pipeline) {
      return {2 * pipeline - 1 - virtual_stage};
    }
    return {virtual_stage % pipeline};
  }
  ChunkId chunk_of(int virtual_stage) const { return {virtual_stage / pipeline}; }

  // Forward and Backward, or Forward, BackwardInput and BackwardWeight. Decoupled: Forward on the
  // one side, Recompute and Backward on the other. Of micro-batches whose weight gradients are left
  // to the forward side the BackwardInput stands for the Backward, and the BackwardWeight follows
  // the forwards.
  int phases() const {
    if (side == PipelineSide::Forward) {
      return leaves_weights() ? 2 : 1;
    }
    return split_backward ? 3 : 2;
  }
  bool leaves_weights() const { return left.share > 0; }
  bool leaves(MicroBatchId micro_batch) const { return leaves_weights() && left.has(micro_batch); }
  // Of this pipeline's own before place `n`: how many are left to the forward side.
  int left_before(int n) const;
  // All micro-batches of one (phase, chunk) are a row of tasks, which cost alike; a backward side
  // has a row of its own for those that leave their weight gradients.
  int num_rows() const {
    return phases() * model_chunks + (side == PipelineSide::Backward && leaves_weights() ? 1 : 0);
  }
  int row_of(const Task& task) const {
    const bool is_own = side == PipelineSide::Backward && task.kind == TaskKind::BackwardInput;
    return is_own ? 2 : phase_of(task.kind) * model_chunks + task.chunk.value;
  }
  TaskKind kind_of_row(int row) const {
    const bool is_own = side == PipelineSide::Backward && row == 2;
    return is_own ? TaskKind::BackwardInput : kind_of(row / model_chunks);
  }
  // Position of a chunk among those of all stages, stage by stage.
  int chunk_number(int stage, int chunk) const { return stage * model_chunks + chunk; }
  int tasks_per_phase() const { return model_chunks * micro_batches; }
  int num_tasks() const {
    return side == PipelineSide::Forward ? micro_batches + left_before(micro_batches)
                                         : phases() * tasks_per_phase();
  }

  // The n-th of its micro-batches, and back.
  MicroBatchId micro_batch(int n) const { return {instance + n * instances}; }
  int place_of(MicroBatchId micro_batch) const {
    return instances == 1 ? micro_batch.value : (micro_batch.value - instance) / instances;
  }

  // Tasks are numbered by phase, then chunk, then micro-batch: the same numbers on every rank, so
  // that (rank, task) is the tag of the message that the task waits for.
  TaskId task_id(const Task& task) const {
    if (side == PipelineSide::Forward && task.kind == TaskKind::BackwardWeight) {
      return {micro_batches + left_before(place_of(task.micro_batch))};
    }
    return {(phase_of(task.kind) * model_chunks + task.chunk.value) * micro_batches +
            place_of(task.micro_batch)};
  }
  Task task(TaskId id) const {
    const int row = id.value / micro_batches;
    if (leaves_weights() && row > 0) {
      return left_task(id);
    }
    return {
        kind_of(row / model_chunks), micro_batch(id.value % micro_batches), {row % model_chunks}};
  }
  int phase_of(TaskKind kind) const {
    if (kind == TaskKind::Forward || kind == TaskKind::Recompute) {
      return 0;
    }
    return kind == TaskKind::BackwardWeight && side != PipelineSide::Forward ? 2 : 1;
  }
  TaskKind kind_of(int phase) const {
    if (phase == 0) {
      return side == PipelineSide::Backward ? TaskKind::Recompute : TaskKind::Forward;
    }
    if (side == PipelineSide::Forward) {
      return TaskKind::BackwardWeight;
    }
    if (!split_backward) {
      return TaskKind::Backward;
    }
    return phase == 1 ? TaskKind::BackwardInput : TaskKind::BackwardWeight;
  }
  // The task after which nothing of (micro-batch, chunk) is left to do.
  TaskKind last_kind() const {
    if (side == PipelineSide::Forward) {
      return TaskKind::Forward;
    }
    return split_backward ? TaskKind::BackwardWeight : TaskKind::Backward;
  }
  bool is_last(TaskKind kind) const {
    return kind == last_kind() ||
           (side == PipelineSide::Backward && kind == TaskKind::BackwardInput);
  }
  // Of a task behind the first row, where weight gradients are left to the forward side.
  Task left_task(TaskId id) const;
};

// The shape that the schedule of `spec` asks for.
PipelineShape pipeline_shape(const ProgramSpec& spec);

// That of any instance of either side of the decoupled pipeline that `spec` is a part of.
PipelineShape side_shape(const ProgramSpec& spec, PipelineSide side, int instance);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PROGRAM_PIPELINE_SHAPE_H_
