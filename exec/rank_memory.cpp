#include "exec/rank_memory.h"

#include <algorithm>

namespace megatwin::exec {

RankMemory::RankMemory(const model::ArenaPlan& plan)
    : arena_(static_cast<std::size_t>(numbers_in(plan.high_water))) {
  for (const model::PlacedBuffer& buffer : plan.buffers) {
    planned_at_[{buffer.kind, buffer.chunk, buffer.micro_batch}] = {numbers_in(buffer.offset),
                                                                    numbers_in(buffer.size)};
  }
}

RankMemory::RankMemory(const SlotPoolPlan& plan) : pool_(plan), reserved_(plan.total()) {}

std::span<float> RankMemory::take(const BufferKey& key, std::int64_t size) {
  MEGATWIN_ASSERT(taken_.count(key) == 0, "buffer of chunk ", key.chunk.value, " micro-batch ",
                  key.micro_batch.value, " taken twice");
  const std::span<float> buffer = pool_ ? pool_->take(key, size) : place(key, size);
  live_ += bytes_of_numbers(size);
  live_max_ = std::max(live_max_, live_);
  return taken_[key] = buffer;
}

std::span<float> RankMemory::place(const BufferKey& key, std::int64_t size) {
  if (size == 0) {
    return {};
  }
  const auto found = planned_at_.find(key);
  MEGATWIN_ASSERT(found != planned_at_.end(), "a buffer that the plan does not know");
  const Slice& place = found->second;
  MEGATWIN_ASSERT(place.size == size, place.size, " planned, ", size, " taken");
  reserved_ = std::max(reserved_, bytes_of_numbers(place.offset + place.size));
  return place.of(std::span<float>(arena_));
}

std::span<float> RankMemory::of(const BufferKey& key) const {
  const auto found = taken_.find(key);
  MEGATWIN_ASSERT(found != taken_.end(), "buffer of chunk ", key.chunk.value, " micro-batch ",
                  key.micro_batch.value, " is not there");
  return found->second;
}

void RankMemory::give_back(const BufferKey& key) {
  live_ -= bytes_of_numbers(std::ssize(of(key)));
  taken_.erase(key);
  if (pool_) {
    pool_->give_back(key);
  }
}

}  // namespace megatwin::exec
