// Plans that are recommended under disturbances: each one runs in simulate under the same, with the
// memory that was printed. Uneven experts once filled a GPU beyond its memory unseen.
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "sim/purchase/purchase.h"
#include "sim/search/best_plan.h"
#include "sim/search/search.h"
#include "sim/simulate.h"
#include "tests/search/search_jobs.h"
#include "tests/sim/seeds.h"

namespace megatwin::tests {
namespace {

using model::DisturbanceKind;
using model::Job;
using model::Plan;

std::variant<sim::SimulationReport, sim::PlanRefusal> simulated(Job job, const Plan& plan) {
  job.plan = plan;
  return sim::simulate(job, {.sensitivities = false});
}

// Of the job with its disturbances as they are.
void expect_accepted(const Job& job, const sim::SimulationReport& printed) {
  const auto answer = simulated(job, printed.plan);
  const auto* refusal = std::get_if<sim::PlanRefusal>(&answer);
  ASSERT_EQ(refusal, nullptr) << refusal->message;
  const auto& report = std::get<sim::SimulationReport>(answer);
  EXPECT_EQ(report.memory_peak.value, printed.memory_peak.value);
  EXPECT_LE(report.memory_peak, report.memory_limit);
}

// Experts that are up to four times as busy as the mean, and with an even chance each a slow GPU,
// jitter, slow storage.
std::vector<model::Disturbance> some_disturbances(const Job& job, Dice& dice) {
  std::vector<model::Disturbance> all = {
      {.kind = DisturbanceKind::ExpertImbalance, .factor = 1 + 0.25 * dice.below(13)}};
  if (dice.below(2) == 0) {
    const int machine = dice.below(job.cluster.groups.front().count);
    all.push_back({.kind = DisturbanceKind::SlowGpu,
                   .at = "n" + std::to_string(machine) + "/gpu" + std::to_string(dice.below(8)),
                   .factor = 1 + 0.5 * dice.below(4)});
  }
  if (dice.below(2) == 0) all.push_back({.kind = DisturbanceKind::Jitter, .deviation = 0.05});
  if (dice.below(2) == 0) all.push_back({.kind = DisturbanceKind::SlowStorage, .rate = {1e9}});
  return all;
}

TEST(DisturbedSearchProperty, WhatIsRecommendedIsAcceptedBySimulate) {
  int accepted = 0, beyond_it = 0;
  const std::vector<std::uint64_t> all = seeds(60);
  for (const std::uint64_t seed : all) {
    SCOPED_TRACE(rerun_line("disturbed_search_property_test", seed));
    Dice dice(seed + 700);
    Job job = job_from(yaml_of("mixtral-8x7b", 2 + 2 * dice.below(2), "megatron-core", 64,
                               dice.below(2) == 0 ? "dgx-a100-80g" : "dgx-h100"));
    job.disturbances = some_disturbances(job, dice);
    sim::SearchSpace space = small_space(job, dice);
    space.expert = {1, 8};
    space.recompute.resize(1);
    const sim::SearchOptions options{
        .num_threads = 2, .memory_margin = 0.05 * dice.below(3), .num_best = 4, .num_losers = 4};
    const double limit =
        (1 - options.memory_margin) * job.cluster.groups.front().gpu.memory_usable.value;
    const sim::SearchResult result = sim::search(job, space, options);
    for (const sim::FoundPlan& found : result.best) {
      EXPECT_EQ(found.depth, "events with disturbances");
      EXPECT_LE(found.report.memory_peak.value, limit);
      expect_accepted(job, found.report);
      ++accepted;
    }
    for (const sim::FrontPlan& point : result.front) expect_accepted(job, point.report);
    // What the search would have said without the disturbances: plans that do not fit with them.
    Job even = job;
    even.disturbances.clear();
    for (const sim::FoundPlan& found : sim::search(even, space, options).best) {
      const auto answer = simulated(job, found.report.plan);
      if (std::holds_alternative<sim::PlanRefusal>(answer)) ++beyond_it;
    }
  }
  if (all.size() == 1) return;
  EXPECT_GE(accepted, 20);
  EXPECT_GE(beyond_it,
            3);  // Else the disturbances of this test would be too weak to show anything.
}

// A factor in the disturbances is the same job as one in the plan: pruned and ranked alike.
TEST(DisturbedSearch, UnevenExpertsRankAsThoseOfThePlan) {
  Job job = job_from(yaml_of("mixtral-8x7b", 2, "megatron-core", 64, "dgx-h100"));
  sim::SearchSpace space = sim::whole_space(job);
  space.schedule = {model::ScheduleKind::OneForwardOneBackward};
  space.model_chunks = {1};
  space.zero = {1};
  const sim::SearchOptions options{.num_threads = 2, .num_best = 5, .num_losers = 5};
  Job planned = job;
  planned.plan.expert_capacity_imbalance = 2;
  job.disturbances = {{.kind = DisturbanceKind::ExpertImbalance, .factor = 2}};
  const sim::SearchResult disturbed = sim::search(job, space, options);
  ASSERT_FALSE(disturbed.best.empty());
  EXPECT_EQ(summary_of(disturbed), summary_of(sim::search(planned, space, options)));
  EXPECT_EQ(disturbed.best.front().report.step_time, disturbed.best.front().plain_time);
}

// Orders that are decided while the step runs are kept only where they fit with the disturbances.
TEST(DisturbedSearch, DecidedOrdersAreAcceptedToo) {
  Job job = job_from(yaml_of("mixtral-8x7b", 4, "megatron-core", 128, "dgx-h100"));
  job.disturbances = {{.kind = DisturbanceKind::ExpertImbalance, .factor = 1.5},
                      {.kind = DisturbanceKind::SlowGpu, .at = "n1/gpu3", .factor = 3}};
  sim::SearchSpace space = sim::whole_space(job);
  space.pipeline = {4, 8};
  space.expert = {8};
  space.recompute = {{}};
  space.micro_batch = {1};
  space.zero = {1};
  space.decided = {model::ScheduleKind::DynamicAdaptive};
  const sim::SearchResult result =
      sim::search(job, space, {.num_threads = 2, .num_best = 6, .num_losers = 4});
  ASSERT_FALSE(result.best.empty());
  for (const sim::FoundPlan& found : result.best) expect_accepted(job, found.report);
}

// A part that the machines in use do not have is told of, not a fault of ours.
TEST(DisturbedSearch, APartThatIsNotThereIsNamed) {
  Job job = job_from(yaml_of("gpt-7.5b", 2, "megatron-core", 64, "dgx-h100"));
  job.disturbances = {{.kind = DisturbanceKind::SlowGpu, .at = "n7/gpu0", .factor = 2}};
  sim::SearchSpace space = sim::whole_space(job);
  space.tensor = {8};
  space.pipeline = {1};
  const auto result = sim::search(job, space, {.num_threads = 2, .num_best = 2, .num_losers = 2});
  ASSERT_FALSE(result.best.empty());
  const sim::SimulationReport& report = result.best.front().report;
  ASSERT_FALSE(report.warnings.empty());
  EXPECT_NE(report.warnings.back().find("the cluster has no GPU n7/gpu0"), std::string::npos)
      << report.warnings.back();
}

sim::PurchaseAnswer purchase_of(const Job& job, const model::TrainingWish& wish,
                                bool mixes = false) {
  return sim::plan_purchase(job, wish,
                            {.num_threads = 2,
                             .memory_margin = 0,
                             .space =
                                 [](const Job& changed) {
                                   sim::SearchSpace space = sim::short_space(changed);
                                   space.tensor = {1, 2, 4, 8};
                                   space.micro_batch = {1};
                                   return space;
                                 },
                             .mixes = mixes,
                             .progress = {}});
}

// Rows are of many clusters, so that nothing of one cluster is in any: the row of the file's own
// number of machines was the only disturbed one, and a part that smaller ones lack ended the
// program.
TEST(DisturbedPurchase, RowsAreOnSoundClustersWithTheirExpertsAsUneven) {
  const scenarios::Scenario scenario = scenario_from(
      yaml_of("mixtral-8x7b", 4, "megatron-core", 256, "dgx-h100") + "target: {tokens: 20e9}\n");
  const Job& even = scenario.jobs.front();
  Job struck = even;
  struck.disturbances = {{.kind = DisturbanceKind::SlowGpu, .at = "n3/gpu1", .factor = 1.5},
                         {.kind = DisturbanceKind::DeadNic, .at = "n2/nic1"}};
  const sim::PurchaseAnswer plain = purchase_of(even, *scenario.target);
  const sim::PurchaseAnswer answer = purchase_of(struck, *scenario.target);
  EXPECT_TRUE(plain.not_counted.empty());
  ASSERT_EQ(answer.not_counted.size(), 1U);
  EXPECT_NE(answer.not_counted.front().find("slow-gpu n3/gpu1 × 1.5, dead-nic n2/nic1"),
            std::string::npos)
      << answer.not_counted.front();
  ASSERT_EQ(answer.options.size(), plain.options.size());
  ASSERT_GE(answer.options.size(), 3U);
  for (std::size_t i = 0; i < plain.options.size(); ++i) {
    EXPECT_EQ(answer.options[i].report.step_time, plain.options[i].report.step_time);
    EXPECT_EQ(answer.options[i].report.memory_peak, plain.options[i].report.memory_peak);
  }

  Job uneven = even;
  uneven.disturbances = {{.kind = DisturbanceKind::ExpertImbalance, .factor = 2}};
  const sim::PurchaseAnswer heavy = purchase_of(uneven, *scenario.target);
  EXPECT_TRUE(heavy.not_counted.empty());
  ASSERT_FALSE(heavy.options.empty());
  for (const sim::PurchaseOption& option : heavy.options) {
    const Job there = sim::job_on(uneven, scenario.target->offers.front(), option.machines);
    expect_accepted(there, option.report);
    const auto again = simulated(there, option.report.plan);
    ASSERT_TRUE(std::holds_alternative<sim::SimulationReport>(again));
    EXPECT_EQ(std::get<sim::SimulationReport>(again).step_time, option.report.step_time);
  }
}

// Ranks that differ take no disturbance: the experts of a mix are as uneven as its plan says.
TEST(DisturbedPurchase, MixesAreFoundWithUnevenExperts) {
  const scenarios::Scenario scenario = scenario_from(
      yaml_of("mixtral-8x7b", 4, "megatron-core", 64, "dgx-h100") +
      "target: {tokens: 20e9, machines: [{type: dgx-h100, min: 4, max: 4}, {type: dgx-a100-80g, "
      "min: 4, max: 4}]}\n");
  Job uneven = scenario.jobs.front();
  uneven.disturbances = {{.kind = DisturbanceKind::ExpertImbalance, .factor = 2}};
  const auto mixes = purchase_of(uneven, *scenario.target, true).mixes;
  ASSERT_FALSE(mixes.empty());
  for (const sim::MachineMix& mix : mixes) {
    EXPECT_EQ(mix.option.report.plan.expert_capacity_imbalance, 2);
    Job there = sim::job_on(uneven, *scenario.target, mix.parts);
    there.disturbances.clear();
    expect_accepted(there, mix.option.report);
  }
}

}  // namespace
}  // namespace megatwin::tests
