#include "policies/adaptive_pipeline.h"

#include <algorithm>
#include <numeric>
#include <string_view>
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

std::string_view AdaptivePipelinePolicy::name_of(Rule rule) {
  switch (rule) {
    case Rule::Overtaking:
      return "overtaking";
    case Rule::InOrder:
      return "in-order";
    case Rule::ByCredits:
      return "by-credits";
    case Rule::WholeMicroBatches:
      return "whole-micro-batches";
  }
  return "";
}

void AdaptivePipelinePolicy::start_step(const Observation& observation) {
  const model::PipelineShape& shape = observation.program.shape;
  micro_batches_ = shape.micro_batches;
  chunks_ = shape.model_chunks;
  stages_ = shape.pipeline;
  stage_ = observation.program.stage.value;
  progress_.assign(static_cast<std::size_t>(micro_batches_), {});
  measure_memory(observation);
  choose_rule(observation);
}

// Rules and blocks must be the same on all ranks, so they follow from what all can count on; of a
// rank that is told nothing, as if the others were like it.
void AdaptivePipelinePolicy::choose_rule(const Observation& observation) {
  EqualMemory shared = options_.equal_memory;
  if (shared.micro_batches > 0 && bounds_ == Bounds::Both) {
    const int counted = std::max(options_.live_activations_max / chunks_, 1);
    shared = {.micro_batches = std::min(shared.micro_batches, counted), .block_width = 1};
  } else if (shared.micro_batches == 0 || bounds_ == Bounds::Count) {
    const BatchMemory own = memory_as_of(0);
    shared = {.micro_batches = std::max(own.whole_micro_batches(), 1),
              .block_width = widest_blocks({own})};
  }
  entered_max_ = shared.micro_batches;
  ahead_max_ = std::max(stages_, entered_max_) - stage_;
  deep_ = std::min(shared.block_width, micro_batches_);
  broad_ = std::min(2 * stages_, micro_batches_);
  if (observation.receive_slots > 0) {
    keep_to_slots(observation, shared.micro_batches < micro_batches_);
  } else if (one_at_a_time_) {
    rule_ = Rule::WholeMicroBatches;
    entered_max_ = 1;
  } else if (memory_is_bounded()) {
    broad_ = std::clamp(widest_block(), deep_, broad_);
  }
}

// Under a bound by count and one by bytes, of which ranks cannot see each other's, whole
// micro-batches go: no more are under way than the first rank has let in, which is what every rank
// can hold. With one slot, link and task work in turn, so that no traversal outruns a slow link: it
// is as in depth always, where interleaved 1F1B has an order for the batch with no more held than
// that.
void AdaptivePipelinePolicy::keep_to_slots(const Observation& observation, bool memory_is_short) {
  const bool one_slot = observation.receive_slots == 1;
  if ((options_.equal_memory.micro_batches > 0 && bounds_ == Bounds::Both) ||
      observation.program.shape.placement == model::ChunkPlacement::Fold) {
    rule_ = Rule::WholeMicroBatches;
  } else {
    rule_ = memory_is_short || one_slot ? Rule::InOrder : Rule::ByCredits;
  }
  links_switch_ = rule_ == Rule::ByCredits || (rule_ == Rule::InOrder && one_slot);
  if (rule_ != Rule::ByCredits) broad_ = deep_;
  if (!links_switch_) traversal_ = Traversal::Depth;
  if (memory_is_short || rule_ == Rule::WholeMicroBatches) {
    return;
  }
  sizes_.assign(sizes_.size(), 1);  // In activations, which are equally many on all ranks.
  micro_batch_size_ = chunks_;
  room_ = std::int64_t{micro_batches_} * chunks_;
  depth_room_ = std::min(room_, held_by_blocks(memory_as_of(0), deep_, 2 * (stages_ - 1)));
  overtakes_in_slots_ = one_slot;
  if (one_slot && is_order_of_interleaved()) room_ = depth_room_;
}

BatchMemory AdaptivePipelinePolicy::memory_as_of(std::int32_t stage) const {
  return {.sizes = sizes_,
          .room = room_,
          .micro_batches = micro_batches_,
          .stages = stages_,
          .stage = stage};
}

