// Closed forms against numbers worked by hand or published; the rows of test_vectors.csv are
// vector_check's.
#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "model/activation_memory.h"
#include "model/energy_cost.h"
#include "model/fat_tree.h"
#include "model/heterogeneous.h"
#include "model/pipeline_closed_forms.h"
#include "model/reliability.h"
#include "model/roofline.h"
#include "model/state_memory.h"
#include "model/stragglers.h"

namespace megatwin::model {
namespace {

constexpr StageTimes kEqual{{1}, {1}, {1}};  // F = B = W.

// p = 4, m = 8, F + B = 3: 1F1B (8 + 3)·3 = 33. Two chunks halve the bubble of 9: 28.5.
// ZB-H1: 24 + 3·(1 + 1 − 1) = 27, a third of the bubble. ZB-V: none.
TEST(Pipeline, Makespans) {
  const PipelineShape shape{4, 8, 1};
  EXPECT_EQ(pipeline_makespan(ScheduleKind::GPipe, shape, kEqual).value, 33);
  EXPECT_EQ(pipeline_makespan(ScheduleKind::OneForwardOneBackward, shape, kEqual).value, 33);
  EXPECT_EQ(pipeline_makespan(ScheduleKind::Interleaved, {4, 8, 2}, kEqual).value, 28.5);
  EXPECT_EQ(pipeline_makespan(ScheduleKind::ZeroBubbleH1, shape, kEqual).value, 27);
  EXPECT_EQ(pipeline_makespan(ScheduleKind::ZeroBubbleV, shape, kEqual).value, 24);
  EXPECT_EQ(bubble_time_zero_bubble_h2(shape, kEqual).value, 0);
}

// Idle over total and idle over ideal are two quantities: 3/11 and 3/8.
TEST(Pipeline, BubbleFractionIsNotBubbleRatio) {
  EXPECT_DOUBLE_EQ(bubble_fraction({4, 8, 1}), 3.0 / 11);
  EXPECT_DOUBLE_EQ(bubble_ratio({4, 8, 1}), 3.0 / 8);
  EXPECT_DOUBLE_EQ(bubble_ratio({4, 8, 2}), 3.0 / 16);
}

// Equal stages: the bound for unequal ones is 1F1B's makespan.
TEST(Pipeline, UnevenBoundMeetsEvenMakespan) {
  const std::vector<StageTimes> stages(4, StageTimes{{1}, {1}, {1}});
  EXPECT_EQ(uneven_1f1b_bound(stages, 8).value, 33);
}

// Stage 0 of 1F1B holds p micro-batches; interleaved p + (p−1)/v, the factor of Korthikanti.
TEST(Pipeline, InFlight) {
  const PipelineShape shape{4, 8, 2};
  EXPECT_EQ(in_flight_micro_batches(ScheduleKind::OneForwardOneBackward, shape, 0), 4);
  EXPECT_EQ(in_flight_micro_batches(ScheduleKind::OneForwardOneBackward, shape, 3), 1);
  EXPECT_EQ(in_flight_micro_batches(ScheduleKind::Interleaved, shape, 0),
            4 * interleaved_memory_factor(4, 2));
  EXPECT_EQ(in_flight_micro_batches(ScheduleKind::GPipe, shape, 0), 8);
}

TEST(ActivationMemory, PartsAddUpToEquation1) {
  const GptLayerShape shape{2048, 1, 12288, 96};
  const GptLayerParts parts = gpt_layer_parts(shape);
  EXPECT_EQ(gpt_layer_activations(shape, {}), parts.attention + parts.feed_forward + parts.norms);
}

// With f = 4h, g = 1 a layer of today holds 16 + 24 = 40 sbh and the log-sum-exp; Megatron's own
// estimate 18 + 16 = 34 sbh.
TEST(ActivationMemory, ModernLayer) {
  const ModernLayerShape shape{
      .sequence = 10, .micro_batch = 2, .hidden = 8, .ffn = 32, .heads = 2, .key_value_heads = 2};
  EXPECT_EQ(modern_layer_activations(shape).value, 40 * 160 + 4 * 20 * 2);
  EXPECT_EQ(megatron_estimate_layer_activations(shape).value, 34 * 160);
}

// 7.5e9 parameters over 64 ranks: 120, 31.4, 16.6 and 1.9 GB (ZeRO, figure 1).
TEST(StateMemory, ZeroStages) {
  const std::array<double, 4> published = {120, 31.4, 16.6, 1.9};
  for (int stage = 0; stage < 4; ++stage) {
    const Bytes total =
        7.5e9 * state_bytes_per_parameter(StateScheme::ZeroMixed, stage, 64).total();
    EXPECT_NEAR(total.value / 1e9, published[static_cast<std::size_t>(stage)], 0.05);
  }
  EXPECT_EQ(state_bytes_per_parameter(StateScheme::MegatronBf16, 0, 1).total(), 18_B);
  EXPECT_EQ(state_bytes_per_parameter(StateScheme::MegatronBf16, 1, 8).total().value, 6 + 12.0 / 8);
  EXPECT_EQ(state_bytes_per_parameter(StateScheme::MegatronFp16, 1, 8).total().value, 4 + 16.0 / 8);
}

TEST(StateMemory, NcclBuffersOfAConnection) {
  EXPECT_EQ(NcclBuffers{}.total().value, 524288 + 4915200 + 4194304);
}

// d = 5 min: Daly's table has 117, 57 and 9.1 min for M = 24 h, 6 h and 15 min.
TEST(Reliability, DalyHigherOrder) {
  EXPECT_NEAR(daly_interval({{300}, {24 * 3600}}).value / 60, 117, 0.5);
  EXPECT_NEAR(daly_interval({{300}, {6 * 3600}}).value / 60, 57, 0.5);
  EXPECT_NEAR(daly_interval({{300}, {900}}).value / 60, 9.1, 0.05);
  EXPECT_EQ(daly_interval({{300}, {100}}), Seconds{100});  // d ≥ 2M: M.
}

// For rare failures the exponential model loses what the first-order one does.
TEST(Reliability, ExponentialModelAgreesWhenFailuresAreRare) {
  const Seconds mean{1e6};
  const double exact = expected_goodput({{3600}, {10}, {60}, mean});
  const double first = expected_training_time_ratio({mean, {60}, {10}, {3600}});
  EXPECT_NEAR(exact, first, 1e-4);
}

// λD = 2 a day · 1 day: P(N > 5) = 0.0166, P(N > 6) = 0.0045.
TEST(Reliability, SparesCoverThePoissonTail) {
  EXPECT_EQ(spare_nodes(2, {86400}, 0.01), 6);
  EXPECT_EQ(spare_nodes(2, {86400}, 0.02), 5);
  EXPECT_EQ(spare_nodes(0, {86400}, 0.01), 0);
}

TEST(Stragglers, ExpectedMaxima) {
  EXPECT_DOUBLE_EQ(expected_max_exponential({2}, 4).value, 2 * (1 + 0.5 + 1.0 / 3 + 0.25));
  // The maximum of two standard normals has mean 1/sqrt(π); of one, 0.
  EXPECT_NEAR(expected_max_normal({{0}, {1}}, 2).value, 0.5641895835, 1e-7);
  EXPECT_NEAR(expected_max_normal({{0}, {1}}, 1).value, 0, 1e-12);
  EXPECT_LT(expected_max_normal({{1}, {0.01}}, 8192).value,
            expected_max_normal_asymptotic({{1}, {0.01}}, 8192).value);
}

// 39.3e6 GPU hours at 700 W are 27.5 GWh; 11,390 t of CO2e imply 0.414 kg/kWh.
TEST(EnergyCost, LlamaFamily) {
  const Joules joules = energy({700}, 39.3e6, {3600});
  EXPECT_NEAR(in_gigawatt_hours(joules), 27.51, 1e-9);
  EXPECT_NEAR(implied_carbon_intensity(11390e3, joules), 0.414, 0.0005);
  EXPECT_EQ(gpu_power({{100}, {700}, 0.7, 0.3}, 1, 1).value, 700);
}

// 109 tiles on 108 multiprocessors take two waves: 109/216.
TEST(Roofline, TailWave) {
  EXPECT_EQ(num_waves(109, 108), 2);
  EXPECT_DOUBLE_EQ(wave_efficiency(109, 108), 109.0 / 216);
  EXPECT_EQ(num_tiles({.m = 129, .n = 256, .k = 1}, 128, 256), 2);
}

// 96 layers on 312 and 125 TFLOP/s: 69 and 27 take max(.2212, .216); 68 and 28 would take .224 and
// 70 and 26 .2244.
TEST(Heterogeneous, LayersOverA100AndV100) {
  const std::array<double, 2> speeds = {312, 125};
  const auto split = min_max_split(96, speeds);
  EXPECT_EQ(split, (std::vector<std::int64_t>{69, 27}));
  EXPECT_NEAR(even_split_utilization(speeds), 2 * 125.0 / 437, 1e-15);
  EXPECT_GT(split_utilization(split, speeds), 0.99);
}

TEST(Heterogeneous, CapsMoveTheRest) {
  const std::array<double, 2> speeds = {312, 125};
  const std::array<std::int64_t, 2> limits = {60, 100};
  EXPECT_EQ(min_max_split(96, speeds, limits), (std::vector<std::int64_t>{60, 36}));
}

TEST(FatTree, Tiers) {
  EXPECT_EQ(fat_tree_tiers(64, 64), 1);
  EXPECT_EQ(fat_tree_tiers(64, 2048), 2);
  EXPECT_EQ(fat_tree_tiers(64, 2049), 3);
}

}  // namespace
}  // namespace megatwin::model
