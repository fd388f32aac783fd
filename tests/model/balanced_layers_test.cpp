// Layers dealt by work, against every other way to deal them.
#include "model/balanced_layers.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include "model/layer_split.h"
#include "tests/model/zoo_for_tests.h"

namespace megatwin::tests {
namespace {

model::Transformer gpt_7_5b() { return model::zoo::gpt(36, 4096, 32, 51200, 2048); }

// The busiest rank of a split, in layers.
double busiest(const model::Plan& plan, const std::vector<int>& layers, double end) {
  std::vector<double> load(static_cast<std::size_t>(plan.pipeline), 0);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const int stage = model::stage_of_virtual_stage(plan, static_cast<int>(i));
    load[static_cast<std::size_t>(stage)] += layers[i] + (i + 1 == layers.size() ? end : 0);
  }
  return *std::max_element(load.begin(), load.end());
}

// Calls `visit` with every way to deal `left` layers over the places from `place` on, one at least.
void every_split(std::vector<int>& layers, std::size_t place, int left,
                 const std::function<void()>& visit) {
  if (place + 1 == layers.size()) {
    layers[place] = left;
    if (left > 0) visit();
    return;
  }
  for (int n = 1; n < left; ++n) {
    layers[place] = n;
    every_split(layers, place + 1, left - n, visit);
  }
}

TEST(BalancedLayers, NoOtherSplitHasALighterBusiestRank) {
  int compared = 0;
  model::Transformer with_prediction = model::zoo::llama_3_8b();
  with_prediction.num_mtp_layers = 1;
  for (model::Transformer shape : {gpt_7_5b(), model::zoo::llama_3_8b(), with_prediction}) {
    for (shape.num_layers = 2; shape.num_layers <= 9; ++shape.num_layers) {
      for (int p = 2; p <= 4; ++p) {
        model::Plan plan{.pipeline = p};
        const std::vector<int> layers = model::balanced_layers(shape, plan);
        ASSERT_EQ(layers.empty(), p > shape.num_layers);
        if (layers.empty()) continue;
        ASSERT_EQ(std::accumulate(layers.begin(), layers.end(), 0), shape.num_layers);
        const double end = model::end_in_layers(shape, plan);
        double least = 1e9;
        std::vector<int> other(layers.size());
        every_split(other, 0, static_cast<int>(shape.num_layers),
                    [&] { least = std::min(least, busiest(plan, other, end)); });
        EXPECT_EQ(busiest(plan, layers, end), least) << p << " stages, " << shape.num_layers;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 50);
}

// Chunks of a rank differ by one layer at most, but for the one with the head.
TEST(BalancedLayers, ChunksAreAsEvenAsTheirRank) {
  model::Transformer shape = gpt_7_5b();
  shape.num_layers = 61;
  const model::Plan plan{
      .pipeline = 8, .model_chunks = 3, .schedule = model::ScheduleKind::Interleaved};
  const std::vector<int> layers = model::balanced_layers(shape, plan);
  ASSERT_EQ(layers.size(), 24U);
  EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), 0), 61);
  EXPECT_LE(*std::max_element(layers.begin(), layers.end()), 3);
  EXPECT_GE(*std::min_element(layers.begin(), layers.end() - 1), 2);
  EXPECT_EQ(layers.back(), 1);  // The head is worth one.
  EXPECT_LE(busiest(plan, layers, model::end_in_layers(shape, plan)), 8.5);
}

// ZB-V: the second chunk runs back, so that rank 0 has embedding and head; 46 layers on 16 ranks,
// which do not divide, make pairs of 1 and 2.
TEST(BalancedLayers, ZeroBubbleVGetsTwoEqualChunks) {
  model::Transformer shape = gpt_7_5b();
  shape.num_layers = 46;
  model::Plan plan{.pipeline = 16, .model_chunks = 2, .schedule = model::ScheduleKind::ZeroBubbleV};
  const std::vector<int> layers = model::balanced_layers(shape, plan);
  ASSERT_EQ(layers.size(), 32U);
  EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), 0), 46);
  for (std::size_t rank = 0; rank < 16; ++rank) EXPECT_EQ(layers[rank], layers[31 - rank]);
  EXPECT_EQ(layers[0], 1);
  shape.num_layers = 47;
  EXPECT_TRUE(model::balanced_layers(shape, plan).empty());
}

// A layer of GPT 7.5B has 24·h² FLOP of products a token and 2·s·h of causal attention, its head
// 2·V·h. Run again as a whole, layers are worth 4/3.
TEST(BalancedLayers, TheHeadIsWorthItsFlop) {
  const model::Transformer shape = gpt_7_5b();
  const auto h = static_cast<double>(shape.hidden_size);
  const auto s = static_cast<double>(shape.sequence_length);
  const double expected = 2 * static_cast<double>(shape.vocab_size) * h / (24 * h * h + 2 * s * h);
  EXPECT_NEAR(model::end_in_layers(shape, {}), expected, 1e-9);
  EXPECT_NEAR(model::end_in_layers(shape, {.recompute = model::RecomputeKind::Full}),
              0.75 * expected, 1e-9);
}

}  // namespace
}  // namespace megatwin::tests