// Whole bytes, so that sums do not depend on their order.
void AdaptivePipelinePolicy::measure_memory(const Observation& observation) {
  const model::Program& program = observation.program;
  sizes_ = sizes_of_chunks(program);
  room_ = static_cast<std::int64_t>(room_of(program, observation.memory_limit).value);
  bounds_ = bounds();
  if (bounds_ != Bounds::Bytes) {
    bound_activations(options_.live_activations_max);
  }
  micro_batch_size_ = std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0});
}

// A number that memory, or the batch, does not reach anyway bounds nothing.
AdaptivePipelinePolicy::Bounds AdaptivePipelinePolicy::bounds() const {
  const int most = options_.live_activations_max;
  const EqualMemory& shared = options_.equal_memory;
  const bool is_known = shared.micro_batches > 0;
  const BatchMemory own = memory_as_of(0);
  if (most == 0 || most >= (is_known ? shared.activations_max : own.activations_max())) {
    return Bounds::Bytes;
  }
  const std::int64_t fit = is_known ? shared.activations_fit : own.activations_fit();
  return most <= fit ? Bounds::Count : Bounds::Both;
}

// Counts in activations, the same in every world, where memory has room for so many. Else each
// counts at least as its share of the room, and when that leaves no micro-batch any room they go
// one at a time.
void AdaptivePipelinePolicy::bound_activations(std::int64_t most) {
  if (bounds_ == Bounds::Both) {
    for (std::int64_t& size : sizes_) size = std::max(size, (room_ + most - 1) / most);
    if (std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0}) <= room_) return;
  }
  one_at_a_time_ = bounds_ == Bounds::Both;
  std::fill(sizes_.begin(), sizes_.end(), 1);
  room_ = one_at_a_time_ ? chunks_ : most;
}

