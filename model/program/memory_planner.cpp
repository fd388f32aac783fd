#include "model/program/memory_planner.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "model/assert.h"

namespace megatwin::model {
namespace {

constexpr int kNumBufferKinds = 5;

const ChunkCost& chunk_of(const MemoryRequest& request, const Task& task) {
  return request.stage.chunks[static_cast<std::size_t>(task.chunk.value)];
}

Bytes modelled_size(const ChunkCost& chunk, BufferKind kind) {
  switch (kind) {
    case BufferKind::Activation:
      return chunk.activation;
    case BufferKind::WeightGradientInput:
      return chunk.weight_gradient_input;
    case BufferKind::ForwardTransient:
      return chunk.forward_transient;
    case BufferKind::BackwardTransient:
      return chunk.backward_transient;
    case BufferKind::WeightTransient:
      return chunk.weight_transient;
  }
  MEGATWIN_ASSERT(false, "unknown buffer kind");
}

// In whole bytes, so that sums are exact and come back to zero.
Bytes size_of(const ChunkCost& chunk, BufferKind kind) {
  return {std::ceil(modelled_size(chunk, kind).value)};
}

// Calls visit.begin(kind, task, half_step) and visit.end(…) in the order in which buffers come and
// go; what ends with a task ends before what begins at its end.
template <class Visitor>
void visit_lifetimes(const MemoryRequest& request, Visitor& visit) {
  std::int32_t now = 0;
  for (const TaskId id : request.order) {
    const Task task = request.shape.task(id);
    switch (task.kind) {
      case TaskKind::Forward:
      case TaskKind::Recompute:
        visit.begin(BufferKind::Activation, task, now);
        visit.begin(BufferKind::ForwardTransient, task, now);
        visit.end(BufferKind::ForwardTransient, task, now + 1);
        if (request.shape.side == PipelineSide::Forward) {
          visit.end(BufferKind::Activation, task, now + 1);
        }
        break;
      case TaskKind::Backward:
      case TaskKind::BackwardInput:
        visit.begin(BufferKind::BackwardTransient, task, now);
        visit.end(BufferKind::BackwardTransient, task, now + 1);
        visit.end(BufferKind::Activation, task, now + 1);
        if (task.kind == TaskKind::BackwardInput && request.shape.side == PipelineSide::Both) {
          visit.begin(BufferKind::WeightGradientInput, task, now + 1);
        }
        break;
      case TaskKind::BackwardWeight:
        if (request.shape.side == PipelineSide::Forward) {
          visit.begin(BufferKind::WeightGradientInput, task, now);
        }
        visit.begin(BufferKind::WeightTransient, task, now);
        visit.end(BufferKind::WeightTransient, task, now + 1);
        visit.end(BufferKind::WeightGradientInput, task, now + 1);
        break;
    }
    visit.finish_task(task);
    now += 2;
  }
}

// Adds up what is live.
class LiveSum {
 public:
  LiveSum(const MemoryRequest& request, MemoryPeak& peak)
      : request_(request),
        peak_(peak),
        num_chunks_(static_cast<std::size_t>(request.shape.model_chunks)),
        counts_(kNumBufferKinds * num_chunks_, 0),
        in_flight_(num_chunks_, 0) {
    peak_.in_flight_max.assign(num_chunks_, 0);
  }

  void begin(BufferKind kind, const Task& task, std::int32_t now) {
    ++count(kind, task.chunk);
    live_ += size_of(chunk_of(request_, task), kind);
    if (kind == BufferKind::Activation) {
      enter(task);
    }
    if (live_ > peak_.buffers) {
      peak_.buffers = live_;
      peak_.task_position = now / 2;
      peak_counts_ = counts_;
    }
  }
  void end(BufferKind kind, const Task& task, std::int32_t /*now*/) {
    MEGATWIN_ASSERT(count(kind, task.chunk) > 0, to_text(task), " frees what is not there");
    --count(kind, task.chunk);
    live_ -= size_of(chunk_of(request_, task), kind);
  }
  void finish_task(const Task& task) {
    if (!request_.shape.is_last(task.kind)) {
      return;
    }
    --in_flight_[static_cast<std::size_t>(task.chunk.value)];
    --in_flight_total_;
  }

  void finish() {
    peak_.live_at_end = live_;
    for (std::size_t index = 0; index < peak_counts_.size(); ++index) {
      const auto kind = static_cast<BufferKind>(index / num_chunks_);
      const ChunkId chunk{static_cast<std::int32_t>(index % num_chunks_)};
      const Bytes size = size_of(request_.stage.chunks[index % num_chunks_], kind);
      if (peak_counts_[index] == 0 || size == Bytes{0}) {
        continue;
      }
      peak_.live.push_back({kind, chunk, peak_counts_[index], double(peak_counts_[index]) * size});
    }
  }

 private:
  int& count(BufferKind kind, ChunkId chunk) {
    return counts_[static_cast<std::size_t>(kind) * num_chunks_ +
                   static_cast<std::size_t>(chunk.value)];
  }
  void enter(const Task& task) {
    const auto chunk = static_cast<std::size_t>(task.chunk.value);
    ++in_flight_total_;
    peak_.in_flight_max[chunk] = std::max(peak_.in_flight_max[chunk], ++in_flight_[chunk]);
    peak_.in_flight_max_total = std::max(peak_.in_flight_max_total, in_flight_total_);
  }

