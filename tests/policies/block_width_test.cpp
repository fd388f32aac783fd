// Blocks of micro-batches: what they hold, against the memory planner on the order of interleaved
// 1F1B, and how wide they can be.
#include "policies/block_width.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "model/program/memory_planner.h"
#include "policies/schedule.h"
#include "tests/sim/pipeline_specs.h"
#include "tests/sim/seeds.h"

namespace megatwin::policies {
namespace {

// Interleaved 1F1B with groups of the width, on any stage, chunks of any size.
TEST(BlockWidth, HoldsWhatThePlannerSaysOfInterleaved) {
  for (const std::uint64_t seed : tests::seeds(100)) {
    tests::Random random(seed);
    SCOPED_TRACE(tests::rerun_line("policies_property_test", seed));
    const auto p = static_cast<int>(random.in(2, 5));
    const auto v = static_cast<int>(random.in(2, 4));
    const auto width = static_cast<int>(random.in(p, std::int64_t{2} * p));
    const int micro_batches = width * static_cast<int>(random.in(1, 4));
    model::ProgramSpec spec =
        tests::uniform_spec({model::ScheduleKind::Interleaved, p, v, micro_batches, 1, 1, 1});
    spec.micro_batch_group = width;
    const model::StageId stage{static_cast<std::int32_t>(random.in(0, p - 1))};
    model::StageCost& cost = spec.stages[static_cast<std::size_t>(stage.value)];
    const bool alike = random.coin();
    BatchMemory memory{.micro_batches = micro_batches};
    for (model::ChunkCost& chunk : cost.chunks) {
      const std::int64_t size = alike ? 7 : random.in(0, 20);
      chunk.activation = {static_cast<double>(size)};
      memory.sizes.push_back(size);
    }
    const Order order = schedule_orders(spec)[static_cast<std::size_t>(stage.value)];
    const auto peak = model::plan_memory({pipeline_shape(spec), cost, order});
    EXPECT_EQ(static_cast<double>(held_by_blocks(memory, width, 2 * (p - 1 - stage.value))),
              peak.buffers.value);
  }
}

// Thirteen micro-batches in blocks of five at most: four, four and five.
TEST(BlockWidth, BlocksAreEqual) {
  const EqualBlocks blocks(13, 5);
  ASSERT_EQ(blocks.count(), 3);
  EXPECT_EQ(blocks.begin(0), 0);
  EXPECT_EQ(blocks.begin(1), 4);
  EXPECT_EQ(blocks.begin(2), 8);
  EXPECT_EQ(blocks.begin(3), 13);
  for (std::int32_t n = 0; n < 3; ++n) {
    for (std::int32_t j = blocks.begin(n); j < blocks.begin(n + 1); ++j) {
      EXPECT_EQ(blocks.block_of(j), n) << j;
    }
  }
}

// Four stages of four chunks. Blocks of w with a lead of w − 1 hold 3·w + w activations on the
// first rank: 16 for four, 12 for three. On the last rank, without a lead, 13 and 10.
TEST(BlockWidth, IsWhatEveryRankHasMemoryFor) {
  const auto width = [](std::int64_t first, std::int64_t last) {
    const BatchMemory of_first{
        .sizes = {1, 1, 1, 1}, .room = first, .micro_batches = 16, .stages = 4, .stage = 0};
    const BatchMemory of_last{
        .sizes = {1, 1, 1, 1}, .room = last, .micro_batches = 16, .stages = 4, .stage = 3};
    return widest_blocks({of_first, of_last});
  };
  EXPECT_EQ(width(100, 100), 4);
  EXPECT_EQ(width(16, 13), 4);
  EXPECT_EQ(width(15, 13), 3);
  EXPECT_EQ(width(16, 12), 3);
  EXPECT_EQ(width(12, 10), 3);
  EXPECT_EQ(width(11, 10), 2);
  EXPECT_EQ(width(4, 4), 1);
}

// The second rank has a lead of one with blocks of four: 12 activations and two.
TEST(BlockWidth, LeadIsShorterByTwoOnEachRank) {
  const auto width = [](std::int64_t room) {
    return widest_blocks(
        {{.sizes = {1, 1, 1, 1}, .room = room, .micro_batches = 16, .stages = 4, .stage = 1}});
  };
  EXPECT_EQ(width(14), 4);
  EXPECT_EQ(width(13), 3);
}

// Two micro-batches of two chunks hold four activations, whatever the lead.
TEST(BlockWidth, HoldsNoMoreThanTheBatch) {
  const BatchMemory memory{.sizes = {5, 5}, .micro_batches = 2};
  EXPECT_EQ(held_by_blocks(memory, 2, 0), 15);
  EXPECT_EQ(held_by_blocks(memory, 2, 1), 20);
  EXPECT_EQ(held_by_blocks(memory, 2, 6), 20);
}

TEST(BlockWidth, WholeMicroBatchesThatFit) {
  EXPECT_EQ((BatchMemory{.sizes = {3, 4}, .room = 20}.whole_micro_batches()), 2);
  EXPECT_EQ((BatchMemory{.sizes = {3, 4}, .room = 21}.whole_micro_batches()), 3);
  EXPECT_EQ((BatchMemory{.sizes = {0, 0}, .room = 1}.whole_micro_batches()), 1'000'000);
}

// Every number of activations of each chunk, each with the bytes that it holds.
TEST(BlockWidth, ActivationsThatFitAgainstEveryCase) {
  for (const std::uint64_t seed : tests::seeds(200)) {
    tests::Random random(seed);
    SCOPED_TRACE(tests::rerun_line("policies_property_test", seed));
    BatchMemory memory{.micro_batches = static_cast<std::int32_t>(random.in(1, 4))};
    for (auto chunks = random.in(1, 3); chunks > 0; --chunks) {
      memory.sizes.push_back(random.in(0, 9));
    }
    memory.room = random.in(0, 60);
    const int base = memory.micro_batches + 1;
    int cases = 1;
    for (std::size_t n = 0; n < memory.sizes.size(); ++n) cases *= base;
    std::int64_t largest_that_fits = 0;
    std::int64_t smallest_that_does_not = memory.micro_batches * std::ssize(memory.sizes) + 1;
    for (int number = 0; number < cases; ++number) {
      std::int64_t count = 0, bytes = 0;
      int rest = number;
      for (const std::int64_t size : memory.sizes) {
        count += rest % base;
        bytes += rest % base * size;
        rest /= base;
      }
      if (bytes <= memory.room) {
        largest_that_fits = std::max(largest_that_fits, count);
      } else {
        smallest_that_does_not = std::min(smallest_that_does_not, count);
      }
    }
    EXPECT_EQ(memory.activations_fit(), smallest_that_does_not - 1);
    EXPECT_EQ(memory.activations_max(), std::max(largest_that_fits, std::ssize(memory.sizes)));
  }
}

}  // namespace
}  // namespace megatwin::policies
