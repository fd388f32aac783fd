// The host world, whose tasks sleep as long as the simulator's last, picks what the simulator
// picks. By the wall clock: only durations are taken whose order of picks is that of durations a
// few milliseconds longer, too, and a busy machine gets several tries.
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "exec/host_job.h"
#include "policies/policy_choice.h"
#include "sim/pipeline_costs.h"
#include "sim/pipeline_simulation.h"
#include "tests/exec/bounded_scenario.h"
#include "tests/exec/decision_runs.h"

namespace megatwin::exec {
namespace {

using model::Instant;
using model::ProgramSpec;
using policies::Order;
using tests::OrderChoice;
using tests::Random;

constexpr std::int64_t kMillisecond = 1'000'000;

OrderChoice random_choice(Random& random, const model::Plan& plan) {
  OrderChoice choice;
  choice.shape = plan.schedule;
  choice.decides = tests::any_policy(random);
  choice.live_activations_max = static_cast<int>(random.in(2, 6));
  choice.executor.issue_depth = static_cast<int>(random.in(1, 3));
  return choice;
}

// Every task of a chunk of a stage as long as all others of its kind there, 8 to 40 ms; or short
// and long, so that a sender is often busy when its receiver frees a slot. Messages take a little,
// so that their sender goes on before anybody has them, as on the host.
void draw_durations(ProgramSpec& spec, Random& random, bool uneven) {
  spec.hops.clear();
  spec.send_activation = spec.send_gradient = Instant{kMillisecond / 5};
  const auto draw = [&] {
    if (!uneven) return Instant{random.in(8 * kMillisecond, 40 * kMillisecond)};
    return Instant{random.coin() ? random.in(4 * kMillisecond, 10 * kMillisecond)
                                 : random.in(30 * kMillisecond, 70 * kMillisecond)};
  };
  for (model::StageCost& stage : spec.stages) {
    for (model::ChunkCost& chunk : stage.chunks) {
      chunk.forward = draw();
      chunk.backward_input = draw();
      chunk.backward_weight = draw();
      chunk.backward = draw();
    }
  }
}

ProgramSpec lengthened(ProgramSpec spec, Random& random) {
  for (model::StageCost& stage : spec.stages) {
    for (model::ChunkCost& chunk : stage.chunks) {
      for (Instant* duration :
           {&chunk.forward, &chunk.backward_input, &chunk.backward_weight, &chunk.backward}) {
        duration->ns += random.in(0, 3 * kMillisecond);
      }
    }
  }
  return spec;
}

std::chrono::nanoseconds duration_of(const sim::PipelineCosts& costs, const TaskMoment& moment) {
  int phase = 0;
  while (costs.shape.kind_of(phase) != moment.task.kind) ++phase;
  // One rank a stage: they have the same numbers.
  return std::chrono::nanoseconds(
      costs.task[costs.task_index(0, moment.rank.value, phase, moment.task.chunk.value)]);
}

std::vector<Order> simulated_orders(const ProgramSpec& spec, const OrderChoice& choice) {
  const sim::PipelineResult result = simulate_pipeline(
      spec, sim::Engine::Events, {.policy = tests::policy_of(choice), .executor = choice.executor});
  EXPECT_TRUE(result.stalled.empty());
  std::vector<Order> orders;
  for (const sim::RankResult& rank : result.ranks) orders.push_back(rank.order);
  return orders;
}

std::vector<Order> host_orders(HostJob& job, const ProgramSpec& spec) {
  const sim::PipelineCosts costs = sim::pipeline_costs({sim::replica_class(spec)});
  job.hooks.before_task = [&](const TaskMoment& moment) {
    std::this_thread::sleep_for(duration_of(costs, moment));
  };
  const HostResult result = run_host(job);
  EXPECT_FALSE(result.fault.has_value());
  std::vector<Order> orders;
  for (const HostRankReport& rank : result.ranks) orders.push_back(rank.executed);
  return orders;
}

// Random jobs whose order of picks is that of durations a few milliseconds longer, too, until
// `wanted` have been compared; how many of them had another order than without durations.
int compare_random_jobs(int receive_slots, int wanted) {
  int compared = 0, by_durations = 0;
  for (std::uint64_t seed = 1; compared < wanted; ++seed) {
    EXPECT_LE(seed, 400U) << "too few durations that say which event comes first";
    if (seed > 400) break;
    SCOPED_TRACE(seed);
    Random random(seed);
    const model::Plan& plan = tests::dynamic_plans()[seed % tests::dynamic_plans().size()];
    OrderChoice choice = random_choice(random, plan);
    choice.executor.receive_slots = receive_slots;
    // Little is held back where little may be under way.
    if (receive_slots > 0 && random.coin()) choice.live_activations_max = 0;
    tests::TinyJob tiny(tests::tiny_llama(), plan);
    set_order(tiny.job, choice);
    ProgramSpec spec = host_program_spec(tiny.job);
    const std::vector<Order> timeless = simulated_orders(spec, choice);
    draw_durations(spec, random, receive_slots > 0);
    const std::vector<Order> expected = simulated_orders(spec, choice);
    bool clear = true;
    for (int again = 0; again < 8 && clear; ++again) {
      clear = simulated_orders(lengthened(spec, random), choice) == expected;
    }
    if (!clear) continue;
    bool same = false;
    for (int attempt = 0; attempt < 6 && !same; ++attempt) {
      same = host_orders(tiny.job, spec) == expected;
    }
    EXPECT_TRUE(same);
    ++compared;
    by_durations += expected != timeless;
  }
  return by_durations;
}

TEST(SameDurations, HostPicksAsTheSimulatorDoes) { EXPECT_GT(compare_random_jobs(0, 12), 0); }

// A message that waits for a slot leaves when the slot is free, whatever its sender is at.
TEST(SameDurations, WithOneReceiveSlot) { EXPECT_GT(compare_random_jobs(1, 24), 0); }
TEST(SameDurations, WithTwoReceiveSlots) { EXPECT_GT(compare_random_jobs(2, 24), 0); }

// A scenario with a bound of live activations, as `megatwin simulate` decides it with the memory of
// its GPUs and as `megatwin train` runs it. Tight, so that the adaptive policy has to switch.
TEST(SameDurations, OfAScenarioWithBoundedActivations) {
  for (const int slots : {0, 1, 2}) {
    int compared = 0;
    for (std::uint64_t seed = 1; seed <= 60 && compared < 3; ++seed) {
      SCOPED_TRACE(std::to_string(slots) + " slots, seed " + std::to_string(seed));
      const tests::BoundedScenario scenario(
          {.schedule = "dpp", .live_activations = 4, .receive_slots = slots});
      const auto expected = scenario.orders_in_simulate(seed);
      const ProgramSpec spec = tests::BoundedScenario::timed(scenario.host(), seed);
      Random random(seed);
      const auto longer = [&] {
        sim::SimulationOptions options;
        options.executor = policies::executor_options_of(scenario.job().plan);
        options.policy = policies::policy_of(scenario.job().plan);
        std::vector<Order> orders;
        for (const sim::RankResult& rank :
             simulate_pipeline(lengthened(spec, random), sim::Engine::Events, options).ranks) {
          orders.push_back(rank.order);
        }
        return orders;
      };
      bool clear = true;
      for (int again = 0; again < 8 && clear; ++again) clear = longer() == expected;
      if (!clear) continue;
      tests::ScenarioJob host(scenario);
      host.job.steps = 1;
      bool same = false;
      for (int attempt = 0; attempt < 6 && !same; ++attempt) {
        same = host_orders(host.job, spec) == expected;
      }
      EXPECT_TRUE(same);
      ++compared;
    }
    EXPECT_EQ(compared, 3) << slots << " slots: too few durations that say which event comes first";
  }
}

}  // namespace
}  // namespace megatwin::exec
