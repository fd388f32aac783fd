#include "sim/pipeline_costs.h"

#include <algorithm>

#include "model/assert.h"

namespace megatwin::sim {
namespace {

using model::ChunkCost;
using model::Instant;
using model::StageCost;
using model::TaskKind;

Nanoseconds scaled(Instant duration, double speed) {
  if (speed == 1) {
    return duration.ns;
  }
  return model::round_to_instant(speed * model::to_seconds(duration)).ns;
}

Instant duration_of(const ChunkCost& chunk, TaskKind kind) {
  switch (kind) {
    case TaskKind::Forward:
      return chunk.forward;
    case TaskKind::Backward:
      return chunk.backward;
    case TaskKind::BackwardInput:
      return chunk.backward_input;
    case TaskKind::BackwardWeight:
      return chunk.backward_weight;
    case TaskKind::Recompute:
      break;
  }
  MEGATWIN_ASSERT(false, "a recompute is part of its backward");
}

void append_stage(const StageCost& stage, PipelineCosts& costs) {
  MEGATWIN_ASSERT(std::ssize(stage.chunks) == costs.shape.model_chunks, stage.chunks.size());
  for (int phase = 0; phase < costs.shape.phases(); ++phase) {
    for (const ChunkCost& chunk : stage.chunks) {
      costs.task.push_back(scaled(duration_of(chunk, costs.shape.kind_of(phase)), stage.speed));
      MEGATWIN_ASSERT(costs.task.back() >= 0, costs.task.back());
    }
  }
  costs.optimizer.push_back(scaled(stage.optimizer, stage.speed));
}

}  // namespace

PipelineCosts pipeline_costs(const model::ProgramSpec& spec) {
  std::vector<const StageCost*> stages;
  for (const StageCost& stage : spec.stages) {
    stages.push_back(&stage);
  }
  return pipeline_costs(spec, {stages});
}

PipelineCosts pipeline_costs(const model::ProgramSpec& spec,
                             const std::vector<std::vector<const StageCost*>>& classes) {
  PipelineCosts costs{.shape = pipeline_shape(spec),
                      .num_classes = static_cast<int>(classes.size()),
                      .send = {0, spec.send_activation.ns, spec.send_gradient.ns},
                      .overlap_p2p = spec.overlap_p2p,
                      .overlap_grad_reduce = spec.overlap_grad_reduce,
                      .overlap_param_gather = spec.overlap_param_gather,
                      .overlap_slowdown = spec.overlap_slowdown};
  MEGATWIN_ASSERT(costs.send[1] >= 0 && costs.send[2] >= 0, costs.send[1], " ", costs.send[2]);
  const auto num_chunks = static_cast<std::size_t>(costs.shape.virtual_stages());
  costs.gather.assign(num_chunks, 0);
  costs.reduce.assign(num_chunks, 0);
  for (const auto& stages : classes) {
    MEGATWIN_ASSERT(std::ssize(stages) == spec.pipeline, stages.size());
    std::size_t chunk_index = 0;
    for (const StageCost* stage : stages) {
      append_stage(*stage, costs);
      for (const ChunkCost& chunk : stage->chunks) {
        Nanoseconds& gather = costs.gather[chunk_index];
        Nanoseconds& reduce = costs.reduce[chunk_index];
        gather = std::max(gather, chunk.parameter_gather.ns);
        reduce = std::max(reduce, chunk.gradient_reduce.ns);
        ++chunk_index;
      }
    }
    costs.task.push_back(0);
  }
  return costs;
}

}  // namespace megatwin::sim
