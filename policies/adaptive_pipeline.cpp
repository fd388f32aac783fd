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
constexpr int kLinksFull = 6;
constexpr int kLinksFree = 2;

// Whether what a forward sent waits for a slot at the receiver.
bool forwards_wait(const Observation& observation) {
  const model::Program& program = observation.program;
  const auto row = static_cast<std::size_t>(program.shape.micro_batches);
  for (std::size_t task = 0; task < row * static_cast<std::size_t>(program.shape.model_chunks);
       task += row) {
    const model::Message& message = program.sends[task];
    if (message.exists() && observation.free_slots[message.channel] < 0) return true;
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
  progress_.assign(static_cast<std::size_t>(micro_batches_), {});
  measure_memory(observation);
  widest_ = micro_batches_;
  smallest_fits_ = true;
  if (memory_is_bounded()) {
    widest_ = widest_block();
    smallest_fits_ = held_by_blocks(stages_, 2 * (stages_ - 1 - stage_)) <= room_;
  }
  if (observation.receive_slots > 0) {
    keep_to_slots(observation.receive_slots, shape.placement);
  }
}

// A slot is free again when the task that takes its message is done. With one, link and task work
// in turn, which is slower than tasks alone: such links are always full.
void AdaptivePipelinePolicy::keep_to_slots(int slots, model::ChunkPlacement placement) {
  if (placement == model::ChunkPlacement::Fold) {
    rule_ = Rule::WholeMicroBatches;
    return;
  }
  rule_ = memory_is_bounded() || slots == 1 ? Rule::InOrder : Rule::ByCredits;
  if (!memory_is_bounded()) {
    sizes_.assign(sizes_.size(), 1);  // In activations, which are equally many on all ranks.
    room_ = std::int64_t{micro_batches_} * chunks_;
  }
  // One byte at least, so that whether something is overtaken can be seen by its size.
  for (std::int64_t& size : sizes_) size = std::max<std::int64_t>(size, 1);
  sum_up_sizes();
  const std::int32_t width = std::min(stages_, micro_batches_);
  depth_room_ = std::min(room_, held_by_blocks(width, 2 * (stages_ - 1)));
  if (slots == 1) room_ = depth_room_;
  traversal_ = rule_ == Rule::InOrder ? Traversal::Depth : Traversal::Breadth;
  const std::int64_t before_last = micro_batch_size_ - sizes_.back();
  const std::int64_t fit = before_last == 0 ? width : (room_ - sizes_.back()) / before_last;
  depth_width_ = static_cast<std::int32_t>(std::clamp<std::int64_t>(fit, 1, width));
}

// Whole bytes, so that sums do not depend on their order.
void AdaptivePipelinePolicy::measure_memory(const Observation& observation) {
  const model::Program& program = observation.program;
  if (!options_.equal_memory.sizes.empty() && observation.receive_slots > 0) {
    sizes_ = options_.equal_memory.sizes;
    room_ = options_.equal_memory.room;
  } else {
    sizes_.clear();
    for (const model::ChunkMemory& memory : program.chunk_memory) {
      sizes_.push_back(static_cast<std::int64_t>(std::ceil(size_of_chunk(memory).value)));
    }
    room_ = static_cast<std::int64_t>(room_of(program, observation.memory_limit).value);
  }
  sum_up_sizes();
  if (options_.live_activations_max > 0) {
    bound_activations(options_.live_activations_max);
  }
}

// Counts in activations, the same in every world. Where memory has no room for so many of the
// largest, each counts at least as its share of the room, and when that leaves no micro-batch any
// room they go one at a time.
void AdaptivePipelinePolicy::bound_activations(std::int64_t most) {
  const std::int64_t largest = *std::max_element(sizes_.begin(), sizes_.end());
  const bool all_fit = largest <= room_ / most;
  if (!all_fit) {
    for (std::int64_t& size : sizes_) size = std::max(size, (room_ + most - 1) / most);
    sum_up_sizes();
    if (micro_batch_size_ <= room_) return;
  }
  std::fill(sizes_.begin(), sizes_.end(), 1);
  room_ = all_fit ? most : chunks_;
  sum_up_sizes();
}

void AdaptivePipelinePolicy::sum_up_sizes() {
  micro_batch_size_ = 0;
  held_while_passing_ = 0;
  for (const std::int64_t size : sizes_) {
    micro_batch_size_ += size;
    held_while_passing_ += micro_batch_size_;
  }
}

// What is held at most when blocks of `size` go as in interleaved 1F1B: (v−1)·size + lead forwards,
// then forwards and backwards in turn.
std::int64_t AdaptivePipelinePolicy::held_by_blocks(std::int32_t size, std::int32_t lead) const {
  const auto chunks = static_cast<std::size_t>(chunks_);
  std::vector<std::int64_t> forwards;
  std::vector<std::int64_t> backwards;
  for (std::int32_t first = 0; first < micro_batches_; first += size) {
    const auto width = static_cast<std::size_t>(std::min(size, micro_batches_ - first));
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      forwards.insert(forwards.end(), width, sizes_[chunk]);
      backwards.insert(backwards.end(), width, sizes_[chunks - 1 - chunk]);
    }
  }
  const std::int64_t ahead = std::int64_t{chunks_ - 1} * size + lead;
  std::int64_t held = 0;
  std::int64_t most = 0;
  for (std::int64_t n = 0; n < std::ssize(forwards); ++n) {
    held += forwards[static_cast<std::size_t>(n)];
    held -= n > ahead ? backwards[static_cast<std::size_t>(n - ahead - 1)] : 0;
    most = std::max(most, held);
  }
  return most;
}

