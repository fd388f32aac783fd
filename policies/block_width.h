// What it takes to pass micro-batches in blocks through the chunks of a rank, one chunk after the
// other, as interleaved 1F1B does, and how wide the blocks can be.
#ifndef MEGATWIN_POLICIES_BLOCK_WIDTH_H_
#define MEGATWIN_POLICIES_BLOCK_WIDTH_H_

#include <cstdint>
#include <vector>

namespace megatwin::policies {

// A batch and the memory that a rank has for it, in any unit.
struct BatchMemory {
  std::vector<std::int64_t> sizes;  // What each chunk holds of one micro-batch.
  std::int64_t room = 0;
  std::int32_t micro_batches = 1;
  std::int32_t stages = 1;  // p.
  std::int32_t stage = 0;   // Of this rank.

  // How many fit; 1,000,000 at most.
  std::int32_t whole_micro_batches() const;
  // Activations of the batch, each one of a (micro-batch, chunk): so many fit whichever they are,
  // and more than so many fit in no case. At least those of one micro-batch the latter, since that
  // may always go on.
  std::int64_t activations_fit() const;
  std::int64_t activations_max() const;
};

// A batch in as few blocks as possible of at most `width`, which differ by one at most, the
// narrower ones first.
struct EqualBlocks {
  EqualBlocks(std::int32_t micro_batches, std::int32_t width)
      : micro_batches_(micro_batches), count_((micro_batches + width - 1) / width) {}

  std::int32_t count() const { return count_; }
  // Its first micro-batch, n up to count().
  std::int32_t begin(std::int32_t n) const {
    return static_cast<std::int32_t>(std::int64_t{n} * micro_batches_ / count_);
  }
  std::int32_t block_of(std::int32_t micro_batch) const {
    return static_cast<std::int32_t>(((std::int64_t{micro_batch} + 1) * count_ - 1) /
                                     micro_batches_);
  }

 private:
  std::int32_t micro_batches_, count_;
};

// What is held at most when equal blocks go as in interleaved 1F1B: (v−1)·width + lead forwards,
// then a forward and a backward in turn.
std::int64_t held_by_blocks(const BatchMemory& memory, std::int32_t width, std::int32_t lead);

// The widest blocks, of p micro-batches at most, for which every rank has the memory.
//
// A full pipeline runs a forward a backward on every rank, so that without transfers none waits
// when p micro-batches are between the first rank's forward and its backward of the same chunk, and
// a part n / p of the time is used when there are n. Blocks of w keep w there when the first rank
// is w − 1 forwards ahead, and each rank behind it two fewer, down to none. Wider ones with less of
// a lead keep fewer.
// Requires: at least one rank, each with room for a whole micro-batch.
std::int32_t widest_blocks(const std::vector<BatchMemory>& ranks);

}  // namespace megatwin::policies

#endif  // MEGATWIN_POLICIES_BLOCK_WIDTH_H_
