#include "model/pipeline_closed_forms.h"

#include <algorithm>

namespace megatwin::model {

double bubble_fraction(const PipelineShape& shape) {
  return (shape.stages - 1) / (shape.chunks * shape.micro_batches + shape.stages - 1);
}

double bubble_ratio(const PipelineShape& shape) {
  return (shape.stages - 1) / (shape.chunks * shape.micro_batches);
}

Seconds pipeline_makespan(ScheduleKind schedule, const PipelineShape& shape,
                          const StageTimes& times) {
  const Seconds busy = shape.micro_batches * times.total();
  switch (schedule) {
    case ScheduleKind::GPipe:
    case ScheduleKind::OneForwardOneBackward:
      return busy + bubble_time_1f1b(shape, times);
    case ScheduleKind::Interleaved:
      return busy + bubble_time_1f1b(shape, times) / shape.chunks;
    case ScheduleKind::ZeroBubbleH1:
      return busy + bubble_time_zero_bubble_h1(shape, times);
    case ScheduleKind::ZeroBubbleV:
    case ScheduleKind::OrderFile:
    case ScheduleKind::DynamicAdaptive:
    case ScheduleKind::DynamicDepthFirst:
    case ScheduleKind::DynamicBreadthFirst:
    case ScheduleKind::UserPolicy:
    case ScheduleKind::Decoupled:
      return busy;
  }
  return busy;
}

Seconds bubble_time_1f1b(const PipelineShape& shape, const StageTimes& times) {
  return (shape.stages - 1) * times.total();
}

Seconds bubble_time_zero_bubble_h1(const PipelineShape& shape, const StageTimes& times) {
  return (shape.stages - 1) * (times.forward + times.backward_input - times.backward_weight);
}

Seconds bubble_time_zero_bubble_h2(const PipelineShape& shape, const StageTimes& times) {
  return (shape.stages - 1) * (times.forward + times.backward_input - 2.0 * times.backward_weight);
}

Seconds bubble_time_dualpipe(const PipelineShape& shape, Seconds overlapped, Seconds backward,
                             Seconds backward_weight) {
  return (shape.stages / 2 - 1) * (overlapped + backward - 3.0 * backward_weight);
}

double bubble_over_1f1b(SplitSchedule schedule) {
  switch (schedule) {
    case SplitSchedule::ZeroBubbleH1:
      return 1.0 / 3;
    case SplitSchedule::ZeroBubbleH2:
    case SplitSchedule::ZeroBubbleV:
      return 0;
    case SplitSchedule::VHalf:
      return 1.0 / 2;
    case SplitSchedule::VMin:
      return 2.0 / 3;
  }
  return 1;
}

double memory_over_1f1b(SplitSchedule schedule, const PipelineShape& shape) {
  switch (schedule) {
    case SplitSchedule::ZeroBubbleH1:
    case SplitSchedule::ZeroBubbleV:
      return 1;
    case SplitSchedule::ZeroBubbleH2:
      return (2 * shape.stages - 1) / shape.stages;
    case SplitSchedule::VHalf:
      return 1.0 / 2;
    case SplitSchedule::VMin:
      return 1.0 / 3;
  }
  return 1;
}

double in_flight_micro_batches(ScheduleKind schedule, const PipelineShape& shape, int stage) {
  const double p = shape.stages;
  const double v = shape.chunks;
  switch (schedule) {
    case ScheduleKind::GPipe:
    case ScheduleKind::OrderFile:
    case ScheduleKind::DynamicAdaptive:
    case ScheduleKind::DynamicDepthFirst:
    case ScheduleKind::DynamicBreadthFirst:
    case ScheduleKind::UserPolicy:
    case ScheduleKind::Decoupled:
      return shape.micro_batches;
    case ScheduleKind::OneForwardOneBackward:
      return std::min(shape.micro_batches, p - stage);
    case ScheduleKind::Interleaved:
      return std::min(shape.micro_batches, (p * v + p - 1 - 2 * stage) / v);
    case ScheduleKind::ZeroBubbleH1:
    case ScheduleKind::ZeroBubbleV:
      return std::min(shape.micro_batches, p);
  }
  return shape.micro_batches;
}

Seconds flow_shop_makespan(std::span<const Seconds> stage_times, double micro_batches) {
  Seconds sum;
  Seconds slowest;
  for (const Seconds time : stage_times) {
    sum += time;
    slowest = std::max(slowest, time);
  }
  return sum + (micro_batches - 1) * slowest;
}

Seconds uneven_1f1b_bound(std::span<const StageTimes> stages, double micro_batches) {
  Seconds after;
  for (const StageTimes& stage : stages) after += stage.total();
  Seconds before;
  Seconds bound;
  for (std::size_t j = 0; j < stages.size(); ++j) {
    const StageTimes& stage = stages[j];
    after -= stage.total();
    const double following = static_cast<double>(stages.size() - 1 - j);
    const Seconds drain = std::max(Seconds{}, after - following * stage.forward);
    bound = std::max(bound, micro_batches * stage.total() + before + drain);
    before += stage.total();
  }
  return bound;
}

Seconds step_time_of_replica(const ReplicaBatch& batch, double stages, const StageTimes& times) {
  const PipelineShape shape{stages, batch.sequences / batch.micro_batch, 1};
  return pipeline_makespan(ScheduleKind::OneForwardOneBackward, shape, times);
}

double bubble_ratio_of_replicas(double num_gpus, double data, double micro_batches_total) {
  return (num_gpus - data) / micro_batches_total;
}

}  // namespace megatwin::model
