// The activation memory of one rank, all of it set aside before the first step. With the plan of an
// order, one arena in which every buffer lies where the memory planner put it; for orders that
// nobody knows beforehand a pool of slots. Both count what is live.
#ifndef MEGATWIN_EXEC_RANK_MEMORY_H_
#define MEGATWIN_EXEC_RANK_MEMORY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "exec/buffer_key.h"
#include "exec/slice.h"
#include "exec/slot_pool.h"
#include "model/program/memory_planner.h"
#include "model/units.h"

namespace megatwin::exec {

class RankMemory {
 public:
  explicit RankMemory(const model::ArenaPlan& plan);
  explicit RankMemory(const SlotPoolPlan& plan);

  // `size` numbers of 4 bytes, with what was there before. Errors: throws std::runtime_error when
  // the pool is used up. Requires: not taken; with an arena, what the plan says.
  std::span<float> take(const BufferKey& key, std::int64_t size);
  std::span<float> of(const BufferKey& key) const;
  // The numbers stay until something else is taken.
  void give_back(const BufferKey& key);

  model::Bytes live_max() const { return live_max_; }
  // Of the arena the end of the highest buffer that was taken; of a pool all its slots.
  model::Bytes reserved() const { return reserved_; }

 private:
  std::span<float> place(const BufferKey& key, std::int64_t size);

  std::optional<SlotPool> pool_;
  std::vector<float> arena_;
  std::map<BufferKey, Slice> planned_at_;  // In numbers.
  std::map<BufferKey, std::span<float>> taken_;
  model::Bytes live_, live_max_, reserved_;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_RANK_MEMORY_H_
