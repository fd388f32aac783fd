#include "sim/pipeline_costs.h"

#include <algorithm>

#include "model/assert.h"
#include "sim/step_times.h"

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
    case TaskKind::Recompute:
      return chunk.forward;
    case TaskKind::Backward:
      return chunk.backward;
    case TaskKind::BackwardInput:
      return chunk.backward_input;
    case TaskKind::BackwardWeight:
      return chunk.backward_weight;
  }
  MEGATWIN_ASSERT(false, "unknown task");
}

// Where a stage's durations go: those of the start, or of a change.
struct Durations {
  std::vector<Nanoseconds>& task;
  std::vector<Nanoseconds>& optimizer;
};

void append_stage(const StageCost& stage, const model::PipelineShape& shape, Durations costs) {
  MEGATWIN_ASSERT(std::ssize(stage.chunks) == shape.model_chunks, stage.chunks.size());
  for (int row = 0; row < shape.num_rows(); ++row) {
    const ChunkCost& chunk = stage.chunks[static_cast<std::size_t>(row % shape.model_chunks)];
    costs.task.push_back(scaled(duration_of(chunk, shape.kind_of_row(row)), stage.speed));
    MEGATWIN_ASSERT(costs.task.back() >= 0, costs.task.back());
  }
  costs.optimizer.push_back(scaled(stage.optimizer, stage.speed));
}

void append_shape(const ReplicaClass& replicas, PipelineCosts& costs) {
  const model::PipelineShape shape = pipeline_shape(*replicas.spec);
  model::PipelineShape alike = shape;
  alike.micro_batches = costs.shape.micro_batches;
  alike.side = costs.shape.side;
  alike.instance = costs.shape.instance;
  alike.instances = costs.shape.instances;
  MEGATWIN_ASSERT(alike == costs.shape, "classes of different pipelines");
  const auto found = std::find(costs.shapes.begin(), costs.shapes.end(), shape);
  costs.shape_of_class.push_back(static_cast<int>(found - costs.shapes.begin()));
  if (found == costs.shapes.end()) costs.shapes.push_back(shape);
  costs.first_slot.push_back(costs.first_slot.back() + SlotLayout{shape}.size());
}

void append_sends(const model::ProgramSpec& spec, PipelineCosts& costs) {
  MEGATWIN_ASSERT(spec.hops.empty() || std::ssize(spec.hops) == spec.pipeline, spec.hops.size());
  costs.send.push_back(0);
  for (int boundary = 0; boundary < spec.pipeline; ++boundary) {
    const model::PipelineHop hop = spec.hop(boundary);
    MEGATWIN_ASSERT(hop.activation.ns >= 0 && hop.gradient.ns >= 0, boundary);
    costs.send.push_back(hop.activation.ns);
    costs.send.push_back(hop.gradient.ns);
  }
}

void append_later(const ReplicaClass& replicas, const model::PipelineShape& shape,
                  PipelineCosts& costs) {
  costs.changes.resize(replicas.later.size());
  for (std::size_t i = 0; i < replicas.later.size(); ++i) {
    PipelineCosts::Change& change = costs.changes[i];
    const ReplicaClass::Later& later = replicas.later[i];
    MEGATWIN_ASSERT(change.task.empty() || change.at == later.from.ns, change.at);
    change.at = later.from.ns;
    MEGATWIN_ASSERT(change.at > (i == 0 ? 0 : costs.changes[i - 1].at), change.at);
    for (const StageCost* stage : later.stages) {
      append_stage(*stage, shape, {change.task, change.optimizer});
    }
    change.task.resize(costs.shape_of_class.size() * costs.class_stride());
  }
}

