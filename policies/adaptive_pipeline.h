// Dynamic pipeline planning that suits itself to memory and links while the step runs.
//
// The order it strives for passes blocks of micro-batches through the chunks of the rank, one chunk
// after the other. A forward or a gradient is in its turn as in interleaved 1F1B, but what is ready
// goes when that in turn is not. Breadth first, a block is of 2p micro-batches: the ring of ranks
// then stays full with transfers as long as a forward. Depth first it is of the p that the ring
// needs, or of as many as memory can keep under way (block_width.h).
//
// Without a limit of receive slots memory decides: it goes over to depth when the accounted memory
// comes close to the limit, and back when that has fallen to half. A forward whose message is late
// is overtaken by those behind it, if there is memory for all that are overtaken. No rank waits for
// another's memory: a forward runs only if afterwards the oldest micro-batch, then the next and so
// on can still be finished in what is free (the banker's algorithm, Dijkstra 1965, EWD 108), and
// the oldest may always go on. Memory counts in the bytes of each chunk, since one can hold much
// more than the others.
//
// With a limit, a message that may not be taken fills the slot of one that must be. With memory for
// all and two slots everything may be taken, and links switch the traversal by credits: it goes
// over to depth when messages of forwards are seen to wait for a slot in most of the latest
// decisions, and back when they no longer do; between the thresholds it stays. In depth no more
// enters than interleaved 1F1B would hold. When memory is short, or with one slot, all ranks take
// forwards in one order, of blocks that are equal on all. None can then wait for another: in the
// order in which every rank has (v−1)·w forwards ahead and then a forward and a backward in turn,
// the first task that is not done has all it needs, its message was sent before all that is not
// taken yet, and its rank has the memory. With one slot and memory for all, one may overtake that
// leaves room for what it overtakes.
//
// Placed as a fold, or where both a number of activations and memory bound, a micro-batch enters a
// rank under a limit of slots only if all its activations fit. A number that memory or the batch
// does not reach bounds nothing, and one that memory has room for bounds alone: the order is then
// that of a world without this memory.
#ifndef MEGATWIN_POLICIES_ADAPTIVE_PIPELINE_H_
#define MEGATWIN_POLICIES_ADAPTIVE_PIPELINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policies/block_width.h"
#include "policies/equal_memory.h"
#include "policies/policy.h"

namespace megatwin::policies {

struct AdaptivePipelineOptions {
  // Activations, one a (micro-batch, chunk), that a rank holds at once, at least its chunks, within
  // the memory limit of the Executor; 0: as many as that allows.
  int live_activations_max = 0;
  // What all ranks can count on, if that is known; else as if the others were like each. Unlike
  // ranks must be given it when receive slots are limited.
  EqualMemory equal_memory;
};

class AdaptivePipelinePolicy : public Policy {
 public:
  explicit AdaptivePipelinePolicy(const AdaptivePipelineOptions& options) : options_(options) {}

  std::optional<model::TaskId> pick(const Observation& observation) override;
  std::string state_line() const override;

 private:
  enum class Traversal : std::uint8_t { Breadth, Depth };
  // What lets a forward run.
  enum class Rule : std::uint8_t {
    Overtaking,         // No limit of receive slots.
    InOrder,            // A limit, and short memory or one slot only.
    ByCredits,          // Two slots or more, and memory for all.
    WholeMicroBatches,  // A limit, and a fold or Bounds::Both; or room for no second micro-batch.
  };
  static std::string_view name_of(Rule rule);
  // Micro-batches first … end − 1.
  struct Block {
    std::int32_t first = 0;
    std::int32_t end = 0;
  };
  // Tasks picked of one micro-batch on this rank, and the memory it holds.
  struct Progress {
    std::int32_t forwards = 0;
    std::int32_t finished = 0;
    std::int64_t held = 0;
  };

  // What a rank may hold is bounded by.
  enum class Bounds : std::uint8_t {
    Bytes,  // Or nothing.
    Count,
    Both,
  };

