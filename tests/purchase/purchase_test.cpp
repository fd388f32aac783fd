// The machines taken against every count evaluated by itself; wishes that cannot be met.
#include "sim/purchase/purchase.h"

#include <algorithm>
#include <string>
#include <variant>

#include <gtest/gtest.h>

#include "sim/search/best_plan.h"
#include "sim/simulate.h"
#include "tests/search/search_jobs.h"

namespace megatwin::tests {
namespace {

using sim::Limit;
using sim::PurchaseAnswer;
using sim::PurchaseOption;

struct Wish {
  model::Job job;
  model::TrainingWish target;
};

// `limits` goes into the target section.
Wish wish_of(const std::string& model, int global_batch, const std::string& machines,
             const std::string& limits) {
  const std::string yaml =
      yaml_of(model, 1, "megatron-core", global_batch) +
      "target: {tokens: 20e9, failures_per_node_day: 0.01, checkpoint_time: 30 s, restart: 10 "
      "min, replacement: 1 d, facility_factor: 1.2, machines: " +
      machines + limits + "}\n";
  scenarios::Scenario scenario = scenario_from(yaml);
  return {scenario.jobs.front(), *scenario.target};
}

constexpr const char* kTwoKinds =
    "[{type: dgx-a100-80g, max: 12, price_per_hour: 20 USD/h}, {type: dgx-h100, max: 6, "
    "price_per_hour: 44 USD/h}]";

PurchaseAnswer answer_of(const Wish& wish, int threads = 2) {
  return sim::plan_purchase(wish.job, wish.target,
                            {.num_threads = threads,
                             .memory_margin = 0,
                             .space = [](const model::Job& job) { return sim::short_space(job); },
                             .progress = {}});
}

// Every count of every kind, one by one.
std::vector<PurchaseOption> all_options(const Wish& wish) {
  std::vector<PurchaseOption> options;
  for (int offer = 0; offer < std::ssize(wish.target.offers); ++offer) {
    const auto& machine = wish.target.offers[static_cast<std::size_t>(offer)];
    for (int count = machine.count_min; count <= machine.count_max; ++count) {
      const model::Job job = sim::job_on(wish.job, machine, count);
      auto report = sim::best_plan(job, sim::short_space(job));
      if (report) {
        options.push_back(sim::purchase_option(job, wish.target, offer, *std::move(report)));
      }
    }
  }
  return options;
}

// What a plan's MFU rests on: it is that of simulate, and each thing that published runs often do
// instead costs some of it.
TEST(Purchase, TellsWhatHoldsTheUtilisationUp) {
  const Wish wish = wish_of("gpt-7.5b", 96, kTwoKinds, ", deadline: 300 d");
  const PurchaseAnswer answer = answer_of(wish);
  ASSERT_TRUE(answer.choice);
  ASSERT_FALSE(answer.utilisations.empty());
  EXPECT_EQ(answer.utilisations.front().option, *answer.choice);
  EXPECT_LE(answer.utilisations.size(), 3U);
  for (const sim::PlanUtilisation& utilisation : answer.utilisations) {
    const PurchaseOption& option = answer.options[utilisation.option];
    model::Job job = sim::job_on(
        wish.job, wish.target.offers[static_cast<std::size_t>(option.offer)], option.machines);
    const auto mfu_with = [&](auto change) {
      job.plan = option.report.plan;
      change(job.plan);
      const auto report = sim::simulate(job, {.sensitivities = false});
      return std::get<sim::SimulationReport>(report).mfu;
    };
    EXPECT_EQ(utilisation.planned, mfu_with([](model::Plan&) {}));
    const auto recompute = [](model::Plan& plan) {
      plan.recompute = model::RecomputeKind::Full;
      plan.recompute_layers = 0;
    };
    const auto expose = [](model::Plan& plan) {
      plan.overlap_grad_reduce = plan.overlap_param_gather = plan.overlap_tensor_parallel = false;
    };
    ASSERT_TRUE(utilisation.recomputed && utilisation.not_overlapped && utilisation.all);
    EXPECT_EQ(*utilisation.recomputed, mfu_with(recompute));
    EXPECT_EQ(*utilisation.not_overlapped, mfu_with(expose));
    EXPECT_EQ(*utilisation.all, mfu_with([&](model::Plan& plan) {
      recompute(plan);
      expose(plan);
      plan.micro_batch = 1;
    }));
    EXPECT_LT(*utilisation.recomputed, 0.85 * utilisation.planned);
    EXPECT_LE(*utilisation.all, *utilisation.recomputed);
  }
}

// The first machines take longest: nothing was said until one of them was done.
TEST(Purchase, TellsHowFarItIsFromTheFirstPlansOn) {
  const Wish wish = wish_of("gpt-7.5b", 96, kTwoKinds, ", deadline: 300 d");
  std::vector<sim::WorkProgress> told;
  const PurchaseAnswer answer = sim::plan_purchase(
      wish.job, wish.target,
      {.num_threads = 2,
       .memory_margin = 0,
       .space = [](const model::Job& job) { return sim::short_space(job); },
       .progress = [&](const sim::WorkProgress& progress) { told.push_back(progress); }});
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.front().done, 0);
  EXPECT_GT(told.front().begun, 0);
  EXPECT_LT(told.front().begun, 1);
  for (std::size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i].phase, "trying machines");
    EXPECT_LE(static_cast<double>(told[i].done) + told[i].begun,
              static_cast<double>(told[i].total) + 1e-9);
    EXPECT_LE(told[i].begun, 2 + 1e-9);  // One a thread.
  }
  EXPECT_EQ(told.back().done, told.back().total);
  EXPECT_EQ(told.back().begun, 0);
}