// What crosses between the two sides.
void append_crossings(const std::vector<ReplicaClass>& classes, PipelineCosts& costs) {
  if (!costs.is_decoupled()) return;
  const model::ProgramSpec& spec = *classes.front().spec;
  costs.instances = spec.instances;
  for (int index = 0; index < std::ssize(classes); ++index) {
    const model::ProgramSpec& one = *classes[static_cast<std::size_t>(index)].spec;
    const bool is_forward = index < spec.instances.forward;
    MEGATWIN_ASSERT(
        one.side == (is_forward ? model::PipelineSide::Forward : model::PipelineSide::Backward) &&
            one.instance == index - (is_forward ? 0 : spec.instances.forward) &&
            one.instances == spec.instances && one.micro_batches == spec.micro_batches,
        index, " of ", classes.size(), " instances");
  }
  MEGATWIN_ASSERT(std::ssize(classes) == spec.instances.forward + spec.instances.backward,
                  classes.size(), " instances");
  costs.feed_kind = spec.feed;
  for (int stage = 0; stage < spec.pipeline; ++stage) {
    costs.feed.push_back(spec.crossing(stage).feed.ns);
    costs.weight_input.push_back(spec.crossing(stage).weight_input.ns);
    costs.gradients.push_back(spec.crossing(stage).gradients.ns);
  }
}

}  // namespace

ReplicaClass replica_class(const model::ProgramSpec& spec) {
  ReplicaClass replicas{.spec = &spec};
  for (const StageCost& stage : spec.stages) {
    replicas.stages.push_back(&stage);
  }
  return replicas;
}

PipelineCosts pipeline_costs(const model::ProgramSpec& spec) {
  return pipeline_costs(std::vector<ReplicaClass>{replica_class(spec)});
}

PipelineCosts pipeline_costs(const std::vector<ReplicaClass>& classes) {
  MEGATWIN_ASSERT(!classes.empty());
  const model::ProgramSpec& spec = *classes.front().spec;
  PipelineCosts costs{.shape = pipeline_shape(spec),
                      .num_classes = static_cast<int>(classes.size()),
                      .first_slot = {0},
                      .overlap_p2p = spec.overlap_p2p,
                      .overlap_grad_reduce = spec.overlap_grad_reduce,
                      .overlap_param_gather = spec.overlap_param_gather,
                      .overlap_slowdown = spec.overlap_slowdown};
  for (const ReplicaClass& replicas : classes) {
    costs.rows_max = std::max(costs.rows_max, pipeline_shape(*replicas.spec).num_rows());
  }
  append_crossings(classes, costs);
  const auto num_chunks = static_cast<std::size_t>(costs.shape.virtual_stages());
  costs.gather.assign(num_chunks, 0);
  costs.reduce.assign(num_chunks, 0);
  for (const ReplicaClass& replicas : classes) {
    MEGATWIN_ASSERT(std::ssize(replicas.stages) == spec.pipeline, replicas.stages.size());
    append_shape(replicas, costs);
    append_sends(*replicas.spec, costs);
    const model::PipelineSide side = replicas.spec->side;
    std::size_t chunk_index = 0;
    const model::PipelineShape& own =
        costs.shapes[static_cast<std::size_t>(costs.shape_of_class.back())];
    for (const StageCost* stage : replicas.stages) {
      append_stage(*stage, own, {costs.task, costs.optimizer});
      for (const ChunkCost& chunk : stage->chunks) {
        Nanoseconds& gather = costs.gather[chunk_index];
        Nanoseconds& reduce = costs.reduce[chunk_index];
        if (side != model::PipelineSide::Backward) {
          gather = std::max(gather, chunk.parameter_gather.ns);
        }
        if (side != model::PipelineSide::Forward) {
          reduce = std::max(reduce, chunk.gradient_reduce.ns);
        }
        ++chunk_index;
      }
    }
    costs.task.resize(costs.shape_of_class.size() * costs.class_stride());
    MEGATWIN_ASSERT(replicas.later.size() == classes.front().later.size(), replicas.later.size());
    append_later(replicas, own, costs);
  }
  return costs;
}

}  // namespace megatwin::sim
