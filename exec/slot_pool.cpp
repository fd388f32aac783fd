#include "exec/slot_pool.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "policies/equal_memory.h"

namespace megatwin::exec {

using model::Bytes;

namespace {

bool is_held(model::BufferKind kind) {
  return kind == model::BufferKind::Activation || kind == model::BufferKind::WeightGradientInput;
}

bool splits_backwards(const model::Program& program) {
  return program.shape.last_kind() == model::TaskKind::BackwardWeight;
}

// How many activations of a chunk the bound lets be live, if there were no others. The Executor
// admits a forward while it fits beside what is held, of which each may have become the input of a
// weight gradient.
int live_max(const model::Program& program, const model::ChunkMemory& memory,
             const AdmissionBound& bound) {
  int most = program.shape.micro_batches;
  if (bound.live_activations > 0) most = std::min(most, bound.live_activations);
  const Bytes least = splits_backwards(program)
                          ? std::min(memory.activation, memory.weight_gradient_input)
                          : memory.activation;
  const Bytes beside = policies::room_of(program, bound.memory_limit) - memory.activation;
  if (beside < Bytes{0}) return 0;
  if (least > Bytes{0}) {
    const double fit = std::floor(ratio(beside / least)) + 1;
    if (fit < most) most = static_cast<int>(fit);
  }
  return most;
}

}  // namespace

Bytes SlotPoolPlan::total() const {
  Bytes sum = transient;
  for (const Slots& slots : held) sum += static_cast<double>(slots.count) * slots.size;
  return sum;
}

SlotPoolPlan plan_slot_pool(const model::Program& program, const model::StageCost& stage,
                            const AdmissionBound& bound) {
  SlotPoolPlan by_chunk;
  int live = 0;
  Bytes largest;
  for (std::size_t chunk = 0; chunk < stage.chunks.size(); ++chunk) {
    const model::ChunkMemory& memory = program.chunk_memory[chunk];
    const int count = live_max(program, memory, bound);
    by_chunk.held.push_back(
        {.count = count,
         .size = splits_backwards(program) ? policies::size_of_chunk(memory) : memory.activation});
    live += count;
    largest = std::max(largest, by_chunk.held.back().size);
    const model::ChunkCost& cost = stage.chunks[chunk];
    by_chunk.transient = std::max({by_chunk.transient, cost.forward_transient,
                                   cost.backward_transient, cost.weight_transient});
  }
  if (bound.live_activations > 0) live = std::min(live, bound.live_activations);
  const SlotPoolPlan for_all{.held = {{.count = live, .size = largest}},
                             .transient = by_chunk.transient};
  return for_all.total() < by_chunk.total() ? for_all : by_chunk;
}

SlotPool::SlotPool(const SlotPoolPlan& plan) {
  const auto shelf = [](const SlotPoolPlan::Slots& slots) {
    Shelf made{
        .slot_size = numbers_in(slots.size), .numbers = {}, .free = {}, .count = slots.count};
    made.numbers.resize(static_cast<std::size_t>(made.slot_size * slots.count));
    for (std::int32_t slot = slots.count; slot-- > 0;) made.free.push_back(slot);
    return made;
  };
  for (const SlotPoolPlan::Slots& slots : plan.held) held_.push_back(shelf(slots));
  transient_ = shelf({.count = 1, .size = plan.transient});
}

SlotPool::Shelf& SlotPool::shelf_of(const BufferKey& key) {
  if (!is_held(key.kind)) return transient_;
  return held_.size() == 1 ? held_.front() : held_[static_cast<std::size_t>(key.chunk.value)];
}

std::span<float> SlotPool::take(const BufferKey& key, std::int64_t size) {
  Shelf& shelf = shelf_of(key);
  if (shelf.free.empty()) {
    throw std::runtime_error("holds more than the " + std::to_string(shelf.count) +
                             (shelf.count == 1 ? " activation" : " activations") +
                             (held_.size() == 1 ? "" : " of a chunk") +
                             " that memory was set aside for before the step");
  }
  MEGATWIN_ASSERT(size <= shelf.slot_size, shelf.slot_size, " in the slot, ", size, " taken");
  const std::int32_t slot = shelf.free.back();
  shelf.free.pop_back();
  taken_[key] = slot;
  return Slice{slot * shelf.slot_size, size}.of(std::span<float>(shelf.numbers));
}

void SlotPool::give_back(const BufferKey& key) {
  const auto taken = taken_.find(key);
  MEGATWIN_ASSERT(taken != taken_.end(), "a slot that is not taken");
  shelf_of(key).free.push_back(taken->second);
  taken_.erase(taken);
}

}  // namespace megatwin::exec
