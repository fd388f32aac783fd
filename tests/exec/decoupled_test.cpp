// Forward-backward decoupling really run: forward and backward ranks train to the same bits as the
// same stages together, in the memory that was planned, and do what the simulator says.
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "exec/model_state.h"
#include "model/program/program_builder.h"
#include "policies/replay.h"
#include "sim/pipeline_simulation.h"
#include "tests/exec/decision_runs.h"
#include "tests/exec/train_tiny.h"

namespace megatwin::exec {
namespace {

using model::Plan;
using model::ScheduleKind;
using model::SideFeed;
using tests::describe;
using tests::pipeline;
using tests::tiny_experts;
using tests::tiny_gpt;
using tests::tiny_llama;
using tests::TinyJob;
using tests::train;

constexpr SideFeed kFeeds[] = {SideFeed::StageInput, SideFeed::Activations};

Plan decoupled(Plan plan, SideFeed feed) {
  plan.schedule = ScheduleKind::Decoupled;
  plan.decoupled.ship_activations = feed == SideFeed::Activations;
  return plan;
}

Plan one_f_one_b(int p) { return pipeline(ScheduleKind::OneForwardOneBackward, p); }

// What a run ends with, and how it got there.
struct Trained {
  std::vector<double> losses, norms;
  std::uint64_t weights_hash = 0;
  ModelState state;
  friend bool operator==(const Trained&, const Trained&) = default;
};
Trained train_to_the_end(const model::Transformer& transformer, const Plan& plan,
                         std::int64_t batch = 8) {
  TinyJob tiny(transformer, plan);
  tiny.job.plan.global_batch = batch;
  tiny.job.gradient_norm_max = 0.05;
  Trained trained;
  tiny.job.on_step = [&](const StepEnd& end) {
    trained.state = gather_state(end.state(), StatePart::WeightsAndMoments);
    return true;
  };
  const HostResult result = train(tiny.job);
  trained.losses = result.losses;
  trained.norms = result.gradient_norms;
  trained.weights_hash = result.weights_hash;
  return trained;
}

TEST(Decoupled, TrainsToTheBitsOfOneRank) {
  for (const auto& transformer : {tiny_llama(), tiny_gpt()}) {
    const Trained single = train_to_the_end(transformer, {});
    ASSERT_FALSE(single.state.empty());
    for (const int p : {1, 2, 4}) {
      for (const SideFeed feed : kFeeds) {
        const Plan plan = decoupled(one_f_one_b(p), feed);
        EXPECT_TRUE(train_to_the_end(transformer, plan) == single)
            << transformer.name << " " << describe(plan);
      }
    }
  }
}

// Both ends add to one matrix; over stages that is a sum in another order than on one rank.
TEST(Decoupled, TiedEndsToTheBitsOf1f1b) {
  for (const int p : {1, 2, 4}) {
    const Trained together = train_to_the_end(tests::tied(tiny_gpt()), one_f_one_b(p));
    for (const SideFeed feed : kFeeds) {
      const Plan plan = decoupled(one_f_one_b(p), feed);
      EXPECT_TRUE(train_to_the_end(tests::tied(tiny_gpt()), plan) == together) << describe(plan);
    }
  }
}

TEST(Decoupled, AnyNumberOfMicroBatches) {
  for (const std::int64_t m : {1, 2, 3, 9}) {
    const Trained single = train_to_the_end(tiny_llama(), {}, m);
    for (const SideFeed feed : kFeeds) {
      const Plan plan = decoupled(one_f_one_b(2), feed);
      EXPECT_TRUE(train_to_the_end(tiny_llama(), plan, m) == single) << m;
    }
  }
}

// Groups sum in the order in which those of a coupled pipeline do.
TEST(Decoupled, InGroupsToTheBitsOfTheSameGroupsTogether) {
  std::vector<Plan> plans;
  for (int zero = 0; zero <= 3; ++zero) {
    plans.push_back(one_f_one_b(2));
    plans.back().data = 2;
    plans.back().zero_stage = zero;
  }
  for (const bool sequence_parallel : {false, true}) {
    plans.push_back(one_f_one_b(2));
    plans.back().tensor = 2;
    plans.back().sequence_parallel = sequence_parallel;
  }
  plans.push_back(one_f_one_b(1));
  plans.back().context = 2;
  plans.push_back(one_f_one_b(2));
  plans.back().recompute = model::RecomputeKind::Full;
  for (const Plan& plan : plans) {
    const Trained together = train_to_the_end(tiny_llama(), plan);
    for (const SideFeed feed : kFeeds) {
      EXPECT_TRUE(train_to_the_end(tiny_llama(), decoupled(plan, feed)) == together)
          << describe(plan);
    }
  }
}

TEST(Decoupled, Experts) {
  Plan plan = one_f_one_b(2);
  plan.data = plan.expert = 2;
  const Trained together = train_to_the_end(tiny_experts(), plan);
  for (const SideFeed feed : kFeeds) {
    EXPECT_TRUE(train_to_the_end(tiny_experts(), decoupled(plan, feed)) == together);
  }
}

// A forward rank holds weights and the activations of the one micro-batch that it runs.
TEST(Decoupled, ForwardRanksKeepWeightsOnly) {
  TinyJob tiny(tiny_llama(), decoupled(one_f_one_b(2), SideFeed::StageInput));
  const HostResult result = train(tiny.job);
  ASSERT_EQ(result.ranks.size(), 4u);
  const auto specs = host_program_specs(tiny.job);
  for (std::size_t stage = 0; stage < 2; ++stage) {
    const HostRankReport& forward = result.ranks[stage];
    const HostRankReport& backward = result.ranks[2 + stage];
    EXPECT_EQ(forward.state, specs[0].stages[stage].parameters);
    // Weights, gradients and two moments.
    EXPECT_EQ(backward.state.value, 4 * forward.state.value);
    const model::ChunkCost& chunk = specs[0].stages[stage].chunks.front();
    EXPECT_EQ(forward.activations_max, chunk.activation + chunk.forward_transient);
  }
}

TEST(Decoupled, SaysWhatIsSimulatedOnly) {
  const auto problems_of = [](const std::function<void(model::DecoupledPlan&)>& change) {
    TinyJob tiny(tiny_llama(), decoupled(one_f_one_b(2), SideFeed::StageInput));
    change(tiny.job.plan.decoupled);
    return host_job_problems(tiny.job);
  };
  EXPECT_TRUE(problems_of([](auto&) {}).empty());
  const auto says = [&](const std::function<void(model::DecoupledPlan&)>& change,
                        const char* words) {
    const auto problems = problems_of(change);
    ASSERT_EQ(problems.size(), 1u) << words;
    EXPECT_NE(problems.front().find(words), std::string::npos) << problems.front();
  };
  says([](auto& plan) { plan.forward.instances = 2; }, "instances are 2 and 1");
  says([](auto& plan) { plan.backward.tensor = 2; }, "tensor are 1 and 2");
  says([](auto& plan) { plan.balance_weights = true; }, "weight_gradients_on_forward");
  says([](auto& plan) { plan.weight_share = 0.5; }, "weight_gradients_on_forward");
}

// The simulator, of the same programs, runs the same tasks of each rank in the same order, forced
// by the other's picks or not; and every decision comes out of the log again.
TEST(Decoupled, BothWorldsDecideAlike) {
  for (const int p : {1, 2, 4}) {
    for (const SideFeed feed : kFeeds) {
      TinyJob tiny(tiny_llama(), decoupled(one_f_one_b(p), feed));
      tiny.job.steps = 1;
      tiny.job.log = true;
      tiny.job.hooks.before_task = tests::delays(static_cast<std::uint64_t>(p));
      const HostResult host = run_host(tiny.job);
      ASSERT_FALSE(host.fault) << to_text(*host.fault);
      const auto specs = host_program_specs(tiny.job);
      const auto programs = build_programs(specs);
      const auto orders = policies::schedule_orders(specs);
      const sim::PipelineResult simulated = sim::simulate_sides(specs, {.log = true});
      const auto forced = [&](const model::Program&, model::RankId rank) {
        return std::make_unique<policies::RecordedPicks>(
            host.ranks[static_cast<std::size_t>(rank.value)].logs.front().decisions);
      };
      const sim::PipelineResult obeying = sim::simulate_sides(specs, {.policy = forced});
      ASSERT_TRUE(obeying.stalled.empty());
      ASSERT_EQ(simulated.ranks.size(), host.ranks.size());
      for (std::size_t rank = 0; rank < host.ranks.size(); ++rank) {
        EXPECT_EQ(simulated.ranks[rank].order, host.ranks[rank].executed);
        EXPECT_EQ(obeying.ranks[rank].order, host.ranks[rank].executed);
        const std::pair logs{&host.ranks[rank].logs.front(), &simulated.logs[rank]};
        for (const model::ExecutorLog* log : {logs.first, logs.second}) {
          const policies::Replay again = policies::replay({.program = programs[rank],
                                                           .source = policies::OrderSource::List,
                                                           .order = orders[rank],
                                                           .options = tiny.job.executor},
                                                          log->events);
          EXPECT_EQ(again.divergence, "");
          EXPECT_EQ(again.decisions, log->decisions);
        }
        // The same events, if not in the same order.
        EXPECT_EQ(logs.first->events.size(), logs.second->events.size());
      }
    }
  }
}

// A lost feed or room, out of the log: the replay must notice.
TEST(Decoupled, OneCrossingLessGivesOtherDecisions) {
  TinyJob tiny(tiny_llama(), decoupled(one_f_one_b(2), SideFeed::Activations));
  tiny.job.steps = 1;
  tiny.job.log = true;
  const HostResult host = run_host(tiny.job);
  ASSERT_FALSE(host.fault);
  const auto specs = host_program_specs(tiny.job);
  const auto programs = build_programs(specs);
  const auto orders = policies::schedule_orders(specs);
  int num_lost = 0;
  for (std::size_t rank = 0; rank < host.ranks.size(); ++rank) {
    const model::ExecutorLog& log = host.ranks[rank].logs.front();
    for (std::size_t event = 0; event < log.events.size(); ++event) {
      if (log.events[event].kind != model::ExecutorEventKind::MessageArrived) continue;
      if (!programs[rank].awaits_crossing({log.events[event].id})) continue;
      std::vector<model::ExecutorEvent> events = log.events;
      events.erase(events.begin() + static_cast<std::ptrdiff_t>(event));
      const policies::Replay again = policies::replay({.program = programs[rank],
                                                       .source = policies::OrderSource::List,
                                                       .order = orders[rank],
                                                       .options = tiny.job.executor},
                                                      events);
      EXPECT_TRUE(!again.divergence.empty() || again.decisions != log.decisions);
      ++num_lost;
    }
  }
  EXPECT_GT(num_lost, 16);  // Eight feeds a stage, and room for five forwards of each.
}

}  // namespace
}  // namespace megatwin::exec
