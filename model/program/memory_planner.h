// Works out what a rank holds in memory while it runs its tasks in a given order: the peak of what
// is live at once, and offsets in one arena. The order may be a static schedule or the log of a
// dynamic one. Compute of a rank runs one task at a time, so lifetimes need positions, not times.
#ifndef MEGATWIN_MODEL_PROGRAM_MEMORY_PLANNER_H_
#define MEGATWIN_MODEL_PROGRAM_MEMORY_PLANNER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "model/ids.h"
#include "model/program/pipeline_shape.h"
#include "model/program/program_spec.h"
#include "model/units.h"

namespace megatwin::model {

enum class BufferKind : std::uint8_t {
  Activation,
  WeightGradientInput,
  ForwardTransient,
  BackwardTransient,
  WeightTransient
};

// Buffers of one kind and chunk that are live together.
struct LiveBuffers {
  BufferKind kind = BufferKind::Activation;
  ChunkId chunk;
  int count = 0;
  Bytes bytes;  // Of all of them.
  friend bool operator==(const LiveBuffers&, const LiveBuffers&) = default;
};

struct MemoryPeak {
  Bytes fixed;                     // Parameters, gradients, optimizer state, buffers, overhead.
  Bytes buffers;                   // The most that is live at once above `fixed`.
  std::int32_t task_position = 0;  // Where in the order it first happens.
  std::vector<LiveBuffers> live;   // What it is made of, by kind, then chunk.
  std::vector<int> in_flight_max;  // Per chunk: micro-batches begun and not finished.
  int in_flight_max_total = 0;     // Over all chunks at one time.
  Bytes live_at_end;               // Zero: the step returns what it took.

  Bytes total() const { return fixed + buffers; }
};

struct MemoryRequest {
  const PipelineShape& shape;
  const StageCost& stage;
  std::span<const TaskId> order;
};

// Lifetimes as ChunkCost says: an activation from the start of its forward to the end of the
// backward (or of the backward for the input), then the input of the weight gradient to the end of
// that; transients inside their task. On the forward side of a decoupled pipeline an activation
// lives as long as its forward: what is fed of it is a message. So is the input of a weight
// gradient that is left to that side, and lives there as long as its task.
MemoryPeak plan_memory(const MemoryRequest& request);

// A buffer with its lifetime in half-steps: task n of the order starts at 2n and ends at 2n + 1;
// live from `begin` up to, and without, `end`.
struct PlacedBuffer {
  BufferKind kind = BufferKind::Activation;
  MicroBatchId micro_batch;
  ChunkId chunk;
  std::int32_t begin = 0;
  std::int32_t end = 0;
  Bytes size;
  Bytes offset;
};

struct ArenaPlan {
  std::vector<PlacedBuffer> buffers;  // In the order in which they begin; none of size zero.
  Bytes high_water;                   // At least MemoryPeak::buffers; more where gaps stay open.
};

// Offsets such that buffers that live at the same time do not overlap. Largest first, each into the
// smallest gap that holds it, the lowest of equals; the same input gives the same plan.
ArenaPlan plan_arena(const MemoryRequest& request);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PROGRAM_MEMORY_PLANNER_H_
