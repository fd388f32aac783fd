#include "model/program/pipeline_shape.h"

#include <algorithm>
#include <string>

#include "model/assert.h"

namespace megatwin::model {
namespace {

bool is_split_token(const std::string& token) {
  return !token.empty() && (token.front() == 'I' || token.front() == 'W');
}

// An order file splits the backward when it says so anywhere.
bool orders_split_backward(const ProgramSpec& spec) {
  return std::any_of(spec.orders.begin(), spec.orders.end(), [](const auto& order) {
    return std::any_of(order.begin(), order.end(), is_split_token);
  });
}

}  // namespace

PipelineShape pipeline_shape(const ProgramSpec& spec) {
  if (spec.side != PipelineSide::Both) {
    return side_shape(spec, spec.side, spec.instance);
  }
  PipelineShape shape{.pipeline = spec.pipeline,
                      .model_chunks = spec.model_chunks,
                      .micro_batches = spec.micro_batches};
  switch (spec.schedule) {
    case ScheduleKind::GPipe:
    case ScheduleKind::OneForwardOneBackward:
    case ScheduleKind::Interleaved:
    case ScheduleKind::DynamicAdaptive:
    case ScheduleKind::DynamicDepthFirst:
    case ScheduleKind::DynamicBreadthFirst:
    case ScheduleKind::UserPolicy:
    case ScheduleKind::Decoupled:
      break;
    case ScheduleKind::ZeroBubbleH1:
      shape.split_backward = true;
      break;
    case ScheduleKind::ZeroBubbleV:
      shape.split_backward = true;
      shape.placement = ChunkPlacement::Fold;
      break;
    case ScheduleKind::OrderFile:
      shape.split_backward = orders_split_backward(spec);
      if (spec.orders_fold) {
        shape.placement = ChunkPlacement::Fold;
      }
      break;
  }
  return shape;
}

PipelineShape side_shape(const ProgramSpec& spec, PipelineSide side, int instance) {
  const int instances = spec.instances.of(side);
  return {.pipeline = spec.pipeline,
          .model_chunks = spec.model_chunks,
          .micro_batches = (spec.micro_batches - instance + instances - 1) / instances,
          .side = side,
          .instance = instance,
          .instances = instances,
          .left = {.share = spec.weight_share,
                   .micro_batches = spec.micro_batches,
                   .round = round_of(spec.instances.forward, spec.instances.backward)}};
}

int PipelineShape::left_before(int n) const {
  if (!leaves_weights()) {
    return 0;
  }
  const std::int64_t own_of_round = left.round / instances;
  const std::int64_t rounds =
      own_of_round == 0 ? 0 : std::min(n / own_of_round, left.micro_batches / left.round);
  int count = left.left_of_instance(rounds, instance, instances);
  for (auto place = static_cast<int>(rounds * own_of_round); place < n; ++place) {
    count += leaves(micro_batch(place)) ? 1 : 0;
  }
  return count;
}

Task PipelineShape::left_task(TaskId id) const {
  if (side == PipelineSide::Backward) {
    const MicroBatchId own = micro_batch(id.value - micro_batches);
    return {leaves(own) ? TaskKind::BackwardInput : TaskKind::Backward, own, {0}};
  }
  int left = id.value - micro_batches;
  for (int place = 0; place < micro_batches; ++place) {
    const MicroBatchId own = micro_batch(place);
    if (leaves(own) && left-- == 0) {
      return {TaskKind::BackwardWeight, own, {0}};
    }
  }
  MEGATWIN_ASSERT(false, "task ", id.value, " of ", num_tasks());
}

}  // namespace megatwin::model
