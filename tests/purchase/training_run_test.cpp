// A training run by hand, and against the simulation of its failures one by one.
#include "sim/purchase/training_run.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "model/reliability.h"
#include "sim/goodput.h"
#include "sim/purchase/scaling_knee.h"

namespace megatwin::sim {
namespace {

TrainingRunInput four_machines() {
  TrainingRunInput input{.tokens = 1e9, .tokens_per_step = 1e6, .step_time = {10}};
  input.machines = 4;
  input.power_per_gpu = {300};
  input.machine.node.num_gpus = 8;
  input.machine.node.power_max = {7800};
  input.machine.node.price_per_hour = {30};
  input.machine.gpu.power_max = {400};
  input.operations.facility_factor = 1.5;
  input.operations.carbon_kg_per_kwh = 0.4;
  return input;
}

// 1,000 steps of 10 s. A machine draws 8 · 300 W and 2.8/4.6 of what it is rated for beyond its
// GPUs' limits, 7,800 − 8 · 400 = 4,600 W: 5,200 W; four in a building of 1.5 draw 31,200 W, 312 MJ
// in 10,000 s, 86.67 kWh, 34.67 kg. Rent: 4 · 30 USD/h · 10,000/3,600 h.
TEST(TrainingRun, WithoutFailuresIsAProductOfItsParts) {
  const TrainingRun run = training_run(four_machines());
  EXPECT_EQ(run.steps, 1000);
  EXPECT_EQ(run.duration.value, 10'000);
  EXPECT_EQ(run.goodput, 1);
  EXPECT_FALSE(run.mean_time_to_failure.has_value());
  EXPECT_EQ(run.spares, 0);
  EXPECT_NEAR(run.cost->value, 333.3333, 1e-3);
  EXPECT_NEAR(run.power.value, 31'200, 1e-9);
  EXPECT_NEAR(run.energy.value, 312e6, 1e-3);
  EXPECT_NEAR(*run.carbon_kg, 0.4 * 312 / 3.6, 1e-9);
}

TEST(TrainingRun, ABegunStepIsAWholeOneAndAnUnknownPriceIsNoCost) {
  TrainingRunInput input = four_machines();
  input.tokens = 1e9 + 1;
  input.machine.node.price_per_hour = {};
  input.operations.carbon_kg_per_kwh = 0;
  const TrainingRun run = training_run(input);
  EXPECT_EQ(run.steps, 1001);
  EXPECT_FALSE(run.cost.has_value());
  EXPECT_FALSE(run.carbon_kg.has_value());
}

TrainingRunInput thousand_machines() {
  TrainingRunInput input = four_machines();
  input.tokens = 1e12;
  input.machines = 1000;
  input.operations.failures_per_node_day = 4e-3;  // One in 6 hours.
  input.operations.checkpoint_time = {40};
  input.operations.restart = {1200};
  input.operations.replacement = {86400};
  input.operations.shortage = 0.01;
  return input;
}

// The closed form against weeks played failure by failure, and against Kokolis' ratio.
TEST(TrainingRun, GoodputIsThatOfRunsPlayedFailureByFailure) {
  const TrainingRunInput input = thousand_machines();
  const TrainingRun run = training_run(input);
  EXPECT_NEAR(run.mean_time_to_failure->value, 21'600, 1e-6);
  EXPECT_NEAR(run.duration.value * run.goodput, run.undisturbed.value, 1e-3);
  EXPECT_NEAR(run.failures, run.duration.value / 21'600, 1e-9);
  const GoodputSpread played =
      goodput_spread({.failures = {{.part = "machine", .count = 1000, .per_day = 4e-3}},
                      .span = run.duration,
                      .interval = run.checkpoint_interval,
                      .checkpoint_blocks = {40},
                      .checkpoint_durable = {40},
                      .detection = {},
                      .restart = {1200},
                      .repair = {}},
                     50);
  EXPECT_NEAR(run.goodput, played.mean, 0.005);
  const double ratio =
      model::expected_training_time_ratio({.mean_time_to_failure = *run.mean_time_to_failure,
                                           .restart = {1200},
                                           .write = {40},
                                           .interval = run.checkpoint_interval});
  EXPECT_NEAR(run.goodput, ratio, 0.005);
}

TEST(TrainingRun, NoOtherIntervalIsMuchBetter) {
  const TrainingRunInput input = thousand_machines();
  const TrainingRun run = training_run(input);
  for (int i = 0; i < 30; ++i) {  // To 4.
    const double factor = 0.25 * std::pow(1.1, i);
    const double other = model::expected_goodput({.interval = factor * run.checkpoint_interval,
                                                  .write = {40},
                                                  .restart = {1200},
                                                  .mean_time_to_failure = {21'600}});
    EXPECT_LE(other, run.goodput + 1e-4) << factor;
  }
}

// Four failures a day, each away for a day: Poisson of mean 4, whose tail is summed here term by
// term from the definition.
TEST(TrainingRun, SparesAreTheFewestThatSuffice) {
  const TrainingRun run = training_run(thousand_machines());
  const auto more_than = [](int spares) {
    double within = 0;
    for (int k = 0; k <= spares; ++k)
      within += std::exp(-4.0) * std::pow(4.0, k) / std::tgamma(k + 1.0);
    return 1 - within;
  };
  EXPECT_LT(more_than(run.spares), 0.01);
  EXPECT_GE(more_than(run.spares - 1), 0.01);
  EXPECT_NEAR(run.cost->value, (1000.0 + run.spares) * 30 * run.duration.value / 3600, 1e-3);
}

// r(n) = n/(1 + n/64). From n to 2n the added machines bring 1/(1 + n/32) of the average before
// them: half at n = 32. So 64 is the last number reached, whatever 48 does.
TEST(ScalingKnee, IsWhereAddedMachinesBringHalf) {
  std::vector<ScalingPoint> points;
  for (int n = 1; n <= 1024; n *= 2) points.push_back({n * 1.0, n / (1 + n / 64.0)});
  ASSERT_TRUE(scaling_knee(points).has_value());
  EXPECT_EQ(points[*scaling_knee(points)].machines, 64);
  points.insert(points.begin() + 6, {48, 5});
  EXPECT_EQ(points[*scaling_knee(points)].machines, 64);
  EXPECT_EQ(points[*scaling_knee(points, 0.01)].machines, 1024);
}

TEST(ScalingKnee, MoreThatBringNothingAreNotTaken) {
  const std::vector<ScalingPoint> flat = {{1, 10}, {2, 10}, {4, 9}};
  EXPECT_EQ(scaling_knee(flat), 0U);
  EXPECT_FALSE(scaling_knee(std::vector<ScalingPoint>{{1, 0}}).has_value());
  EXPECT_FALSE(scaling_knee({}).has_value());
}

}  // namespace
}  // namespace megatwin::sim
