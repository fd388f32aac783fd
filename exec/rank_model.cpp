#include "exec/rank_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

namespace megatwin::exec {

using model::BufferKind;
using model::Task;
using model::TaskKind;

namespace {

// `places`, of which `at` has all, in a buffer that holds those of `at`.
Slice inside(const Slice& at, const Slice& places) {
  return {places.offset - at.offset, places.size};
}

}  // namespace

RankModel::RankModel(const Setup& setup, const RankGroups& groups, RankMemory memory)
    : job_(setup.job),
      shape_(setup.shape),
      coordinates_(setup.coordinates),
      groups_(groups),
      side_(setup.program.shape.side),
      memory_(std::move(memory)) {
  const bool has_gradients = setup.program.shape.leaves_weights();
  const WeightUse use = side_ != model::PipelineSide::Forward ? WeightUse::Step
                        : has_gradients                       ? WeightUse::Gradient
                                                              : WeightUse::Read;
  for (const ChunkPart& part : chunk_parts(job_, setup.program.shape, setup.program.stage)) {
    chunks_.push_back(std::make_unique<ModelChunk>(
        ModelChunkSetup{.shape = shape_, .part = part, .seed = job_.seed, .use = use}, groups_));
    std::size_t size = 0;
    for (const HeldUnit& unit : chunks_.back()->units()) {
      size += static_cast<std::size_t>(unit.stepped.size);
    }
    moments_.push_back({std::vector<float>(size, 0), std::vector<float>(size, 0)});
  }
}

TokenBatch RankModel::batch(const Task& task, int step) const {
  const TokenBatch whole = job_.tokens->batch(
      {.step = step,
       .micro_batch = coordinates_.data * job_.plan.num_micro_batches() + task.micro_batch.value});
  return local_tokens(shape_, coordinates_.context, whole);
}

RankModel::Outcome RankModel::run(const Task& task, int step, std::span<const float> message) {
  switch (task.kind) {
    case TaskKind::Forward:
      return forward(task, step, message);
    case TaskKind::Backward:
    case TaskKind::BackwardInput:
      return backward(task, step, message);
    case TaskKind::BackwardWeight:
      backward_weight(task, step, message);
      return {};
    case TaskKind::Recompute:
      return recompute(task, step, message);
  }
  MEGATWIN_ASSERT(false, "unknown task");
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
  const double loss = chunk.forward({.batch = batch(task, step),
                                     .gradient_scale = gradient_scale(),
                                     .input = message,
                                     .activation = saved,
                                     .workspace = workspace,
                                     .output = outcome.message});
  if (is_last) {
    outcome.loss = loss;
  }
  memory_.give_back(transient);
  if (side_ == model::PipelineSide::Forward) {
    if (job_.plan.decoupled.ship_activations) {
      outcome.crossing.assign(saved.begin(), saved.end());
    }
    memory_.give_back(activation);
  }
  return outcome;
}

// On the backward side the forward is run again, without a word to anybody, or what it kept is
// taken in.
RankModel::Outcome RankModel::recompute(const Task& task, int step,
                                        std::span<const float> message) {
  if (!job_.plan.decoupled.ship_activations) {
    forward(task, step, message);
    return {};
  }
  const std::span<float> saved = memory_.take(
      {BufferKind::Activation, task.chunk, task.micro_batch}, chunk_of(task).sizes().activation);
  MEGATWIN_ASSERT(saved.size() == message.size(), message.size(), " fed, ", saved.size(), " kept");
  std::copy(message.begin(), message.end(), saved.begin());
  return {};
}

// What the gradients of the weights need is made in the transient buffer. A whole backward uses it
// there; a split one moves it to where the activation may have been, a backward side sends it
// across.
RankModel::Outcome RankModel::backward(const Task& task, int step, std::span<const float> message) {
  ModelChunk& chunk = chunk_of(task);
  const BufferKey activation{BufferKind::Activation, task.chunk, task.micro_batch};
  const BufferKey transient{BufferKind::BackwardTransient, task.chunk, task.micro_batch};
  Workspace buffer(memory_.take(transient, backward_transient(chunk.sizes())));
  const std::span<float> gradient_input = buffer.take(chunk.sizes().gradient_input);
  Outcome outcome;
  outcome.message.resize(
      chunk.part().has_embedding ? 0 : static_cast<std::size_t>(shape_.message_size()));
  chunk.backward_input({.gradient_scale = gradient_scale(),
                        .input = message,
                        .activation = memory_.of(activation),
                        .gradient_input = gradient_input,
                        .workspace = buffer.rest(),
                        .output = outcome.message});
  if (task.kind == TaskKind::Backward) {
    chunk.backward_weight({batch(task, step), gradient_input, buffer.rest()});
  }
  memory_.give_back(transient);
  memory_.give_back(activation);
  if (task.kind == TaskKind::BackwardInput && side_ == model::PipelineSide::Backward) {
    outcome.crossing.assign(gradient_input.begin(), gradient_input.end());
    return outcome;
  }
  if (task.kind == TaskKind::BackwardInput) {
    const std::span<float> kept =
        memory_.take({BufferKind::WeightGradientInput, task.chunk, task.micro_batch},
                     chunk.sizes().gradient_input);
    // The two may overlap in the arena.
    std::memmove(kept.data(), gradient_input.data(), kept.size_bytes());
  }
  return outcome;
}

// On a forward side what it needs comes from the other one.
void RankModel::backward_weight(const Task& task, int step, std::span<const float> message) {
  const ModelChunkSizes& sizes = chunk_of(task).sizes();
  const BufferKey key{BufferKind::WeightGradientInput, task.chunk, task.micro_batch};
  const BufferKey transient{BufferKind::WeightTransient, task.chunk, task.micro_batch};
  if (side_ == model::PipelineSide::Forward) {
    const std::span<float> input = memory_.take(key, sizes.gradient_input);
    MEGATWIN_ASSERT(input.size() == message.size(), message.size(), " for ", input.size());
    std::copy(message.begin(), message.end(), input.begin());
  }
  const std::span<float> workspace = memory_.take(transient, sizes.weight_workspace);
  chunk_of(task).backward_weight({batch(task, step), memory_.of(key), workspace});
  memory_.give_back(transient);
  memory_.give_back(key);
}

void RankModel::step_optimizer(const OptimizerStep& arguments) {
  kernels::reference::AdamWSettings settings = job_.optimizer;
  if (job_.learning_rate_factor) {
    settings.learning_rate *= job_.learning_rate_factor(arguments.step);
  }
  for (std::size_t index = 0; index < chunks_.size(); ++index) {
    Layout layout;
    for (HeldUnit& unit : chunks_[index]->units()) {
      const Slice moments = layout.take(unit.stepped.size);
      kernels::reference::adamw_step(
          {.settings = settings,
           .step = arguments.step + 1,
           .gradient_scale = static_cast<float>(arguments.gradient_scale),
           .gradients = inside(unit.gradients_at, unit.stepped).of(unit.gradients),
           .parameters = inside(unit.weights_at, unit.stepped).of(unit.weights),
           .first_moment = moments.of(std::span<float>(moments_[index].first)),
           .second_moment = moments.of(std::span<float>(moments_[index].second))});
      std::fill(unit.gradients.begin(), unit.gradients.end(), 0.0F);
    }
  }
}

// Unit by unit: what is held of one may be a shard.
std::vector<ChunkState> RankModel::state(model::RankId rank) {
  std::vector<ChunkState> states;
  for (std::size_t index = 0; index < chunks_.size(); ++index) {
    Layout layout;
    for (const HeldUnit& unit : chunks_[index]->units()) {
      const Slice moments = layout.take(unit.stepped.size);
      states.push_back({.rank = rank,
                        .table = &chunks_[index]->table(),
                        .held = unit.weights_at,
                        .weights = unit.weights,
                        .stepped = unit.stepped,
                        .first_moment = moments.of(std::span<float>(moments_[index].first)),
                        .second_moment = moments.of(std::span<float>(moments_[index].second))});
    }
  }
  return states;
}

// Of ranks that hold the same whole parameter the first; with sharded steps replicas hold different
// parts.
bool RankModel::counts_for_norm(const HeldUnit& unit, const Parameter& parameter) const {
  const RankGroup& replicas = unit.experts ? groups_.expert_data : groups_.data;
  if (parameter.is_copy || (shape_.zero_stage == 0 && replicas.member() > 0)) {
    return false;
  }
  return unit.experts || !parameter.is_whole() || groups_.tensor.member() == 0;
}

std::optional<std::string> RankModel::gradient_not_finite() {
  for (const auto& chunk : chunks_) {
    for (const HeldUnit& unit : chunk->units()) {
      for (const Parameter& parameter : chunk->table().parameters) {
        const Slice places = common(parameter.place, unit.stepped);
        if (places.size == 0) {
          continue;
        }
        const auto gradients = inside(unit.gradients_at, places).of(unit.gradients);
        if (!std::all_of(gradients.begin(), gradients.end(),
                         [](float gradient) { return std::isfinite(gradient); })) {
          return parameter.name;
        }
      }
    }
  }
  return std::nullopt;
}

std::vector<RankModel::NormPart> RankModel::norm_parts() {
  std::vector<NormPart> parts;
  for (const auto& chunk : chunks_) {
    for (const HeldUnit& unit : chunk->units()) {
      for (const Parameter& parameter : chunk->table().parameters) {
        const Slice places = common(parameter.place, unit.stepped);
        if (places.size == 0 || !counts_for_norm(unit, parameter)) {
          continue;
        }
        const Slice held = inside(unit.gradients_at, places);
        double squares = 0;
        for (const float gradient : held.of(unit.gradients)) {
          squares += static_cast<double>(gradient) * gradient;
        }
        parts.push_back({parameter.name, squares});
      }
    }
  }
  return parts;
}

model::Bytes RankModel::state_bytes() const {
  std::size_t numbers = 0;
  for (std::size_t index = 0; index < chunks_.size(); ++index) {
    numbers += chunks_[index]->weights().size() + chunks_[index]->gradients().size() +
               moments_[index].first.size() + moments_[index].second.size();
  }
  return {static_cast<double>(numbers * sizeof(float))};
}

std::int64_t backward_transient(const ModelChunkSizes& sizes) {
  return sizes.gradient_input + std::max(sizes.backward_workspace, sizes.weight_workspace);
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
