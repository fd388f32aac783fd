#include "exec/rank_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "exec/replica_exchange.h"

namespace megatwin::exec {

using model::BufferKind;
using model::Task;
using model::TaskKind;

RankModel::RankModel(const Setup& setup, TensorGroup& group, std::optional<model::ArenaPlan> plan)
    : job_(setup.job), shape_(setup.shape), coordinates_(setup.coordinates) {
  if (plan) {
    memory_ = RankMemory(*plan);
  }
  for (const ChunkPart& part : chunk_parts(job_, setup.program.shape, setup.program.stage)) {
    chunks_.push_back(std::make_unique<ModelChunk>(
        ModelChunkSetup{.shape = shape_, .part = part, .seed = job_.seed}, group));
    const auto size = static_cast<std::size_t>(own_part(*chunks_.back()).size);
    moments_.push_back({std::vector<float>(size, 0), std::vector<float>(size, 0)});
  }
}

Slice RankModel::own_part(const ModelChunk& chunk) const {
  const std::int64_t size = chunk.table().size;
  return job_.plan.zero_stage > 0 ? shard_of(size, coordinates_.data, job_.plan.data)
                                  : Slice{0, size};
}

TokenBatch RankModel::batch(const Task& task, int step) const {
  return job_.tokens->batch(
      {.step = step,
       .micro_batch = coordinates_.data * job_.plan.num_micro_batches() + task.micro_batch.value});
}

RankModel::Outcome RankModel::run(const Task& task, int step, std::span<const float> message) {
  switch (task.kind) {
    case TaskKind::Forward:
      return forward(task, step, message);
    case TaskKind::Backward:
    case TaskKind::BackwardInput:
      return backward(task, step, message);
    case TaskKind::BackwardWeight: {
      const BufferKey key{BufferKind::WeightGradientInput, task.chunk, task.micro_batch};
      chunk_of(task).backward_weight({batch(task, step), memory_.of(key)});
      memory_.give_back(key);
      return {};
    }
    case TaskKind::Recompute:
      break;
  }
  MEGATWIN_ASSERT(false, "the host world does not run ", to_text(task));
}

RankModel::Outcome RankModel::forward(const Task& task, int step, std::span<const float> message) {
  ModelChunk& chunk = chunk_of(task);
  const BufferKey activation{BufferKind::Activation, task.chunk, task.micro_batch};
  const BufferKey transient{BufferKind::ForwardTransient, task.chunk, task.micro_batch};
  const std::span<float> saved = memory_.take(activation, chunk.sizes().activation);
  const std::span<float> workspace = memory_.take(transient, chunk.sizes().forward_workspace);
  const bool is_last = chunk.part().has_head;
  Outcome outcome;
  outcome.message.resize(is_last ? 0 : static_cast<std::size_t>(shape_.message_size()));
  const auto num_micro_batches =
      static_cast<double>(job_.plan.num_micro_batches() * job_.plan.data);
  const double loss = chunk.forward({.batch = batch(task, step),
                                     .gradient_scale = 1 / num_micro_batches,
                                     .input = message,
                                     .activation = saved,
                                     .workspace = workspace,
                                     .output = outcome.message});
  if (is_last) {
    outcome.loss = loss;
  }
  memory_.give_back(transient);
  return outcome;
}

// What the gradients of the weights need is made in the transient buffer. A whole backward uses it
// there; a split one moves it to where the activation may have been.
RankModel::Outcome RankModel::backward(const Task& task, int step, std::span<const float> message) {
  ModelChunk& chunk = chunk_of(task);
  const BufferKey activation{BufferKind::Activation, task.chunk, task.micro_batch};
  const BufferKey transient{BufferKind::BackwardTransient, task.chunk, task.micro_batch};
  Workspace buffer(
      memory_.take(transient, chunk.sizes().gradient_input + chunk.sizes().backward_workspace));
  const std::span<float> gradient_input = buffer.take(chunk.sizes().gradient_input);
  Outcome outcome;
  outcome.message.resize(
      chunk.part().has_embedding ? 0 : static_cast<std::size_t>(shape_.message_size()));
  chunk.backward_input({.input = message,
                        .activation = memory_.of(activation),
                        .gradient_input = gradient_input,
                        .workspace = buffer.take(chunk.sizes().backward_workspace),
                        .output = outcome.message});
  if (task.kind == TaskKind::Backward) {
    chunk.backward_weight({batch(task, step), gradient_input});
  }
  memory_.give_back(transient);
  memory_.give_back(activation);
  if (task.kind == TaskKind::BackwardInput) {
    const std::span<float> kept =
        memory_.take({BufferKind::WeightGradientInput, task.chunk, task.micro_batch},
                     chunk.sizes().gradient_input);
    // The two may overlap in the arena.
    std::memmove(kept.data(), gradient_input.data(), kept.size_bytes());
  }
  return outcome;
}

void RankModel::step_optimizer(const OptimizerStep& arguments) {
  kernels::reference::AdamWSettings settings = job_.optimizer;
  if (job_.learning_rate_factor) {
    settings.learning_rate *= job_.learning_rate_factor(arguments.step);
  }
  for (std::size_t index = 0; index < chunks_.size(); ++index) {
    ModelChunk& chunk = *chunks_[index];
    const Slice part = own_part(chunk);
    kernels::reference::adamw_step({.settings = settings,
                                    .step = arguments.step + 1,
                                    .gradient_scale = static_cast<float>(arguments.gradient_scale),
                                    .gradients = part.of(chunk.gradients()),
                                    .parameters = part.of(chunk.weights()),
                                    .first_moment = moments_[index].first,
                                    .second_moment = moments_[index].second});
    std::fill(chunk.gradients().begin(), chunk.gradients().end(), 0.0F);
  }
}

std::vector<ChunkState> RankModel::state(model::RankId rank) {
  std::vector<ChunkState> states;
  for (std::size_t index = 0; index < chunks_.size(); ++index) {
    ModelChunk& chunk = *chunks_[index];
    states.push_back({.rank = rank,
                      .table = &chunk.table(),
                      .held = {0, chunk.table().size},
                      .weights = chunk.weights(),
                      .stepped = own_part(chunk),
                      .first_moment = moments_[index].first,
                      .second_moment = moments_[index].second});
  }
  return states;
}

std::vector<RankModel::NormPart> RankModel::norm_parts() {
  std::vector<NormPart> parts;
  for (const auto& chunk : chunks_) {
    const Slice own = own_part(*chunk);
    for (const Parameter& parameter : chunk->table().parameters) {
      const bool is_whole =
          parameter.rows == parameter.rows_total && parameter.columns == parameter.columns_total;
      if ((is_whole && coordinates_.tensor > 0) ||
          (job_.plan.zero_stage == 0 && coordinates_.data > 0)) {
        continue;
      }
      const std::int64_t begin = std::max(own.offset, parameter.place.offset);
      const std::int64_t end =
          std::min(own.offset + own.size, parameter.place.offset + parameter.place.size);
      double squares = 0;
      for (std::int64_t i = begin; i < end; ++i) {
        const double gradient = chunk->gradients()[static_cast<std::size_t>(i)];
        squares += gradient * gradient;
      }
      parts.push_back({parameter.name, squares});
    }
  }
  return parts;
}

std::vector<ChunkPart> chunk_parts(const HostJob& job, const model::PipelineShape& shape,
                                   model::StageId stage) {
  const std::vector<int> layers = layers_of_virtual_stages(job.transformer, job.plan);
  std::vector<ChunkPart> parts;
  for (std::int32_t chunk = 0; chunk < shape.model_chunks; ++chunk) {
    const int virtual_stage = shape.virtual_stage(stage, {chunk});
    parts.push_back(
        {.first_layer = std::accumulate(layers.begin(), layers.begin() + virtual_stage, 0),
         .num_layers = layers[static_cast<std::size_t>(virtual_stage)],
         .has_embedding = virtual_stage == 0,
         .has_head = virtual_stage == shape.virtual_stages() - 1});
  }
  return parts;
}

}  // namespace megatwin::exec