TEST(Purchase, TakesTheCheapestThatKeepsTheDeadline) {
  const Wish free = wish_of("gpt-7.5b", 96, kTwoKinds, "");
  const std::vector<PurchaseOption> all = all_options(free);
  ASSERT_GE(all.size(), 12U);
  // A deadline that a third of the options keep.
  std::vector<double> durations;
  durations.reserve(all.size());
  for (const PurchaseOption& option : all) durations.push_back(option.run.duration.value);
  std::sort(durations.begin(), durations.end());
  const double deadline = durations[durations.size() / 3] + 1;
  const Wish wish =
      wish_of("gpt-7.5b", 96, kTwoKinds, ", deadline: " + std::to_string(deadline) + " s");
  double cheapest = 1e300;
  for (const PurchaseOption& option : all) {
    if (option.run.duration.value <= deadline) {
      cheapest = std::min(cheapest, option.run.cost->value);
    }
  }
  const PurchaseAnswer answer = answer_of(wish);
  ASSERT_TRUE(answer.choice.has_value());
  const PurchaseOption& choice = answer.options[*answer.choice];
  EXPECT_LE(choice.run.duration.value, deadline);
  EXPECT_GE(choice.run.cost->value, cheapest);
  // The ladder skips counts; halving the gaps beside the choice makes up for most of it.
  EXPECT_LE(choice.run.cost->value, 1.03 * cheapest);
  ASSERT_TRUE(answer.goodput.has_value());
  EXPECT_NEAR(answer.goodput->mean, choice.run.goodput, 0.02);
}

TEST(Purchase, ABudgetAloneBuysTheFastest) {
  const Wish free = wish_of("gpt-7.5b", 96, kTwoKinds, "");
  std::vector<double> costs;
  for (const PurchaseOption& option : all_options(free)) costs.push_back(option.run.cost->value);
  std::sort(costs.begin(), costs.end());
  const double budget = costs[costs.size() / 2] + 1;
  const PurchaseAnswer answer =
      answer_of(wish_of("gpt-7.5b", 96, kTwoKinds, ", budget: " + std::to_string(budget) + " USD"));
  ASSERT_TRUE(answer.choice.has_value());
  const PurchaseOption& choice = answer.options[*answer.choice];
  for (const PurchaseOption& option : answer.options) {
    if (option.run.cost->value <= budget) {
      EXPECT_LE(choice.run.duration, option.run.duration) << option.machines;
    }
  }
}

