#include "sim/step_times.h"

#include "sim/overlap_budget.h"

namespace megatwin::sim {

std::vector<Nanoseconds> gather_ends(const PipelineCosts& costs, std::size_t unit) {
  const auto pipeline = static_cast<std::size_t>(costs.shape.pipeline);
  const int stage = static_cast<int>(unit % pipeline);
  const model::PipelineShape& shape = costs.class_shape(static_cast<int>(unit / pipeline));
  if (shape.side == model::PipelineSide::Backward) {
    return std::vector<Nanoseconds>(static_cast<std::size_t>(shape.model_chunks), 0);
  }
  std::vector<Nanoseconds> ends;
  Nanoseconds now = 0;
  for (int chunk = 0; chunk < costs.shape.model_chunks; ++chunk) {
    now += costs.gather[costs.chunk_index(stage, chunk)];
    ends.push_back(now);
  }
  if (!costs.overlap_param_gather) {
    ends.assign(ends.size(), now);
  }
  return ends;
}

std::vector<Nanoseconds> slowed_durations(const PipelineCosts& costs, std::size_t unit,
                                          const policies::Order& order) {
  const int replica_class = static_cast<int>(unit) / costs.shape.pipeline;
  const int stage = static_cast<int>(unit) % costs.shape.pipeline;
  const model::PipelineShape& shape = costs.class_shape(replica_class);
  OverlapBudget budget;
  if (costs.overlap_param_gather) {
    for (int chunk = 1; chunk < shape.model_chunks; ++chunk) {
      budget.add(costs.gather[costs.chunk_index(stage, chunk)]);
    }
  }
  std::vector<int> left(static_cast<std::size_t>(shape.model_chunks), shape.micro_batches);
  std::vector<Nanoseconds> durations(static_cast<std::size_t>(shape.num_tasks()));
  for (const model::TaskId id : order) {
    const model::Task task = shape.task(id);
    const int chunk = task.chunk.value;
    const Nanoseconds plain =
        costs.task[costs.task_index(replica_class, stage, shape.phase_of(task.kind), chunk)];
    durations[static_cast<std::size_t>(id.value)] = budget.extended(plain, costs.overlap_slowdown);
    if (task.kind != shape.last_kind()) {
      continue;
    }
    if (--left[static_cast<std::size_t>(chunk)] == 0 && costs.overlap_grad_reduce) {
      budget.add(costs.reduce[costs.chunk_index(stage, chunk)]);
    }
  }
  return durations;
}

}  // namespace megatwin::sim
