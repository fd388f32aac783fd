// The activation memory of one rank. With a plan, one arena in which every buffer lies where the
// memory planner put it; without, a pool of slots by kind and chunk, for orders that nobody knows
// beforehand. Both count what is live.
#ifndef MEGATWIN_EXEC_RANK_MEMORY_H_
#define MEGATWIN_EXEC_RANK_MEMORY_H_

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "exec/slice.h"
#include "model/ids.h"
#include "model/program/memory_planner.h"
#include "model/units.h"

namespace megatwin::exec {

struct BufferKey {
  model::BufferKind kind = model::BufferKind::Activation;
  model::ChunkId chunk;
  model::MicroBatchId micro_batch;
  friend constexpr auto operator<=>(const BufferKey&, const BufferKey&) = default;
};

class RankMemory {
 public:
  RankMemory() = default;
  explicit RankMemory(const model::ArenaPlan& plan);

  // `size` numbers of 4 bytes, with what was there before. Requires: not taken; with a plan, what
  // the plan says.
  std::span<float> take(const BufferKey& key, std::int64_t size);
  std::span<float> of(const BufferKey& key) const;
  // The numbers stay until something else is taken.
  void give_back(const BufferKey& key);

  model::Bytes live() const { return live_; }
  model::Bytes live_max() const { return live_max_; }
  // The end of the highest buffer that was taken; of a pool the size of all its slots.
  model::Bytes high_water() const { return high_water_; }

 private:
  using SlotKind = std::pair<model::BufferKind, model::ChunkId>;

  std::span<float> take_slot(const BufferKey& key, std::size_t size);

  bool planned_ = false;
  std::vector<float> arena_;
  std::map<BufferKey, Slice> planned_at_;  // In numbers.
  std::map<BufferKey, std::span<float>> taken_;
  std::map<SlotKind, std::vector<std::vector<float>>> slots_;  // Those that are free, and …
  std::map<BufferKey, std::vector<float>> slots_taken_;        // … those that are not.
  model::Bytes live_, live_max_, high_water_;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_RANK_MEMORY_H_
