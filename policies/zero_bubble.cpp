// The zero-bubble schedules: the backward is split, and weight gradients, for which nobody waits,
// fill the gaps.
#include <algorithm>

#include "model/assert.h"
#include "policies/schedule.h"

namespace megatwin::policies {

using model::ChunkId;
using model::MicroBatchId;
using model::PipelineShape;
using model::TaskKind;

namespace {

// Appends the next micro-batch of one (kind, chunk) at each call; those beyond the last micro-batch
// are counted but not emitted.
class Lister {
 public:
  Lister(const PipelineShape& shape, Order& order) : shape_(shape), order_(order) {}

  void next(TaskKind kind, std::int32_t chunk) {
    std::int32_t& count = count_of(kind, chunk);
    if (count < shape_.micro_batches) {
      order_.push_back(shape_.task_id({kind, MicroBatchId{count}, ChunkId{chunk}}));
    }
    ++count;
  }
  std::int32_t count(TaskKind kind, std::int32_t chunk) { return count_of(kind, chunk); }

 private:
  std::int32_t& count_of(TaskKind kind, std::int32_t chunk) {
    return counts_[shape_.phase_of(kind)][chunk];
  }

  const PipelineShape& shape_;
  Order& order_;
  std::int32_t counts_[3][2] = {};
};

void next_whole_backward(Lister& list, std::int32_t chunk) {
  list.next(TaskKind::BackwardInput, chunk);
  list.next(TaskKind::BackwardWeight, chunk);
}

}  // namespace

Order zero_bubble_h1_order(const PipelineShape& shape, model::StageId stage) {
  MEGATWIN_ASSERT(shape.split_backward && shape.model_chunks == 1, shape.model_chunks);
  Order order;
  order.reserve(static_cast<std::size_t>(shape.num_tasks()));
  Lister list(shape, order);
  const int warm_up = std::min(shape.pipeline - 1 - stage.value, shape.micro_batches);
  for (int i = 0; i < warm_up; ++i) {
    list.next(TaskKind::Forward, 0);
  }
  for (int i = 0; i < shape.micro_batches; ++i) {
    list.next(TaskKind::Forward, 0);
    list.next(TaskKind::BackwardInput, 0);
    if (i >= stage.value) {
      list.next(TaskKind::BackwardWeight, 0);
    }
  }
  while (list.count(TaskKind::BackwardWeight, 0) < shape.micro_batches) {
    list.next(TaskKind::BackwardWeight, 0);
  }
  return order;
}

// Phases of rank i of p, each chosen so that the rank never waits when F = B = W: forwards of chunk
// 0 until the first micro-batch is back; forwards of both chunks in turn; chunk 1 forward and whole
// backward until the first gradient of chunk 0 is back; then per micro-batch of each chunk forward,
// input, weight; at the end the input gradients come first, since others wait for them, and the
// weight gradients kept back fill the rest.
Order zero_bubble_v_order(const PipelineShape& shape, model::StageId stage) {
  MEGATWIN_ASSERT(shape.split_backward && shape.model_chunks == 2, shape.model_chunks);
  const int p = shape.pipeline;
  const int i = stage.value;
  // With fewer micro-batches than fill the V, the order of the smallest full V without the missing.
  const int m = std::max(shape.micro_batches, 2 * p - 1);
  Order order;
  order.reserve(static_cast<std::size_t>(shape.num_tasks()));
  Lister list(shape, order);

  for (int n = 0; n < 2 * (p - i) - 1; ++n) {
    list.next(TaskKind::Forward, 0);
  }
  for (int n = 0; n < i; ++n) {
    list.next(TaskKind::Forward, 1);
    list.next(TaskKind::Forward, 0);
  }
  for (int n = 0; n < p - i; ++n) {
    list.next(TaskKind::Forward, 1);
    next_whole_backward(list, 1);
  }
  while (list.count(TaskKind::Forward, 1) < m) {
    if (list.count(TaskKind::Forward, 0) < m) {
      list.next(TaskKind::Forward, 0);
    }
    next_whole_backward(list, 0);
    list.next(TaskKind::Forward, 1);
    next_whole_backward(list, 1);
  }
  for (int n = 0; n < i; ++n) {
    list.next(TaskKind::BackwardInput, 0);
    list.next(TaskKind::BackwardInput, 1);
  }
  for (int n = 0; n < p - i; ++n) {
    next_whole_backward(list, 0);
  }
  for (const std::int32_t chunk : {1, 0}) {
    while (list.count(TaskKind::BackwardWeight, chunk) < m) {
      list.next(TaskKind::BackwardWeight, chunk);
    }
  }
  return order;
}

}  // namespace megatwin::policies