TEST(Purchase, WithoutLimitsItIsOneOfTheKnees) {
  const PurchaseAnswer answer = answer_of(wish_of("gpt-7.5b", 96, kTwoKinds, ""));
  ASSERT_TRUE(answer.choice.has_value());
  EXPECT_TRUE(
      std::any_of(answer.curves.begin(), answer.curves.end(),
                  [&](const sim::OfferCurve& curve) { return curve.knee == answer.choice; }));
}

TEST(Purchase, IsTheSameForAnyNumberOfThreads) {
  const Wish wish = wish_of("gpt-7.5b", 96, kTwoKinds, ", deadline: 20 d");
  const PurchaseAnswer one = answer_of(wish, 1), three = answer_of(wish, 3);
  EXPECT_EQ(one.choice, three.choice);
  ASSERT_EQ(one.options.size(), three.options.size());
  for (std::size_t i = 0; i < one.options.size(); ++i) {
    EXPECT_EQ(one.options[i].run.duration, three.options[i].run.duration);
    EXPECT_EQ(one.options[i].machines, three.options[i].machines);
  }
}

// A deadline of an hour: what is offered instead is the shortest of all, and asking for that is
// answered.
TEST(UnmetPurchase, ADeadlineTooShortIsMovedToTheShortestPossible) {
  const PurchaseAnswer answer = answer_of(wish_of("gpt-7.5b", 96, kTwoKinds, ", deadline: 1 h"));
  EXPECT_FALSE(answer.choice.has_value());
  ASSERT_TRUE(answer.unmet.has_value());
  ASSERT_EQ(answer.unmet->relaxations.size(), 1U);
  const auto& relaxation = answer.unmet->relaxations.front();
  EXPECT_EQ(relaxation.limit, Limit::Deadline);
  for (const PurchaseOption& option : answer.options) {
    EXPECT_LE(relaxation.needed, option.run.duration.value);
  }
  const PurchaseAnswer again = answer_of(wish_of(
      "gpt-7.5b", 96, kTwoKinds, ", deadline: " + std::to_string(relaxation.needed + 1) + " s"));
  EXPECT_TRUE(again.choice.has_value());
}

TEST(UnmetPurchase, ABudgetTooSmallNamesTheCheapest) {
  const PurchaseAnswer answer = answer_of(wish_of("gpt-7.5b", 96, kTwoKinds, ", budget: 10 USD"));
  ASSERT_TRUE(answer.unmet.has_value());
  const auto& relaxation = answer.unmet->relaxations.front();
  EXPECT_EQ(relaxation.limit, Limit::Budget);
  for (const PurchaseOption& option : answer.options) {
    EXPECT_LE(relaxation.needed, option.run.cost->value);
  }
}

// Each limit alone can be kept, both cannot: the one that has to give way least comes first.
TEST(UnmetPurchase, OfTwoLimitsTheOneToRelaxFirstGivesWayLeast) {
  const PurchaseAnswer free = answer_of(wish_of("gpt-7.5b", 96, kTwoKinds, ""));
  double shortest = 1e300, cheapest = 1e300;
  for (const PurchaseOption& option : free.options) {
    shortest = std::min(shortest, option.run.duration.value);
    cheapest = std::min(cheapest, option.run.cost->value);
  }
  const PurchaseAnswer answer =
      answer_of(wish_of("gpt-7.5b", 96, kTwoKinds,
                        ", deadline: " + std::to_string(shortest + 1) +
                            " s, budget: " + std::to_string(cheapest + 0.01) + " USD"));
  ASSERT_TRUE(answer.unmet.has_value());
  ASSERT_EQ(answer.unmet->relaxations.size(), 2U);
  EXPECT_FALSE(answer.unmet->together);
  EXPECT_LE(answer.unmet->relaxations[0].factor(), answer.unmet->relaxations[1].factor());
  for (const auto& relaxation : answer.unmet->relaxations) {
    EXPECT_GT(relaxation.factor(), 1);
    const PurchaseOption& option = answer.options[relaxation.option];
    for (const Limit limit : sim::kLimits) {
      if (limit == relaxation.limit) continue;
      EXPECT_EQ(taken(option, limit) <= allowed({.deadline = model::Seconds{shortest + 1},
                                                 .budget = model::Usd{cheapest + 0.01}},
                                                limit)
                                            .value_or(1e300),
                true);
    }
  }
}

