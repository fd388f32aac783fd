#include "policies/adaptive_pipeline.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "policies/dynamic_pipeline.h"

namespace megatwin::policies {

using model::Task;
using model::TaskKind;

namespace {

// Of the links' pressure; between the two the traversal stays.
constexpr int kPressureMax = 8;
constexpr int kLinksLate = 6;
constexpr int kLinksQuiet = 2;

// Activations of the largest size that fit between what is held throughout and the limit.
std::int64_t room_of(const Observation& observation, int live_activations_max) {
  const model::Program& program = observation.program;
  const auto all = static_cast<std::int64_t>(program.shape.tasks_per_phase());
  const std::int64_t room =
      live_activations_max > 0 ? std::min<std::int64_t>(live_activations_max, all) : all;
  model::Bytes largest{0};
  for (const model::ChunkMemory& memory : program.chunk_memory) {
    largest = std::max({largest, memory.activation, memory.weight_gradient_input});
  }
  const model::Bytes free = observation.memory_limit - program.fixed_memory;
  if (static_cast<double>(room) * largest <= free) {
    return room;
  }
  return static_cast<std::int64_t>(std::max(std::floor(ratio(free / largest)), 0.0));
}

bool no_slot_is_free(const Observation& observation) {
  for (std::size_t task = 0; task < observation.program.sends.size();
       task += static_cast<std::size_t>(observation.program.shape.micro_batches)) {
    const model::Message& message = observation.program.sends[task];
    if (message.exists() && observation.free_slots[message.channel] == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

void AdaptivePipelinePolicy::start_step(const Observation& observation) {
  const model::PipelineShape& shape = observation.program.shape;
  micro_batches_ = shape.micro_batches;
  chunks_ = shape.model_chunks;
  stages_ = shape.pipeline;
  stage_ = observation.program.stage.value;
  room_ = room_of(observation, options_.live_activations_max);
  slots_limited_ = observation.receive_slots > 0;
  progress_.assign(static_cast<std::size_t>(micro_batches_), {});
}

// Decides as late as it can: what is behind a task under way in the lane is not chosen yet.
std::optional<model::TaskId> AdaptivePipelinePolicy::pick(const Observation& observation) {
  if (progress_.empty()) {
    start_step(observation);
  }
  if (observation.in_flight > 0) {
    return std::nullopt;
  }
  switch_traversal(observation);
  const std::optional<model::TaskId> best = best_of(observation);
  if (!best) {
    pressure_ = std::min(pressure_ + 1, kPressureMax);
    return std::nullopt;
  }
  keep(observation, observation.program.tasks[static_cast<std::size_t>(best->value)]);
  return best;
}

void AdaptivePipelinePolicy::switch_traversal(const Observation& observation) {
  if (slots_limited_) {
    const int change = no_slot_is_free(observation) ? 1 : -1;
    pressure_ = std::clamp(pressure_ + change, 0, kPressureMax);
  } else if (pressure_ > 0 && held_ > 0) {
    --pressure_;
  }
  const bool memory_is_short = held_ + chunks_ > room_;
  const bool memory_is_free = 2 * held_ <= room_;
  if (traversal_ == Traversal::Breadth) {
    const bool links_decide = pressure_ > kLinksQuiet;
    if (memory_is_short && !links_decide) traversal_ = Traversal::Depth;
    return;
  }
  if (memory_is_free || (pressure_ >= kLinksLate && !memory_is_short)) {
    traversal_ = Traversal::Breadth;
  }
}

// Interleaved 1F1B in blocks of G holds up to (v−1)·G + 2·(p−1−stage) + 1 activations.
std::int32_t AdaptivePipelinePolicy::next_block_size() const {
  const std::int64_t others = chunks_ - 1;
  if (!memory_is_bounded()) {
    return micro_batches_;
  }
  if (others * stages_ + 2 * (stages_ - 1 - stage_) + 1 > room_) {
    return 1;
  }
  const std::int64_t widest =
      others == 0 ? micro_batches_ : (room_ - 1 - 2 * (stages_ - 1)) / others;
  const bool breadth = traversal_ == Traversal::Breadth;
  const std::int64_t size = breadth ? widest : std::min<std::int64_t>(stages_, widest);
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(size, 1, micro_batches_));
}

// The block of a micro-batch; of those behind all that were begun, the next one as it would be.
AdaptivePipelinePolicy::Block AdaptivePipelinePolicy::block_of(std::int32_t micro_batch) const {
  for (const Block& block : blocks_) {
    if (micro_batch < block.end) {
      return block;
    }
  }
  const std::int32_t first = blocks_.empty() ? oldest_ : blocks_.back().end;
  return {first, std::min(first + next_block_size(), micro_batches_)};
}

std::optional<model::TaskId> AdaptivePipelinePolicy::best_of(const Observation& observation) const {
  using Key = std::tuple<int, std::int32_t, std::int32_t, std::int32_t>;
  const auto key_of = [&](const Task& task) {
    const bool forward = task.kind == TaskKind::Forward;
    const int urgency = carries_gradient(task.kind) ? 1 : forward ? (after_gradient_ ? 0 : 2) : 3;
    const std::int32_t position = forward ? task.chunk.value : chunks_ - 1 - task.chunk.value;
    return Key{urgency, block_of(task.micro_batch.value).first, position, task.micro_batch.value};
  };
  std::optional<model::TaskId> best;
  Key best_key;
  for (const model::TaskId id : observation.ready) {
    const Task& task = observation.program.tasks[static_cast<std::size_t>(id.value)];
    if (task.kind == TaskKind::Forward && !may_run(task)) {
      continue;
    }
    const Key key = key_of(task);
    if (!best || key < best_key) {
      best = id;
      best_key = key;
    }
  }
  return best;
}

bool AdaptivePipelinePolicy::may_run(const Task& forward) const {
  const std::int32_t micro_batch = forward.micro_batch.value;
  if (slots_limited_) {
    const std::int64_t reserved = static_cast<std::int64_t>(entered_) * chunks_;
    return forward.chunk.value > 0 || entered_ == 0 || reserved + chunks_ <= room_;
  }
  if (micro_batch == oldest_) {
    return true;
  }
  if (micro_batch >= block_of(micro_batch).end || !is_safe(micro_batch)) {
    return false;
  }
  if (memory_is_bounded() && next_block_size() == 1 && chunks_ > 1) {
    const bool enters = forward.chunk.value == 0;
    return !enters || (entered_ + 1) * (chunks_ + 1) <= 2 * room_;
  }
  return !memory_is_bounded() || held_ + 1 + overtaken_by(forward) <= room_;
}

// Whether all micro-batches, the oldest first, can be finished in the room that is left when
// `micro_batch` has begun one more chunk.
bool AdaptivePipelinePolicy::is_safe(std::int32_t micro_batch) const {
  std::int64_t free = room_ - held_ - 1;
  for (std::int32_t other = oldest_; other <= micro_batch; ++other) {
    const Progress& done = progress(other);
    const std::int32_t begun = done.forwards + (other == micro_batch ? 1 : 0);
    if (chunks_ - begun > free) {
      return false;
    }
    free += begun - done.finished;
  }
  return true;
}

// Forwards before this one in the order that is striven for, and not picked yet.
std::int64_t AdaptivePipelinePolicy::overtaken_by(const Task& forward) const {
  const std::int32_t micro_batch = forward.micro_batch.value;
  const std::int32_t chunk = forward.chunk.value;
  const Block block = block_of(micro_batch);
  std::int64_t before = 0;
  for (std::int32_t other = oldest_; other < block.first; ++other) {
    before += chunks_ - progress(other).forwards;
  }
  for (std::int32_t other = block.first; other < block.end; ++other) {
    const std::int32_t due = chunk + (other < micro_batch ? 1 : 0);
    before += std::max(due - progress(other).forwards, 0);
  }
  return before;
}

void AdaptivePipelinePolicy::keep(const Observation& observation, const Task& task) {
  const std::int32_t micro_batch = task.micro_batch.value;
  after_gradient_ = carries_gradient(task.kind);
  if (task.kind == TaskKind::Forward) {
    if (blocks_.empty() || micro_batch >= blocks_.back().end) {
      blocks_.push_back(block_of(micro_batch));
    }
    entered_ += progress(micro_batch).forwards == 0 ? 1 : 0;
    ++progress(micro_batch).forwards;
    ++held_;
  }
  if (task.kind != observation.program.shape.last_kind()) {
    return;
  }
  --held_;
  if (++progress(micro_batch).finished == chunks_) {
    --entered_;
  }
  while (oldest_ < micro_batches_ && progress(oldest_).finished == chunks_) {
    ++oldest_;
  }
  if (oldest_ == micro_batches_) {
    *this = AdaptivePipelinePolicy(options_);  // Nothing is kept for the next step.
    return;
  }
  const auto is_over = [&](const Block& block) { return block.end <= oldest_; };
  blocks_.erase(blocks_.begin(), std::find_if_not(blocks_.begin(), blocks_.end(), is_over));
}

// Of each micro-batch from the oldest to the last that was begun: forwards/finished.
std::string AdaptivePipelinePolicy::state_line() const {
  std::string line =
      traversal_ == Traversal::Breadth ? "dpp adaptive breadth" : "dpp adaptive depth";
  line += " room=" + std::to_string(room_) + " pressure=" + std::to_string(pressure_) +
          (after_gradient_ ? " after gradient" : "");
  for (const Block& block : blocks_) {
    line += " [" + std::to_string(block.first) + "," + std::to_string(block.end) + ")";
  }
  for (std::int32_t micro_batch = oldest_; micro_batch < micro_batches_; ++micro_batch) {
    const Progress& done = progress(micro_batch);
    if (done.forwards > 0) {
      line += " " + std::to_string(micro_batch) + ":" + std::to_string(done.forwards) + "/" +
              std::to_string(done.finished);
    }
  }
  return line;
}

PolicyFactory adaptive_pipeline_factory(const AdaptivePipelineOptions& options) {
  return [options](const model::Program&, model::RankId) {
    return std::make_unique<AdaptivePipelinePolicy>(options);
  };
}

}  // namespace megatwin::policies
