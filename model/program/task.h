// A task: what a policy orders, namely one pass of one micro-batch over one model chunk of a rank.
// Everything else that a rank does is derived from its tasks by the program builder.
#ifndef MEGATWIN_MODEL_PROGRAM_TASK_H_
#define MEGATWIN_MODEL_PROGRAM_TASK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/ids.h"
#include "model/program/event_record.h"

namespace megatwin::model {

// Same names and order as the first entries of EventKind. A Recompute is a task of its own only on
// the backward side of a decoupled pipeline; elsewhere it is part of its backward.
enum class TaskKind : std::uint8_t { Forward, Backward, BackwardInput, BackwardWeight, Recompute };

struct Task {
  TaskKind kind = TaskKind::Forward;
  MicroBatchId micro_batch;
  ChunkId chunk;
  friend constexpr auto operator<=>(const Task&, const Task&) = default;
};

// The record that an executed task leaves behind.
constexpr EventKind event_kind(TaskKind kind) { return static_cast<EventKind>(kind); }
static_assert(event_kind(TaskKind::Forward) == EventKind::Forward);
static_assert(event_kind(TaskKind::Recompute) == EventKind::Recompute);

// One letter, micro-batch, full stop, chunk, as in "F0.1". The letters: F forward, B backward, I
// backward for the input, W backward for the weights, R recompute.
std::string to_text(const Task& task);

// The inverse of to_text(); nothing when the text is no task.
std::optional<Task> task_from_text(std::string_view text);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PROGRAM_TASK_H_
