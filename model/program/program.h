// The program of one role: every task that a rank of this role runs in one step, what each task
// waits for and what it sends. Immutable and shared by all ranks of the role; holds no state and no
// durations. Other operations (sends, receives, gathers, reductions, the optimizer step) are
// derived from the tasks and matched by tag, which is the receiving stage and task, never by order.
#ifndef MEGATWIN_MODEL_PROGRAM_PROGRAM_H_
#define MEGATWIN_MODEL_PROGRAM_PROGRAM_H_

#include <cstdint>
#include <span>
#include <vector>

#include "model/ids.h"
#include "model/program/pipeline_shape.h"
#include "model/program/task.h"
#include "model/units.h"

namespace megatwin::model {

// A message between neighbouring virtual stages on different ranks, or between the sides of a
// decoupled pipeline. `task` is the task of the other rank; together they are the tag.
struct Message {
  static constexpr std::int32_t kNone = -1;
  StageId stage{kNone};
  TaskId task{kNone};
  // Messages of one channel share the receive slots: activations and gradients apart, and in the
  // fold placement those of the two chunks apart, since they come from different neighbours.
  std::uint8_t channel = 0;
  std::uint16_t instance = 0;  // Of a crossing: which one of the other side.

  bool exists() const { return stage.value != kNone; }
};

inline constexpr int kNumChannels = 4;

// What one (micro-batch, chunk) holds in memory; see ChunkCost.
struct ChunkMemory {
  Bytes activation;
  Bytes weight_gradient_input;
};

struct Program {
  StageId stage;
  PipelineShape shape;
  bool overlap_p2p = false;
  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;

  std::vector<Task> tasks;  // By TaskId.
  // Tasks of this rank that wait for a task of this rank, as compressed rows: those of task t are
  // successors[successor_begin[t]] … successors[successor_begin[t + 1] − 1].
  std::vector<std::uint32_t> successor_begin;
  std::vector<TaskId> successors;
  // How many things task t waits for: tasks of this rank, one message, one from the other side, and
  // in a forward (or its recompute), on a forward side in every task, the parameters of its chunk.
  std::vector<std::uint8_t> num_waits;
  std::vector<Message> sends;     // What task t sends when done, and where.
  std::vector<Message> receives;  // What task t waits for, and from where.
  // Decoupled, else empty: what task t sends to a rank of its stage on the other side, and what it
  // waits for from there; which one depends on the micro-batch. A forward feeds the recompute of
  // its micro-batch, a BackwardInput the weight gradients that are left to the forward side.
  // `rooms` are messages without content: a backward makes room for a later forward, when what it
  // sends itself has been sent.
  std::vector<Message> crossings, rooms, awaited_crossings;
  std::vector<ChunkMemory> chunk_memory;
  Bytes fixed_memory;  // Parameters, gradients, optimizer state, buffers, overhead.

  bool feeds(TaskId task) const {
    return !crossings.empty() && crossings[static_cast<std::size_t>(task.value)].exists();
  }
  bool makes_room(TaskId task) const {
    return !rooms.empty() && rooms[static_cast<std::size_t>(task.value)].exists();
  }
  bool crosses(TaskId task) const { return feeds(task) || makes_room(task); }
  bool awaits_crossing(TaskId task) const {
    return !awaited_crossings.empty() &&
           awaited_crossings[static_cast<std::size_t>(task.value)].exists();
  }
  int num_tasks() const { return shape.num_tasks(); }
  std::span<const TaskId> successors_of(TaskId task) const {
    const auto index = static_cast<std::size_t>(task.value);
    return {successors.data() + successor_begin[index],
            successor_begin[index + 1] - successor_begin[index]};
  }
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PROGRAM_PROGRAM_H_