// As the first stage would have it, since blocks should be alike on all.
std::int32_t AdaptivePipelinePolicy::widest_block() const {
  std::int32_t fits = 1;
  std::int32_t above = micro_batches_ + 1;
  while (fits + 1 < above) {
    const std::int32_t size = (fits + above) / 2;
    (held_by_blocks(size, 2 * (stages_ - 1)) <= room_ ? fits : above) = size;
  }
  return fits;
}

// Decides as late as it can: what is behind a task under way in the lane is not chosen yet.
std::optional<model::TaskId> AdaptivePipelinePolicy::pick(const Observation& observation) {
  if (progress_.empty()) {
    start_step(observation);
  }
  if (observation.in_flight > 0) {
    return std::nullopt;
  }
  messages_wait_ = observation.receive_slots > 0 && forwards_wait(observation);
  if (rule_ == Rule::ByCredits) {
    switch_by_credits();
  } else if (rule_ != Rule::InOrder) {
    switch_by_memory();
  }
  const std::optional<model::TaskId> best = best_of(observation);
  if (!best) {
    return std::nullopt;
  }
  keep(observation, observation.program.tasks[static_cast<std::size_t>(best->value)]);
  return best;
}

void AdaptivePipelinePolicy::switch_by_memory() {
  const bool memory_is_short = held_ + micro_batch_size_ > room_;
  const bool memory_is_free = 2 * held_ <= room_;
  if (traversal_ == Traversal::Breadth) {
    if (memory_is_short) traversal_ = Traversal::Depth;
  } else if (memory_is_free) {
    traversal_ = Traversal::Breadth;
  }
}

void AdaptivePipelinePolicy::switch_by_credits() {
  pressure_ = std::clamp(pressure_ + (messages_wait_ ? 1 : -1), 0, kPressureMax);
  if (pressure_ >= kLinksFull) traversal_ = Traversal::Depth;
  if (pressure_ <= kLinksFree) traversal_ = Traversal::Breadth;
}

std::int32_t AdaptivePipelinePolicy::next_block_size() const {
  if (!smallest_fits_) {
    return 1;
  }
  return traversal_ == Traversal::Breadth ? widest_ : std::min(stages_, widest_);
}

// The block of a micro-batch; of those behind all that were begun, the next one as it would be.
// What is over when the batch is divided goes first: a narrow block leaves gaps, which the next one
// fills.
AdaptivePipelinePolicy::Block AdaptivePipelinePolicy::block_of(std::int32_t micro_batch) const {
  if (rule_ == Rule::InOrder || rule_ == Rule::ByCredits) {
    return fixed_block_of(micro_batch);
  }
  for (const Block& block : blocks_) {
    if (micro_batch < block.end) {
      return block;
    }
  }
  const std::int32_t first = blocks_.empty() ? oldest_ : blocks_.back().end;
  const std::int32_t size = next_block_size();
  const std::int32_t over = first == 0 ? micro_batches_ % size : 0;
  return {first, std::min(first + (over > 0 ? over : size), micro_batches_)};
}

// The same on all ranks in depth, so that they agree on an order.
AdaptivePipelinePolicy::Block AdaptivePipelinePolicy::fixed_block_of(
    std::int32_t micro_batch) const {
  const std::int32_t width = traversal_ == Traversal::Breadth ? micro_batches_ : depth_width_;
  const std::int32_t over = micro_batches_ % width;
  if (micro_batch < over) {
    return {0, over};
  }
  const std::int32_t first = micro_batch - (micro_batch - over) % width;
  return {first, first + width};
}