TEST(UnmetPurchase, TheTwoThatOnlyGiveWayTogetherAreBothNamed) {
  const PurchaseAnswer answer =
      answer_of(wish_of("gpt-7.5b", 96, kTwoKinds, ", deadline: 1 h, budget: 10 USD"));
  ASSERT_TRUE(answer.unmet.has_value());
  EXPECT_TRUE(answer.unmet->together);
  EXPECT_EQ(answer.unmet->relaxations.size(), 2U);
  ASSERT_TRUE(answer.unmet->nearest.has_value());
}

// 175 billion parameters on two machines fit nowhere; more machines do.
TEST(UnmetPurchase, ThatFitsNowhereNamesMoreMachines) {
  const PurchaseAnswer answer =
      answer_of(wish_of("gpt3-175b", 64, "[{type: dgx-a100-80g, max: 2}]", ""));
  EXPECT_TRUE(answer.options.empty());
  ASSERT_TRUE(answer.unmet.has_value());
  ASSERT_FALSE(answer.unmet->other_ways.empty());
  EXPECT_NE(answer.unmet->other_ways.front().find("machines instead of 2"), std::string::npos);
}

// 12 layers, 12 heads and a batch of 6 do not employ 4,096 GPUs.
TEST(UnmetPurchase, MoreGpusThanWorkNamesFewerMachines) {
  const PurchaseAnswer answer =
      answer_of(wish_of("gpt2", 6, "[{type: dgx-a100-80g, min: 512, max: 512}]", ""));
  EXPECT_TRUE(answer.options.empty());
  ASSERT_TRUE(answer.unmet.has_value());
  const auto& ways = answer.unmet->other_ways;
  const bool fewer = std::any_of(ways.begin(), ways.end(), [](const std::string& way) {
    return way.find("machines instead of 512") != std::string::npos;
  });
  EXPECT_TRUE(fewer) << (ways.empty() ? "nothing" : ways.front());
}

// 31 layers are prime: they are dealt unevenly, and every option says how.
TEST(UnmetPurchase, PrimeLayerCountsAreNoObstacle) {
  Wish wish = wish_of("gpt-7.5b", 96, "[{type: dgx-a100-80g, max: 4}]", "");
  wish.job.transformer.num_layers = 31;
  const PurchaseAnswer answer = answer_of(wish);
  EXPECT_TRUE(answer.choice.has_value());
}

TEST(TrainingSection, SaysEveryMistakeWithItsPlace) {
  const auto scenario = scenarios::parse_scenario(
      "test.yaml", yaml_of("gpt-7.5b", 1, "megatron-core", 64) +
                       "target: {deadline: 30, budget: 5 USD, machines: [{type: dgx-h100, min: "
                       "4, max: 2}], spare: 2}\n");
  ASSERT_FALSE(scenario.has_value());
  const std::string text = model::to_text(scenario.error());
  for (const char* said :
       {"target.tokens", "'30' has no unit", "target.machines[0].min: is more than max, 2",
        "the price of dgx-h100 is not known", "target.spare: unknown key"}) {
    EXPECT_NE(text.find(said), std::string::npos) << said << " in\n" << text;
  }
}

}  // namespace
}  // namespace megatwin::tests
