// Activation memory for orders that nobody knows beforehand: a fixed number of slots, set aside
// before the first step at the bound of what the rank may admit, and one buffer for what a task
// takes for its own time. Nothing grows; an order that needs more breaks its bound.
#ifndef MEGATWIN_EXEC_SLOT_POOL_H_
#define MEGATWIN_EXEC_SLOT_POOL_H_

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "exec/buffer_key.h"
#include "exec/slice.h"
#include "model/program/program.h"
#include "model/program/program_spec.h"
#include "model/units.h"

namespace megatwin::exec {

// What bounds the activations of a rank, each one of a (micro-batch, chunk).
struct AdmissionBound {
  int live_activations = 0;   // Over all chunks; 0: no bound but the micro-batches.
  model::Bytes memory_limit;  // As policies::ExecutorOptions has it.
};

struct SlotPoolPlan {
  struct Slots {
    int count = 0;
    model::Bytes size;  // Of each.
  };
  // Of what is held from task to task: one entry for all chunks, or one a chunk.
  std::vector<Slots> held;
  model::Bytes transient;  // The largest; one task runs at a time.

  model::Bytes total() const;
};

// An activation and what a split backward leaves of it follow each other in one slot. Slots that
// fit every chunk, or so many of each chunk as can be live: whichever takes less.
SlotPoolPlan plan_slot_pool(const model::Program& program, const model::StageCost& stage,
                            const AdmissionBound& bound);

class SlotPool {
 public:
  SlotPool() = default;
  explicit SlotPool(const SlotPoolPlan& plan);

  // `size` numbers, with what was there before. Errors: throws std::runtime_error when all slots
  // are taken. Requires: `size` fits a slot.
  std::span<float> take(const BufferKey& key, std::int64_t size);
  void give_back(const BufferKey& key);

 private:
  struct Shelf {
    std::int64_t slot_size = 0;  // In numbers.
    std::vector<float> numbers;
    std::vector<std::int32_t> free;  // The last one is taken next.
    int count = 0;
  };
  Shelf& shelf_of(const BufferKey& key);

  std::vector<Shelf> held_;
  Shelf transient_;
  std::map<BufferKey, std::int32_t> taken_;  // Which slot of its shelf.
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_SLOT_POOL_H_