// As the first stage would have it, since blocks should be alike on all.
std::int32_t AdaptivePipelinePolicy::widest_block() const {
  std::int32_t fits = 1;
  std::int32_t above = micro_batches_ + 1;
  while (fits + 1 < above) {
    const std::int32_t size = (fits + above) / 2;
    (held_by_blocks(memory_as_of(0), size, 2 * (stages_ - 1)) <= room_ ? fits : above) = size;
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
  if (links_switch_) {
    switch_by_credits();
  } else if (rule_ == Rule::Overtaking) {
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
  const bool memory_is_short = memory_is_bounded() && held_ + micro_batch_size_ > room_;
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

// As in 1F1B and its interleaved form; with whole micro-batches after each gradient.
bool AdaptivePipelinePolicy::is_turn_of_forwards() const {
  if (rule_ == Rule::WholeMicroBatches) {
    return after_gradient_;
  }
  return ahead_ <= forwards_ahead();
}

std::int32_t AdaptivePipelinePolicy::forwards_ahead() const {
  const std::int32_t stages_behind = stages_ - 1 - stage_;
  return chunks_ == 1 ? stages_behind : 2 * stages_behind + (chunks_ - 1) * next_block_size();
}

std::int32_t AdaptivePipelinePolicy::next_block_size() const {
  return traversal_ == Traversal::Breadth ? broad_ : deep_;
}

// The block of a micro-batch; of those behind all that were begun, the next one as it would be.
// What is over when the batch is divided goes first: a narrow block leaves gaps, which the next one
// fills.
AdaptivePipelinePolicy::Block AdaptivePipelinePolicy::block_of(std::int32_t micro_batch) const {
  if (rule_ != Rule::Overtaking) {
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
  const std::int32_t width = next_block_size();
  if (rule_ == Rule::InOrder && !overtakes_in_slots_) {
    const EqualBlocks blocks(micro_batches_, width);
    const std::int32_t n = blocks.block_of(micro_batch);
    return {blocks.begin(n), blocks.begin(n + 1)};
  }
  const std::int32_t over = micro_batches_ % width;
  if (micro_batch < over) {
    return {0, over};
  }
  const std::int32_t first = micro_batch - (micro_batch - over) % width;
  return {first, first + width};
}

std::optional<model::TaskId> AdaptivePipelinePolicy::best_of(const Observation& observation) const {
  using Key = std::tuple<int, std::int32_t, std::int32_t, std::int32_t>;
  const bool forwards_turn = is_turn_of_forwards() && !messages_wait_;
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
    case Rule::Overtaking:
      return !runs_too_far_ahead() && fits(forward);
    case Rule::WholeMicroBatches:
      return forward.chunk.value > 0 || entered_ < entered_max_;
    case Rule::InOrder:
      return !runs_too_far_ahead() && is_in_order(forward);
    case Rule::ByCredits:
      return traversal_ == Traversal::Breadth || !enters_pipeline(forward) ||
             held_ + size_of(forward.chunk.value) <= depth_room_;
  }
  return false;
}

// All ranks take forwards in the same order, so that no message lies in a slot before its turn.
// Only with memory for all may one be overtaken, if there is room for everything that comes before
// the last chunk of the one that overtakes; what has not entered yet then waits while messages do.
bool AdaptivePipelinePolicy::is_in_order(const Task& forward) const {
  if (is_next(forward)) {
    return !waits_for_turn(forward) &&
           (forward.micro_batch.value == oldest_ || held_ + size_of(forward.chunk.value) <= room_);
  }
  if (!overtakes_in_slots_ || (enters_pipeline(forward) && messages_wait_)) {
    return false;
  }
  const Task last{TaskKind::Forward, forward.micro_batch, {chunks_ - 1}};
  return held_ + overtaken_by(last) + sizes_.back() <= room_;
}

// Whether every forward before it in the order that is striven for has been picked.
bool AdaptivePipelinePolicy::is_next(const Task& forward) const {
  const Block block = block_of(forward.micro_batch.value);
  for (std::int32_t other = oldest_; other < block.end; ++other) {
    const std::int32_t before = other < block.first                 ? chunks_
                                : other < forward.micro_batch.value ? forward.chunk.value + 1
                                                                    : forward.chunk.value;
    if (progress(other).forwards < before) {
      return false;
    }
  }
  return true;
}

// While links are full, a micro-batch enters a rank when interleaved 1F1B would let it, if that has
// an order for the batch: what runs ahead of that fills the link before what others wait for.
bool AdaptivePipelinePolicy::waits_for_turn(const Task& forward) const {
  if (!links_switch_ || traversal_ != Traversal::Depth || forward.chunk.value > 0 || chunks_ == 1 ||
      !is_order_of_interleaved()) {
    return false;
  }
  const std::int32_t first = block_of(forward.micro_batch.value).first;
  return first * chunks_ + forward.micro_batch.value - first > gradients_ + forwards_ahead();
}

// With one chunk a rank and short memory: what the first rank lets in is all that there is, and a
// forward that runs ahead makes a gradient wait that would let in more.
bool AdaptivePipelinePolicy::runs_too_far_ahead() const {
  return chunks_ == 1 && memory_is_bounded() && ahead_ >= ahead_max_;
}

bool AdaptivePipelinePolicy::fits(const Task& forward) const {
  const std::int32_t micro_batch = forward.micro_batch.value;
  if (micro_batch == oldest_) {
    return true;
  }
  if (micro_batch >= block_of(micro_batch).end || !is_safe(forward)) {
    return false;
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
  gradients_ += after_gradient_ ? 1 : 0;
  ahead_ += task.kind == TaskKind::Forward ? 1 : carries_gradient(task.kind) ? -1 : 0;
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

// What follows from the program and the options first, since ranks that were told otherwise decide
// otherwise. Of each micro-batch from the oldest to the last that was begun:
// forwards/finished/held.
std::string AdaptivePipelinePolicy::state_line() const {
  std::string line =
      traversal_ == Traversal::Breadth ? "dpp adaptive breadth" : "dpp adaptive depth";
  const auto add = [&](std::string_view name, std::int64_t value) {
    line += ' ';
    line += name;
    line += '=' + std::to_string(value);
  };
  line += ' ';
  line += name_of(rule_);
  line += links_switch_ ? " by links" : "";
  line += overtakes_in_slots_ ? " with overtaking" : "";
  add("blocks", broad_);
  line += '/' + std::to_string(deep_);
  add("room", room_);
  line += '/' + std::to_string(micro_batch_size_);
  add("depth-room", depth_room_);
  add("entered-max", entered_max_);
  add("ahead-max", ahead_max_);
  add("pressure", pressure_);
  add("gradients", gradients_);
  add("ahead", ahead_);
  add("oldest", oldest_);
  line += after_gradient_ ? " after gradient" : "";
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