  const MemoryRequest& request_;
  MemoryPeak& peak_;
  std::size_t num_chunks_;
  std::vector<int> counts_, peak_counts_;
  std::vector<int> in_flight_;
  int in_flight_total_ = 0;
  Bytes live_;
};

// Lists all buffers with their lifetimes.
class BufferList {
 public:
  BufferList(const MemoryRequest& request, std::vector<PlacedBuffer>& buffers)
      : request_(request),
        buffers_(buffers),
        open_(kNumBufferKinds * static_cast<std::size_t>(request.shape.tasks_per_phase()), 0) {}

  void begin(BufferKind kind, const Task& task, std::int32_t now) {
    const Bytes size = size_of(chunk_of(request_, task), kind);
    if (size == Bytes{0}) {
      return;
    }
    open(kind, task) = buffers_.size();
    buffers_.push_back({kind, task.micro_batch, task.chunk, now, now, size, {}});
  }
  void end(BufferKind kind, const Task& task, std::int32_t now) {
    if (size_of(chunk_of(request_, task), kind) == Bytes{0}) {
      return;
    }
    buffers_[open(kind, task)].end = now;
  }
  void finish_task(const Task&) {}

 private:
  std::size_t& open(BufferKind kind, const Task& task) {
    const PipelineShape& shape = request_.shape;
    const int row = static_cast<int>(kind) * shape.model_chunks + task.chunk.value;
    const int index = row * shape.micro_batches + shape.place_of(task.micro_batch);
    return open_[static_cast<std::size_t>(index)];
  }

  const MemoryRequest& request_;
  std::vector<PlacedBuffer>& buffers_;
  std::vector<std::size_t> open_;
};

// Finds the placed buffers that live at the same time as another, by buckets of the time axis.
class PlacedBuffers {
 public:
  PlacedBuffers(const std::vector<PlacedBuffer>& buffers, std::int32_t time_end)
      : buffers_(buffers),
        buckets_(static_cast<std::size_t>(time_end / kBucketLength) + 1),
        seen_(buffers.size(), false) {}

  void add(std::size_t index) {
    const PlacedBuffer& buffer = buffers_[index];
    for (std::int32_t bucket = buffer.begin / kBucketLength; bucket <= last_bucket(buffer);
         ++bucket) {
      buckets_[static_cast<std::size_t>(bucket)].push_back(index);
    }
  }

  // By offset.
  std::vector<std::size_t> overlapping(const PlacedBuffer& buffer) {
    std::vector<std::size_t> result;
    for (std::int32_t bucket = buffer.begin / kBucketLength; bucket <= last_bucket(buffer);
         ++bucket) {
      for (const std::size_t other : buckets_[static_cast<std::size_t>(bucket)]) {
        if (seen_[other] || buffers_[other].begin >= buffer.end ||
            buffer.begin >= buffers_[other].end) {
          continue;
        }
        seen_[other] = true;
        result.push_back(other);
      }
    }
    for (const std::size_t other : result) {
      seen_[other] = false;
    }
    std::sort(result.begin(), result.end(), [this](std::size_t a, std::size_t b) {
      return std::tuple(buffers_[a].offset, a) < std::tuple(buffers_[b].offset, b);
    });
    return result;
  }

 private:
  static constexpr std::int32_t kBucketLength = 32;
  static std::int32_t last_bucket(const PlacedBuffer& buffer) {
    return (buffer.end - 1) / kBucketLength;
  }

  const std::vector<PlacedBuffer>& buffers_;
  std::vector<std::vector<std::size_t>> buckets_;
  std::vector<bool> seen_;
};

// The start of the smallest gap below or between `neighbours` (by offset) that holds `size`, else
// the end of the highest.
Bytes best_fit(const std::vector<PlacedBuffer>& buffers, const std::vector<std::size_t>& neighbours,
               Bytes size) {
  Bytes best_gap{0};
  Bytes best_offset{-1};
  Bytes top{0};
  for (const std::size_t index : neighbours) {
    const PlacedBuffer& other = buffers[index];
    if (const Bytes gap = other.offset - top;
        gap >= size && (best_offset < Bytes{0} || gap < best_gap)) {
      best_gap = gap;
      best_offset = top;
    }
    top = std::max(top, other.offset + other.size);
  }
  return best_offset < Bytes{0} ? top : best_offset;
}

}  // namespace

MemoryPeak plan_memory(const MemoryRequest& request) {
  const StageCost& stage = request.stage;
  MemoryPeak peak;
  peak.fixed =
      stage.parameters + stage.gradients + stage.optimizer_state + stage.buffers + stage.overhead;
  LiveSum sum(request, peak);
  visit_lifetimes(request, sum);
  sum.finish();
  MEGATWIN_ASSERT(peak.live_at_end == Bytes{0}, peak.live_at_end.value);
  return peak;
}

ArenaPlan plan_arena(const MemoryRequest& request) {
  ArenaPlan plan;
  BufferList list(request, plan.buffers);
  visit_lifetimes(request, list);

  std::vector<std::size_t> by_size(plan.buffers.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(), [&](std::size_t a, std::size_t b) {
    return plan.buffers[a].size > plan.buffers[b].size;
  });
  PlacedBuffers placed(plan.buffers, 2 * static_cast<std::int32_t>(request.order.size()));
  for (const std::size_t index : by_size) {
    PlacedBuffer& buffer = plan.buffers[index];
    buffer.offset = best_fit(plan.buffers, placed.overlapping(buffer), buffer.size);
    plan.high_water = std::max(plan.high_water, buffer.offset + buffer.size);
    placed.add(index);
  }
  return plan;
}

}  // namespace megatwin::model