  void start_step(const Observation& observation);
  void measure_memory(const Observation& observation);
  void bound_activations(std::int64_t most);
  void choose_rule(const Observation& observation);
  Bounds bounds() const;
  void keep_to_slots(const Observation& observation, bool memory_is_short);
  bool is_order_of_interleaved() const { return micro_batches_ % deep_ == 0; }
  BatchMemory memory_as_of(std::int32_t stage) const;
  std::int32_t widest_block() const;
  void switch_by_memory();
  void switch_by_credits();
  Block block_of(std::int32_t micro_batch) const;
  Block fixed_block_of(std::int32_t micro_batch) const;
  std::int32_t next_block_size() const;
  bool may_run(const model::Task& forward) const;
  bool fits(const model::Task& forward) const;
  bool is_in_order(const model::Task& forward) const;
  bool is_next(const model::Task& forward) const;
  bool runs_too_far_ahead() const;
  bool is_turn_of_forwards() const;
  bool waits_for_turn(const model::Task& forward) const;
  std::int32_t forwards_ahead() const;
  bool enters_pipeline(const model::Task& forward) const {
    return stage_ == 0 && forward.chunk.value == 0;
  }
  bool memory_is_bounded() const { return room_ < micro_batches_ * micro_batch_size_; }
  bool is_safe(const model::Task& forward) const;
  std::int64_t still_to_come(std::int32_t micro_batch, std::int32_t end) const;
  std::int64_t still_to_come(std::int32_t micro_batch) const {
    return still_to_come(micro_batch, chunks_);
  }
  std::int64_t size_of(std::int32_t chunk) const { return sizes_[static_cast<std::size_t>(chunk)]; }
  std::int64_t overtaken_by(const model::Task& forward) const;
  std::optional<model::TaskId> best_of(const Observation& observation) const;
  void keep(const Observation& observation, const model::Task& task);
  Progress& progress(std::int32_t micro_batch) {
    return progress_[static_cast<std::size_t>(micro_batch)];
  }
  const Progress& progress(std::int32_t micro_batch) const {
    return progress_[static_cast<std::size_t>(micro_batch)];
  }

  AdaptivePipelineOptions options_;
  // Of the program; fixed.
  std::int32_t micro_batches_ = 0, chunks_ = 1, stages_ = 1, stage_ = 0;
  // What each chunk and all of a micro-batch hold, and how much may be held: in bytes, or in
  // activations when their number is bounded.
  std::vector<std::int64_t> sizes_;
  std::int64_t micro_batch_size_ = 0, room_ = 0;
  Bounds bounds_ = Bounds::Bytes;
  Rule rule_ = Rule::Overtaking;
  std::int32_t broad_ = 1, deep_ = 1;  // Micro-batches of a block in either traversal.
  std::int64_t depth_room_ = 0;        // What interleaved 1F1B would hold.
  std::int32_t entered_max_ = 1;       // Micro-batches at once under Rule::WholeMicroBatches.
  std::int32_t ahead_max_ = 0;         // With one chunk a rank, when memory is short.
  bool links_switch_ = false;          // The traversal.
  bool one_at_a_time_ = false;         // Both bounds leave no more than a micro-batch for sure.
  bool overtakes_in_slots_ = false;    // Rule::InOrder with memory for all.
  // What has happened.
  Traversal traversal_ = Traversal::Breadth;
  int pressure_ = 0;            // Of the links: up when messages wait for a slot, else down.
  bool messages_wait_ = false;  // As just observed.
  bool after_gradient_ = false;
  std::int32_t gradients_ = 0;  // Picked.
  std::int32_t ahead_ = 0;      // Forwards picked more than those.
  std::int64_t held_ = 0;       // Of forwards picked and not finished.
  std::int32_t oldest_ = 0;
  std::int32_t entered_ = 0;   // Micro-batches begun and not finished.
  std::vector<Block> blocks_;  // Begun, without those before the oldest micro-batch.
  std::vector<Progress> progress_;
};

PolicyFactory adaptive_pipeline_factory(const AdaptivePipelineOptions& options);

}  // namespace megatwin::policies

#endif  // MEGATWIN_POLICIES_ADAPTIVE_PIPELINE_H_
