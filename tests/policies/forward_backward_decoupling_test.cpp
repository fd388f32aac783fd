#include "policies/forward_backward_decoupling.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace megatwin::policies {
namespace {

// p = 4, m = 8, F = 1, B = 2 on eight ranks: 3·1 + 8·3 + 3·2 = 33 decoupled; as two pipelines of
// four micro-batches (4 + 3)·3 = 21, and (4 + 3)·4 = 28 with full recomputation.
TEST(ForwardBackwardDecoupling, WorkedByHand) {
  EXPECT_EQ(decoupled_step_time({4, 8, {1}, {1}, {2}}).ns, 33);
  EXPECT_EQ(coupled_step_time({4, 8, {1}, {2}}).ns, 21);
  EXPECT_EQ(coupled_step_time({4, 8, {1}, {3}}).ns, 28);
  // Of five micro-batches one of the two has three: (3 + 3)·3 = 18.
  EXPECT_EQ(coupled_step_time({4, 5, {1}, {2}}).ns, 18);
  // Two stages, forwards of two tensor-parallel shards on one rank: 2 + 8·3 + 2 = 28.
  EXPECT_EQ(decoupled_step_time({2, 8, {2}, {1}, {2}}).ns, 28);
  // Activations shipped: 4·1 + 8·2 + 3·2 = 26.
  EXPECT_EQ(decoupled_step_time({4, 8, {1}, {1}, {2}, DecoupledFeed::Activations}).ns, 26);
}

// The forward ranks half as fast: two equal pipelines would wait for the slow one, 2·21 = 42;
// decoupled with activations shipped 4·2 + 8·2 + 3·2 = 30. The one case here in which it wins.
TEST(ForwardBackwardDecoupling, WinsOnUnequalRanks) {
  const auto decoupled = decoupled_step_time({4, 8, {2}, {1}, {2}, DecoupledFeed::Activations});
  EXPECT_EQ(decoupled.ns, 30);
  EXPECT_LT(decoupled, coupled_step_time({4, 8, {2}, {4}}));
}

// Every task after what it needs and after the one before it on its rank.
std::int64_t by_recurrence(const DecoupledPipeline& pipeline) {
  const auto stages = static_cast<std::size_t>(pipeline.stages);
  const bool again = pipeline.feed == DecoupledFeed::StageInput;
  std::vector<std::int64_t> forward_end(stages, 0);
  std::vector<std::int64_t> backward_end(stages, 0);
  for (int micro_batch = 0; micro_batch < pipeline.micro_batches; ++micro_batch) {
    std::vector<std::int64_t> fed(stages, 0);
    for (std::size_t stage = 0; stage < stages; ++stage) {
      const std::int64_t input = stage == 0 ? 0 : forward_end[stage - 1];
      forward_end[stage] = std::max(forward_end[stage], input) + pipeline.forward_side.ns;
      fed[stage] = again ? input : forward_end[stage];
    }
    std::int64_t gradient = 0;
    for (std::size_t stage = stages; stage-- > 0;) {
      const std::int64_t ready =
          std::max(backward_end[stage], fed[stage]) + (again ? pipeline.forward.ns : 0);
      gradient = std::max(ready, gradient) + pipeline.backward.ns;
      backward_end[stage] = gradient;
    }
  }
  return std::max(*std::max_element(backward_end.begin(), backward_end.end()),
                  *std::max_element(forward_end.begin(), forward_end.end()));
}

TEST(ForwardBackwardDecoupling, EqualsItsRecurrence) {
  for (int p = 1; p <= 4; ++p) {
    for (int m = 1; m <= 6; ++m) {
      for (std::int64_t side = 1; side <= 7; side += 2) {
        for (std::int64_t backward = 1; backward <= 5; backward += 2) {
          for (const auto feed : {DecoupledFeed::StageInput, DecoupledFeed::Activations}) {
            const DecoupledPipeline pipeline{p, m, {side}, {2}, {backward}, feed};
            ASSERT_EQ(decoupled_step_time(pipeline).ns, by_recurrence(pipeline))
                << p << " " << m << " F' " << side << " B " << backward;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace megatwin::policies
