// Many random runs of the host world, each held against the simulator. Compiled twice: a short one
// for every day, and a thousand seeds under the label slow.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include <gtest/gtest.h>

#include "exec/host_job.h"
#include "exec/lockstep.h"
#include "exec/model_state.h"
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

// The log's events with the last message that the decision knew of only after the next event, where
// there is one: the decision has to be taken without it.
std::optional<std::vector<ExecutorEvent>> after_the_decision(const ExecutorLog& log,
                                                             std::uint32_t after_event) {
  std::vector<ExecutorEvent> events = log.events;
  if (after_event == events.size()) {
    return std::nullopt;
  }
  for (std::uint32_t index = after_event; index-- > 0;) {
    if (events[index].kind != model::ExecutorEventKind::MessageArrived) continue;
    std::rotate(events.begin() + index, events.begin() + index + 1,
                events.begin() + after_event + 1);
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
                     const HostResult& result) {
  TinyJob tiny(model_of(run), run.plan);
  set_order(tiny.job, run.choice);
  tiny.job.policy = [&](const model::Program& program, model::RankId) {
    return std::make_unique<policies::RecordedPicks>(
        simulated.logs[static_cast<std::size_t>(program.stage.value)].decisions);
  };
  const HostResult forced = run_host(tiny.job);
  ASSERT_FALSE(forced.fault) << to_text(*forced.fault);
  EXPECT_EQ(forced.losses, result.losses);
  EXPECT_EQ(forced.weights_hash, result.weights_hash);
  for (const HostRankReport& rank : forced.ranks) {
    EXPECT_EQ(rank.executed, simulated.ranks[static_cast<std::size_t>(rank.stage.value)].order);
  }
}

// What the admission of the policies lets a rank hold: so many activations, each of which a split
// backward may turn into what the weight gradients need, and the buffers of one task. Slots are of
// one kind and chunk, so the pool is at most as many of each.
struct MemoryBound {
  MemoryBound(const model::StageCost& cost, int activations) {
    double kept = 0, passing = 0;
    for (const model::ChunkCost& chunk : cost.chunks) {
      kept = std::max({kept, chunk.activation.value, chunk.weight_gradient_input.value});
      passing = std::max({passing, chunk.forward_transient.value, chunk.backward_transient.value,
                          chunk.weight_transient.value});
      pool += activations * (chunk.activation.value + chunk.weight_gradient_input.value) +
              chunk.forward_transient.value + chunk.backward_transient.value +
              chunk.weight_transient.value;
    }
    live = activations * kept + passing;
  }
  double live = 0, pool = 0;
};

struct Trained {
  HostResult result;
  ModelState state;  // After the step.
};
Trained train(HostJob& job) {
  Trained trained;
  job.on_step = [&](const StepEnd& end) {
    trained.state = gather_state(end.state(), StatePart::WeightsAndMoments);
    return true;
  };
  trained.result = run_host(job);
  return trained;
}

// What each kind of ranks comes to under a static schedule with split backwards: a pipeline changes
// no sum, so every order and shape has to. Made when first asked for.
class StaticRuns {
 public:
  const Trained& like(const RandomRun& run) {
    const auto found = trained_.find(run.kind);
    if (found != trained_.end()) {
      return found->second;
    }
    TinyJob tiny(model_of(run), with_groups(tests::dynamic_plans()[2], run.kind));
    tiny.job.steps = 1;
    return trained_[run.kind] = train(tiny.job);
  }

 private:
  std::map<RankKind, Trained> trained_;
};

// Delays, one or two receive slots and tight admission: no run deadlocks; every run has the bits of
// a static schedule (the loss, and weights and moments after the step), the tasks of the simulator,
// and memory as the planner finds it in the order that was run, below what admission allows; its
// events give its decisions again, and no longer when one arrival is changed; what the simulator
// picks, forced on it, gives the same bits. Seed 4 once found a rank that was done with its
// optimizer and no longer listened for the slot of its last gradient.
TEST(MEGATWIN_DECISION_SUITE, HostAndSimulatorDecideAlike) {
  StaticRuns fixed;
  for (const std::uint64_t seed : tests::seeds(MEGATWIN_DECISION_SEEDS)) {
    SCOPED_TRACE(tests::rerun_line(MEGATWIN_DECISION_PROGRAM, seed));
    const RandomRun run = random_run(seed);
    TinyJob tiny(model_of(run), run.plan);
    set_order(tiny.job, run.choice);
    tiny.job.hooks.before_task = tests::delays(seed);
    const Trained trained = train(tiny.job);
    const HostResult& result = trained.result;
    ASSERT_FALSE(result.fault) << to_text(*result.fault);
    EXPECT_EQ(result.losses, fixed.like(run).result.losses);
    EXPECT_TRUE(trained.state == fixed.like(run).state);
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
      const MemoryBound bound(spec.stages[stage], run.choice.live_activations_max);
      EXPECT_LE(rank.activations_max.value, bound.live);
      EXPECT_LE(rank.activations_reserved.value, bound.pool);
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
    force_simulated(run, simulated, result);
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace megatwin::exec
