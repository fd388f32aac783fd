// The host world, whose tasks sleep as long as the simulator's last, picks what the simulator
// picks. By the wall clock: only durations are taken whose order of picks is that of durations a
// few milliseconds longer, too, and a busy machine gets several tries.
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "exec/host_job.h"
#include "sim/pipeline_costs.h"
#include "sim/pipeline_simulation.h"
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

// Every task of a chunk of a stage as long as all others of its kind there, 8 to 40 ms.
// Messages take a little, so that their sender goes on before anybody has them, as on the host.
void draw_durations(ProgramSpec& spec, Random& random) {
  spec.hops.clear();
  spec.send_activation = spec.send_gradient = Instant{kMillisecond / 5};
  const auto draw = [&] { return Instant{random.in(8 * kMillisecond, 40 * kMillisecond)}; };
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

std::vector<Order> host_orders(tests::TinyJob& tiny, const ProgramSpec& spec) {
  const sim::PipelineCosts costs = sim::pipeline_costs({sim::replica_class(spec)});
  tiny.job.hooks.before_task = [&](const TaskMoment& moment) {
    std::this_thread::sleep_for(duration_of(costs, moment));
  };
  const HostResult result = run_host(tiny.job);
  EXPECT_FALSE(result.fault.has_value());
  std::vector<Order> orders;
  for (const HostRankReport& rank : result.ranks) orders.push_back(rank.executed);
  return orders;
}

TEST(SameDurations, HostPicksAsTheSimulatorDoes) {
  int compared = 0, by_durations = 0;
  for (std::uint64_t seed = 1; compared < 12; ++seed) {
    ASSERT_LE(seed, 200U) << "too few durations that say which event comes first";
    SCOPED_TRACE(seed);
    Random random(seed);
    const model::Plan& plan = tests::dynamic_plans()[seed % tests::dynamic_plans().size()];
    const OrderChoice choice = random_choice(random, plan);
    tests::TinyJob tiny(tests::tiny_llama(), plan);
    set_order(tiny.job, choice);
    ProgramSpec spec = host_program_spec(tiny.job);
    const std::vector<Order> timeless = simulated_orders(spec, choice);
    draw_durations(spec, random);
    const std::vector<Order> expected = simulated_orders(spec, choice);
    bool clear = true;
    for (int again = 0; again < 8 && clear; ++again) {
      clear = simulated_orders(lengthened(spec, random), choice) == expected;
    }
    if (!clear) continue;
    bool same = false;
    for (int attempt = 0; attempt < 6 && !same; ++attempt) {
      same = host_orders(tiny, spec) == expected;
    }
    EXPECT_TRUE(same);
    ++compared;
    by_durations += expected != timeless;
  }
  EXPECT_GT(by_durations, 0);
}

}  // namespace
}  // namespace megatwin::exec
