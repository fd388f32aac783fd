// Dynamic pipeline planning that suits itself to memory and links while the step runs.
//
// The order it strives for passes blocks of micro-batches through the chunks of the rank, one chunk
// after the other, gradients first with a forward in its turn after each. Breadth first, a block is
// as large as the memory limit has room for, so that messages have the most time to arrive; depth
// first it is the p micro-batches that the pipeline needs.
//
// Without a limit of receive slots memory decides: it goes over to depth when the accounted memory
// comes close to the limit, and back when that has fallen to half. A forward whose message is late
// is overtaken by those behind it, if there is memory for all that are overtaken. When not even one
// block of p fits, micro-batches go one by one, as many at a time as fit with what each holds on
// average. No rank waits for another's memory: a forward runs only if afterwards the oldest
// micro-batch, then the next and so on can still be finished in what is free (the banker's
// algorithm, Dijkstra 1965, EWD 108), and the oldest may always go on. Memory counts in the bytes
// of each chunk, since one can hold much more than the others.
//
// With a limit, links decide too, by credits. Breadth first fills them in one direction, then in
// the other: right when messages only come late, wrong when they pile up. So it is breadth first as
// long as memory has room for the whole batch and receivers keep up, and goes over to depth when
// messages of forwards are seen to wait for a slot in most of the latest decisions, and back when
// they no longer do; between the thresholds it stays. In depth no more enters than interleaved 1F1B
// would hold. While messages wait, gradients go first and nothing new enters out of turn.
// When memory is short, or with one slot, it is depth first throughout, in blocks that are equal on
// all ranks, and overtakes only with room for all chunks of all micro-batches up to the one that
// overtakes: a message that may not be taken could else fill the slot of one that must be. Ranks
// must then have equal memory, or be given it (equal_memory_of). Placed as a fold, a micro-batch
// enters a rank only if all its activations fit.
#ifndef MEGATWIN_POLICIES_ADAPTIVE_PIPELINE_H_
#define MEGATWIN_POLICIES_ADAPTIVE_PIPELINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policies/equal_memory.h"
#include "policies/policy.h"

namespace megatwin::policies {

struct AdaptivePipelineOptions {
  // Activations, one a (micro-batch, chunk), that a rank holds at once, at least its chunks; 0: as
  // many as the memory limit of the Executor allows.
  int live_activations_max = 0;
  EqualMemory equal_memory;  // Only counts when receive slots are limited.
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
    ByMemory,           // Receive slots are not limited.
    InOrder,            // They are, and memory is short or there is only one.
    ByCredits,          // They are, and there is memory for all.
    WholeMicroBatches,  // They are, and the chunks lie in a fold.
  };
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

  void start_step(const Observation& observation);
  void measure_memory(const Observation& observation);
  void bound_activations(std::int64_t most);
  void sum_up_sizes();
  void keep_to_slots(int slots, model::ChunkPlacement placement);
  std::int64_t held_by_blocks(std::int32_t size, std::int32_t lead) const;
  std::int32_t widest_block() const;
  void switch_by_memory();
  void switch_by_credits();
  Block block_of(std::int32_t micro_batch) const;
  Block fixed_block_of(std::int32_t micro_batch) const;
  std::int32_t next_block_size() const;
  bool may_run(const model::Task& forward) const;
  bool fits(const model::Task& forward) const;
  bool is_in_order(const model::Task& forward, std::int64_t room) const;
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
  // What a micro-batch holds after each of its forwards, summed up.
  std::int64_t held_while_passing_ = 0;
  std::int32_t widest_ = 1;    // The block that the room allows.
  bool smallest_fits_ = true;  // Blocks of p do.
  Rule rule_ = Rule::ByMemory;
  std::int32_t depth_width_ = 1;  // With limited slots: the blocks in depth, and …
  std::int64_t depth_room_ = 0;   // … what may be held then.
  // What has happened.
  Traversal traversal_ = Traversal::Breadth;
  int pressure_ = 0;            // Of the links: up when messages wait for a slot, else down.
  bool messages_wait_ = false;  // As just observed.
  bool after_gradient_ = false;
  std::int64_t held_ = 0;  // Of forwards picked and not finished.
  std::int32_t oldest_ = 0;
  std::int32_t entered_ = 0;   // Micro-batches begun and not finished.
  std::vector<Block> blocks_;  // Begun, without those before the oldest micro-batch.
  std::vector<Progress> progress_;
};

PolicyFactory adaptive_pipeline_factory(const AdaptivePipelineOptions& options);

}  // namespace megatwin::policies

#endif  // MEGATWIN_POLICIES_ADAPTIVE_PIPELINE_H_