std::optional<model::TaskId> AdaptivePipelinePolicy::best_of(const Observation& observation) const {
  using Key = std::tuple<int, std::int32_t, std::int32_t, std::int32_t>;
  const bool forwards_turn = after_gradient_ && !messages_wait_;
  const auto key_of = [&](const Task& task) {
    const bool forward = task.kind == TaskKind::Forward;
    const int urgency = carries_gradient(task.kind) ? 1 : forward ? (forwards_turn ? 0 : 2) : 3;
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
  switch (rule_) {
    case Rule::ByMemory:
      return fits(forward);
    case Rule::WholeMicroBatches:
      return forward.chunk.value > 0 || entered_ == 0 ||
             (entered_ + 1) * micro_batch_size_ <= room_;
    case Rule::InOrder:
      return is_in_order(forward, room_);
    case Rule::ByCredits:
      return traversal_ == Traversal::Breadth || !enters_pipeline(forward) ||
             is_in_order(forward, depth_room_);
  }
  return false;
}

// A forward may be overtaken if there is room for all that comes before the last chunk of the one
// that overtakes: no rank has then to leave it in a slot where it keeps out what it has overtaken.
// What has not entered yet waits while messages do.
bool AdaptivePipelinePolicy::is_in_order(const Task& forward, std::int64_t room) const {
  if (overtaken_by(forward) == 0) {
    return forward.micro_batch.value == oldest_ || held_ + size_of(forward.chunk.value) <= room;
  }
  if (enters_pipeline(forward) && messages_wait_) {
    return false;
  }
  const Task last{TaskKind::Forward, forward.micro_batch, {chunks_ - 1}};
  return held_ + overtaken_by(last) + sizes_.back() <= room;
}

bool AdaptivePipelinePolicy::fits(const Task& forward) const {
  const std::int32_t micro_batch = forward.micro_batch.value;
  if (micro_batch == oldest_) {
    return true;
  }
  if (micro_batch >= block_of(micro_batch).end || !is_safe(forward)) {
    return false;
  }
  if (memory_is_bounded() && next_block_size() == 1 && chunks_ > 1) {
    const bool enters = forward.chunk.value == 0;
    return !enters || (entered_ + 1) * held_while_passing_ <= chunks_ * room_;
  }
  return !memory_is_bounded() ||
         held_ + size_of(forward.chunk.value) + overtaken_by(forward) <= room_;
}

// Whether all micro-batches, the oldest first, can be finished in the room that is left when
// `forward` has run.
bool AdaptivePipelinePolicy::is_safe(const Task& forward) const {
  const std::int64_t size = size_of(forward.chunk.value);
  std::int64_t free = room_ - held_ - size;
  for (std::int32_t other = oldest_; other <= forward.micro_batch.value; ++other) {
    const std::int64_t begun = other == forward.micro_batch.value ? size : 0;
    if (still_to_come(other) - begun > free) {
      return false;
    }
    free += progress(other).held + begun;
  }
  return true;
}

// Of the forwards of a micro-batch up to chunk `end` that are not picked yet.
std::int64_t AdaptivePipelinePolicy::still_to_come(std::int32_t micro_batch,
                                                   std::int32_t end) const {
  std::int64_t sum = 0;
  for (std::int32_t chunk = progress(micro_batch).forwards; chunk < end; ++chunk) {
    sum += size_of(chunk);
  }
  return sum;
}

// Forwards before this one in the order that is striven for, and not picked yet.
std::int64_t AdaptivePipelinePolicy::overtaken_by(const Task& forward) const {
  const std::int32_t micro_batch = forward.micro_batch.value;
  const std::int32_t chunk = forward.chunk.value;
  const Block block = block_of(micro_batch);
  std::int64_t before = 0;
  for (std::int32_t other = oldest_; other < block.first; ++other) {
    before += still_to_come(other);
  }
  for (std::int32_t other = block.first; other < block.end; ++other) {
    before += still_to_come(other, chunk + (other < micro_batch ? 1 : 0));
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
    progress(micro_batch).held += size_of(task.chunk.value);
    held_ += size_of(task.chunk.value);
  }
  if (task.kind != observation.program.shape.last_kind()) {
    return;
  }
  progress(micro_batch).held -= size_of(task.chunk.value);
  held_ -= size_of(task.chunk.value);
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

// Of each micro-batch from the oldest to the last that was begun: forwards/finished/held.
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
              std::to_string(done.finished) + "/" + std::to_string(done.held);
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
