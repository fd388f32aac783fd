#include "exec/rank_memory.h"

#include <algorithm>

namespace megatwin::exec {
namespace {

constexpr std::int64_t kNumberSize = sizeof(float);

std::int64_t numbers_in(model::Bytes bytes) {
  const auto whole = static_cast<std::int64_t>(bytes.value);
  MEGATWIN_ASSERT(whole % kNumberSize == 0, whole, " bytes");
  return whole / kNumberSize;
}

model::Bytes bytes_of(std::int64_t numbers) { return {static_cast<double>(numbers * kNumberSize)}; }

}  // namespace

RankMemory::RankMemory(const model::ArenaPlan& plan)
    : planned_(true), arena_(static_cast<std::size_t>(numbers_in(plan.high_water))) {
  for (const model::PlacedBuffer& buffer : plan.buffers) {
    planned_at_[{buffer.kind, buffer.chunk, buffer.micro_batch}] = {numbers_in(buffer.offset),
                                                                    numbers_in(buffer.size)};
  }
}

std::span<float> RankMemory::take(const BufferKey& key, std::int64_t size) {
  MEGATWIN_ASSERT(taken_.count(key) == 0, "buffer of chunk ", key.chunk.value, " micro-batch ",
                  key.micro_batch.value, " taken twice");
  live_ += bytes_of(size);
  live_max_ = std::max(live_max_, live_);
  if (!planned_) {
    return taken_[key] = take_slot(key, static_cast<std::size_t>(size));
  }
  if (size == 0) {
    return taken_[key] = {};
  }
  const auto found = planned_at_.find(key);
  MEGATWIN_ASSERT(found != planned_at_.end(), "a buffer that the plan does not know");
  const Slice& place = found->second;
  MEGATWIN_ASSERT(place.size == size, place.size, " planned, ", size, " taken");
  high_water_ = std::max(high_water_, bytes_of(place.offset + place.size));
  return taken_[key] = place.of(std::span<float>(arena_));
}

std::span<float> RankMemory::take_slot(const BufferKey& key, std::size_t size) {
  auto& free = slots_[{key.kind, key.chunk}];
  if (free.empty()) {
    free.emplace_back(size);
    high_water_ += bytes_of(static_cast<std::int64_t>(size));
  }
  std::vector<float>& slot = slots_taken_[key] = std::move(free.back());
  free.pop_back();
  MEGATWIN_ASSERT(slot.size() == size, slot.size(), " in the slot, ", size, " taken");
  return slot;
}

std::span<float> RankMemory::of(const BufferKey& key) const {
  const auto found = taken_.find(key);
  MEGATWIN_ASSERT(found != taken_.end(), "buffer of chunk ", key.chunk.value, " micro-batch ",
                  key.micro_batch.value, " is not there");
  return found->second;
}

void RankMemory::give_back(const BufferKey& key) {
  live_ -= bytes_of(std::ssize(of(key)));
  taken_.erase(key);
  if (planned_) {
    return;
  }
  const auto slot = slots_taken_.find(key);
  slots_[{key.kind, key.chunk}].push_back(std::move(slot->second));
  slots_taken_.erase(slot);
}

}  // namespace megatwin::exec
