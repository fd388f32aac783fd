// 1F1B and its interleaved form: the same walk over two lists, all forwards and all backwards, with
// a number of forwards ahead of the first backward.
#include <algorithm>

#include "model/assert.h"
#include "policies/schedule.h"

namespace megatwin::policies {

using model::ChunkId;
using model::MicroBatchId;
using model::TaskKind;

namespace {

// (Micro-batch, position) in the order of Megatron-LM's schedule table. A position is a chunk in
// the forward and counts chunks from the last in the backward.
struct Entry {
  std::int32_t micro_batch;
  std::int32_t position;
};
std::vector<Entry> schedule_table(const model::PipelineShape& shape, int group) {
  std::vector<Entry> table;
  table.reserve(static_cast<std::size_t>(shape.tasks_per_phase()));
  for (int first = 0; first < shape.micro_batches; first += group) {
    const int last = std::min(first + group, shape.micro_batches);
    for (std::int32_t position = 0; position < shape.model_chunks; ++position) {
      for (std::int32_t micro_batch = first; micro_batch < last; ++micro_batch) {
        table.push_back({micro_batch, position});
      }
    }
  }
  return table;
}

Order with_warm_up(const model::PipelineShape& shape, int group, int warm_up) {
  const std::vector<Entry> table = schedule_table(shape, group);
  Order order;
  order.reserve(2 * table.size());
  const auto forward = [&](std::size_t index) {
    const auto& [micro_batch, position] = table[index];
    order.push_back(
        shape.task_id({TaskKind::Forward, MicroBatchId{micro_batch}, ChunkId{position}}));
  };
  const auto backward = [&](std::size_t index) {
    const auto& [micro_batch, position] = table[index];
    order.push_back(shape.task_id({TaskKind::Backward, MicroBatchId{micro_batch},
                                   ChunkId{shape.model_chunks - 1 - position}}));
  };
  const std::size_t ahead = std::min(static_cast<std::size_t>(warm_up), table.size());
  for (std::size_t index = 0; index < ahead; ++index) {
    forward(index);
  }
  for (std::size_t index = ahead; index < table.size(); ++index) {
    forward(index);
    backward(index - ahead);
  }
  for (std::size_t index = table.size() - ahead; index < table.size(); ++index) {
    backward(index);
  }
  return order;
}

}  // namespace

Order one_forward_one_backward_order(const model::PipelineShape& shape, model::StageId stage) {
  MEGATWIN_ASSERT(shape.model_chunks == 1, shape.model_chunks);
  return with_warm_up(shape, shape.micro_batches, shape.pipeline - 1 - stage.value);
}

Order interleaved_order(const model::PipelineShape& shape, model::StageId stage, int group) {
  MEGATWIN_ASSERT(group >= shape.pipeline, group);
  return with_warm_up(shape, group,
                      2 * (shape.pipeline - 1 - stage.value) + (shape.model_chunks - 1) * group);
}

}  // namespace megatwin::policies
