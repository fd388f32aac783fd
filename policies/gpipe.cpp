#include "policies/schedule.h"

namespace megatwin::policies {

using model::ChunkId;
using model::MicroBatchId;
using model::TaskKind;

Order gpipe_order(const model::PipelineShape& shape, model::StageId /*stage*/) {
  Order order;
  order.reserve(static_cast<std::size_t>(shape.num_tasks()));
  for (std::int32_t chunk = 0; chunk < shape.model_chunks; ++chunk) {
    for (std::int32_t micro_batch = 0; micro_batch < shape.micro_batches; ++micro_batch) {
      order.push_back(
          shape.task_id({TaskKind::Forward, MicroBatchId{micro_batch}, ChunkId{chunk}}));
    }
  }
  for (std::int32_t chunk = shape.model_chunks - 1; chunk >= 0; --chunk) {
    for (std::int32_t micro_batch = 0; micro_batch < shape.micro_batches; ++micro_batch) {
      order.push_back(
          shape.task_id({TaskKind::Backward, MicroBatchId{micro_batch}, ChunkId{chunk}}));
    }
  }
  return order;
}

}  // namespace megatwin::policies
