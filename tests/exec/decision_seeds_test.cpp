// Many random runs of the host world, each held against the simulator. Compiled twice: a short one
// for every day, and a thousand seeds under the label slow.
#include <algorithm>
#include <memory>
#include <optional>

#include <gtest/gtest.h>

#include "exec/host_job.h"
#include "exec/lockstep.h"
#include "model/program/memory_planner.h"
#include "model/program/program_builder.h"
#include "model/rank_layout.h"
#include "policies/replay.h"
#include "sim/pipeline_simulation.h"
#include "tests/exec/decision_runs.h"
#include "tests/sim/seeds.h"

namespace megatwin::exec {
namespace {

using model::ExecutorEvent;
using model::ExecutorLog;
using model::Plan;
using tests::OrderChoice;
using tests::Random;
using tests::tiny_llama;
using tests::TinyJob;

// What meets inside of the tasks of a stage, so that a leader must decide for several ranks.
enum class RankKind { Alone, Tensor, Context, ShardedWeights, Experts };

struct RandomRun {
  Plan plan;
  RankKind kind = RankKind::Alone;
  OrderChoice choice;
};

Plan with_groups(Plan plan, RankKind kind) {
  switch (kind) {
    case RankKind::Alone:
      break;
    case RankKind::Tensor:
      plan.tensor = 2;
      break;
    case RankKind::Context:
      plan.context = 2;
      break;
    case RankKind::ShardedWeights:
      plan.data = 2;
      plan.zero_stage = 3;
      break;
    case RankKind::Experts:
      plan.data = plan.expert = 2;
      break;
  }
  return plan;
}

RandomRun random_run(std::uint64_t seed) {
  Random random(seed);
  RandomRun run;
  run.kind = static_cast<RankKind>(random.in(0, 4));
  run.plan = with_groups(tests::dynamic_plans()[seed % tests::dynamic_plans().size()], run.kind);
  run.choice.shape = run.plan.schedule;
  run.choice.decides = tests::any_policy(random);
  run.choice.live_activations_max = static_cast<int>(random.in(2, 6));
  run.choice.executor.receive_slots = static_cast<int>(random.in(1, 2));
  run.choice.executor.issue_depth = static_cast<int>(random.in(1, 3));
  return run;
}

model::Transformer model_of(const RandomRun& run) {
  return run.kind == RankKind::Experts ? tests::tiny_experts() : tiny_llama();
}

bool leads(const RandomRun& run, const HostRankReport& rank) {
  const auto groups = lockstep_groups(run.plan, HostLayout(run.plan));
  return groups[static_cast<std::size_t>(rank.rank.value)].front() == rank.rank;
}

policies::Replay replay(const RandomRun& run, const model::Program& program,
                        const std::vector<ExecutorEvent>& events) {
  const auto policy = tests::policy_of(run.choice)(program, {0});
  return policies::replay(
      {.program = program, .policy = policy.get(), .options = run.choice.executor}, events);
}

// The log's events with the last message before the decision only after what the decision followed.
std::optional<std::vector<ExecutorEvent>> after_the_decision(const ExecutorLog& log,
                                                             std::uint32_t after_event) {
  std::vector<ExecutorEvent> events = log.events;
  for (std::uint32_t index = after_event; index-- > 0;) {
    if (events[index].kind != model::ExecutorEventKind::MessageArrived) continue;
    std::rotate(events.begin() + index, events.begin() + index + 1, events.begin() + after_event);
    return events;
  }
  return std::nullopt;
}

// The first message that a decision followed, one event late: the replay has to differ. All
// messages can come while the rank is busy (seed 332): then one that a decision found is late.
testing::AssertionResult notices_one_arrival(const RandomRun& run, const model::Program& program,
                                             const ExecutorLog& log) {
  const auto differs = [&](const std::vector<ExecutorEvent>& events) {
    const policies::Replay again = replay(run, program, events);
    return !again.divergence.empty() || again.decisions != log.decisions;
  };
  for (const model::DecisionRecord& decision : log.decisions) {
    const auto events = tests::one_arrival_later(log, decision);
    if (!events) continue;
    if (differs(*events)) return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << "event " << decision.after_event - 1 << " made no difference";
  }
  for (const model::DecisionRecord& decision : log.decisions) {
    const auto events = after_the_decision(log, decision.after_event);
    if (events && differs(*events)) return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "no message makes a difference to any decision";
}

policies::Order sorted(policies::Order order) {
  std::sort(order.begin(), order.end());
  return order;
}

// The picks of the simulator under the same policy and options, forced on the host.
void force_simulated(const RandomRun& run, const sim::PipelineResult& simulated,
                     const std::vector<double>& losses) {
  TinyJob tiny(model_of(run), run.plan);
  set_order(tiny.job, run.choice);
  tiny.job.policy = [&](const model::Program& program, model::RankId) {
    return std::make_unique<policies::RecordedPicks>(
        simulated.logs[static_cast<std::size_t>(program.stage.value)].decisions);
  };
  const HostResult forced = run_host(tiny.job);
  ASSERT_FALSE(forced.fault) << to_text(*forced.fault);
  EXPECT_EQ(forced.losses, losses);
  for (const HostRankReport& rank : forced.ranks) {
    EXPECT_EQ(rank.executed, simulated.ranks[static_cast<std::size_t>(rank.stage.value)].order);
  }
}

// Delays, one or two receive slots and tight admission: no run deadlocks; every run has the bits of
// a static schedule, the tasks of the simulator, and memory as the planner finds it in the order
// that was run; its events give its decisions again, and no longer when one arrival is changed;
// what the simulator picks, forced on it, gives the same bits. Seed 4 once found a rank that was
// done with its optimizer and no longer listened for the slot of its last gradient.
TEST(DecisionSeeds, HostAndSimulatorDecideAlike) {
  TinyJob fixed(tiny_llama(), tests::dynamic_plans()[0]);
  fixed.job.steps = 1;
  const HostResult expected = run_host(fixed.job);
  for (const std::uint64_t seed : tests::seeds(MEGATWIN_DECISION_SEEDS)) {
    SCOPED_TRACE(tests::rerun_line("exec_decision_test", seed));
    const RandomRun run = random_run(seed);
    TinyJob tiny(model_of(run), run.plan);
    set_order(tiny.job, run.choice);
    tiny.job.hooks.before_task = tests::delays(seed);
    const HostResult result = run_host(tiny.job);
    ASSERT_FALSE(result.fault) << to_text(*result.fault);
    if (run.kind == RankKind::Alone) {
      EXPECT_EQ(result.losses, expected.losses);
    }
    const model::ProgramSpec spec = host_program_spec(tiny.job);
    const auto programs = build_programs(spec);
    const sim::PipelineResult simulated = simulate_pipeline(
        spec, sim::Engine::Events,
        {.policy = tests::policy_of(run.choice), .executor = run.choice.executor, .log = true});
    ASSERT_TRUE(simulated.stalled.empty()) << simulated.stalled.front();
    for (const HostRankReport& rank : result.ranks) {
      const auto stage = static_cast<std::size_t>(rank.stage.value);
      const model::MemoryPeak peak =
          model::plan_memory({pipeline_shape(spec), spec.stages[stage], rank.executed});
      EXPECT_EQ(rank.activations_max.value, peak.buffers.value);
      EXPECT_GE(rank.activations_reserved.value, peak.buffers.value);
      EXPECT_EQ(sorted(rank.executed), sorted(simulated.ranks[stage].order));
      if (!leads(run, rank)) {
        continue;
      }
      const ExecutorLog& log = rank.logs.front();
      const policies::Replay again = replay(run, programs[stage], log.events);
      ASSERT_EQ(again.divergence, "");
      ASSERT_EQ(again.decisions, log.decisions);
      ASSERT_TRUE(notices_one_arrival(run, programs[stage], log));
    }
    force_simulated(run, simulated, result.losses);
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace megatwin::exec
