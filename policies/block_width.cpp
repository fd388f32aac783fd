#include "policies/block_width.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>

namespace megatwin::policies {
namespace {

bool fit_on_all(const std::vector<BatchMemory>& ranks, std::int32_t width) {
  return std::all_of(ranks.begin(), ranks.end(), [&](const BatchMemory& rank) {
    const std::int32_t lead = std::max(width - 1 - 2 * rank.stage, 0);
    return held_by_blocks(rank, width, lead) <= rank.room;
  });
}

// The chunks of all forwards in their order; those of all backwards, counted from the last.
std::vector<std::size_t> chunks_in_order(const BatchMemory& memory, std::int32_t width) {
  const EqualBlocks blocks(memory.micro_batches, width);
  std::vector<std::size_t> chunks;
  for (std::int32_t n = 0; n < blocks.count(); ++n) {
    const auto size = static_cast<std::size_t>(blocks.begin(n + 1) - blocks.begin(n));
    for (std::size_t chunk = 0; chunk < memory.sizes.size(); ++chunk) {
      chunks.insert(chunks.end(), size, chunk);
    }
  }
  return chunks;
}

// How many activations fit into `room` when chunks are filled one after the other, each with the
// whole batch.
std::int64_t filled_in_order(const std::vector<std::int64_t>& sizes, std::int64_t room,
                             std::int32_t micro_batches) {
  std::int64_t count = 0;
  for (const std::int64_t size : sizes) {
    const std::int64_t fit =
        size == 0 ? micro_batches : std::min<std::int64_t>(room / size, micro_batches);
    count += fit;
    room -= fit * size;
    if (fit < micro_batches) break;
  }
  return count;
}

}  // namespace

std::int32_t BatchMemory::whole_micro_batches() const {
  constexpr std::int64_t kMost = 1'000'000;
  const std::int64_t size = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  return static_cast<std::int32_t>(size == 0 ? kMost : std::min(room / size, kMost));
}

std::int64_t BatchMemory::activations_fit() const {
  std::vector<std::int64_t> largest_first = sizes;
  std::sort(largest_first.begin(), largest_first.end(), std::greater<>());
  return filled_in_order(largest_first, room, micro_batches);
}

std::int64_t BatchMemory::activations_max() const {
  std::vector<std::int64_t> smallest_first = sizes;
  std::sort(smallest_first.begin(), smallest_first.end());
  return std::max(filled_in_order(smallest_first, room, micro_batches), std::ssize(sizes));
}

std::int64_t held_by_blocks(const BatchMemory& memory, std::int32_t width, std::int32_t lead) {
  const std::vector<std::int64_t>& sizes = memory.sizes;
  const std::int64_t ahead = (std::ssize(sizes) - 1) * width + lead;
  if (std::all_of(sizes.begin(), sizes.end(), [&](auto size) { return size == sizes[0]; })) {
    return sizes[0] * std::min(ahead + 1, memory.micro_batches * std::ssize(sizes));
  }
  const std::vector<std::size_t> chunks = chunks_in_order(memory, width);
  std::int64_t held = 0;
  std::int64_t most = 0;
  for (std::int64_t n = 0; n < std::ssize(chunks); ++n) {
    held += sizes[chunks[static_cast<std::size_t>(n)]];
    if (n > ahead) {
      held -= sizes[sizes.size() - 1 - chunks[static_cast<std::size_t>(n - ahead - 1)]];
    }
    most = std::max(most, held);
  }
  return most;
}

std::int32_t widest_blocks(const std::vector<BatchMemory>& ranks) {
  std::int32_t width = std::min(ranks.front().stages, ranks.front().micro_batches);
  while (width > 1 && !fit_on_all(ranks, width)) --width;
  return width;
}

}  // namespace megatwin::policies
