// Policies that decide while the step runs: the log of a simulated run holds all that they need to
// decide the same again, and limits of memory and slots hold.
#include <cstring>
#include <memory>

#include <gtest/gtest.h>

#include "model/program/memory_planner.h"
#include "model/program/program_builder.h"
#include "policies/replay.h"
#include "sim/pipeline_simulation.h"
#include "tests/policies/greedy_policy.h"
#include "tests/sim/every_plan.h"
#include "tests/sim/seeds.h"
#include "tests/sim/timelines.h"

namespace megatwin::sim {
namespace {

using model::DecisionRecord;
using model::ExecutorEvent;
using model::ExecutorEventKind;
using model::ExecutorLog;
using tests::Random;

SimulationOptions greedy() {
  return {.timeline = true, .policy = tests::greedy_factory(), .log = true};
}

policies::Replay replay_greedy(const model::Program& program,
                               const policies::ExecutorOptions& options,
                               const std::vector<ExecutorEvent>& events) {
  tests::GreedyPolicy policy;
  return policies::replay({.program = program, .policy = &policy, .options = options}, events);
}

bool same_bytes(const std::vector<DecisionRecord>& a, const std::vector<DecisionRecord>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(DecisionRecord)) == 0;
}

TEST(DynamicPolicy, DecisionsComeOutOfTheEventsAgain) {
  for (const std::uint64_t seed : tests::seeds(100)) {
    Random random(seed);
    const model::ProgramSpec spec = tests::random_plan(random);
    SCOPED_TRACE(tests::rerun_line("sim_property_test", seed));
    const PipelineResult result = simulate_pipeline(spec, Engine::Events, greedy());
    ASSERT_TRUE(result.stalled.empty());
    const auto programs = build_programs(spec);
    for (std::size_t rank = 0; rank < programs.size(); ++rank) {
      const ExecutorLog& log = result.logs[rank];
      const policies::Replay again = replay_greedy(programs[rank], {}, log.events);
      ASSERT_EQ(again.divergence, "");
      ASSERT_TRUE(same_bytes(again.decisions, log.decisions)) << "rank " << rank;
    }
  }
}

// The replay would prove nothing if it did not notice. Each message that a decision followed is
// made one event late: the decision then sees something else, or is taken elsewhere.
TEST(DynamicPolicy, OneArrivalChangedGivesOtherDecisions) {
  int num_changed = 0;
  for (const std::uint64_t seed : tests::seeds(30)) {
    Random random(seed);
    const model::ProgramSpec spec = tests::random_plan(random);
    SCOPED_TRACE(tests::rerun_line("sim_property_test", seed));
    const PipelineResult result = simulate_pipeline(spec, Engine::Events, greedy());
    const auto programs = build_programs(spec);
    for (std::size_t rank = 0; rank < programs.size(); ++rank) {
      const ExecutorLog& log = result.logs[rank];
      for (const DecisionRecord& decision : log.decisions) {
        const std::size_t index = decision.after_event - 1;
        if (log.events[index].kind != ExecutorEventKind::MessageArrived) {
          continue;
        }
        if (index + 1 == log.events.size()) {
          continue;
        }
        std::vector<ExecutorEvent> events = log.events;
        std::swap(events[index], events[index + 1]);
        const policies::Replay again = replay_greedy(programs[rank], {}, events);
        ASSERT_TRUE(!again.divergence.empty() || !same_bytes(again.decisions, log.decisions))
            << "rank " << rank << " event " << index;
        ++num_changed;
      }
    }
  }
  EXPECT_GT(num_changed, 100);
}

// A duration that falls into another sixty-fourth of an octave is seen by the policy.
TEST(DynamicPolicy, OneDurationChangedGivesOtherDecisions) {
  Random random(7);
  model::ProgramSpec spec = tests::random_spec(random, model::ScheduleKind::Interleaved, 3, 2, 6);
  const PipelineResult result = simulate_pipeline(spec, Engine::Events, greedy());
  const auto programs = build_programs(spec);
  std::vector<ExecutorEvent> events = result.logs[1].events;
  for (ExecutorEvent& event : events) {
    if (event.kind != ExecutorEventKind::TaskDone) {
      continue;
    }
    event.duration = static_cast<model::QuantisedDuration>(event.duration + 64);
    break;
  }
  EXPECT_FALSE(
      same_bytes(replay_greedy(programs[1], {}, events).decisions, result.logs[1].decisions));
}

// Forcing the picks of a log on the same world gives the same step.
TEST(DynamicPolicy, RecordedPicksGiveTheSameTimeline) {
  for (const std::uint64_t seed : tests::seeds(50)) {
    Random random(seed);
    const model::ProgramSpec spec = tests::random_plan(random);
    SCOPED_TRACE(tests::rerun_line("sim_property_test", seed));
    const PipelineResult result = simulate_pipeline(spec, Engine::Events, greedy());
    SimulationOptions forced = greedy();
    forced.policy = [&](const model::Program&, model::RankId rank) {
      return std::make_unique<policies::RecordedPicks>(
          result.logs[static_cast<std::size_t>(rank.value)].decisions);
    };
    const PipelineResult again = simulate_pipeline(spec, Engine::Events, forced);
    ASSERT_TRUE(tests::same_timeline(result.timeline, again.timeline));
  }
}

// A dynamic order must be as complete as a static one, and its shares must sum up.
TEST(DynamicPolicy, RunsEveryTaskOnceOnEverySmallPlan) {
  tests::visit_every_plan([](const model::ProgramSpec& spec) {
    SCOPED_TRACE(tests::describe(spec));
    const PipelineResult result = simulate_pipeline(spec, Engine::Events, greedy());
    ASSERT_TRUE(result.stalled.empty());
    for (const RankResult& rank : result.ranks) {
      policies::Order order = rank.order;
      std::sort(order.begin(), order.end());
      ASSERT_EQ(std::ssize(order), result.shape.num_tasks());
      for (std::int32_t id = 0; id < result.shape.num_tasks(); ++id) {
        ASSERT_EQ(order[static_cast<std::size_t>(id)].value, id);
      }
      ASSERT_EQ(rank.compute + rank.optimizer + rank.exposed_p2p + rank.exposed_data_parallel +
                    rank.bubble,
                result.makespan);
    }
  });
}

// Prefers the forward, then the latest micro-batch.
class LatestFirstPolicy : public policies::Policy {
 public:
  std::optional<model::TaskId> pick(const policies::Observation& observation) override {
    const model::PipelineShape& shape = observation.program.shape;
    for (auto id = observation.ready.rbegin(); id != observation.ready.rend(); ++id) {
      if (shape.task(*id).kind == model::TaskKind::Forward) {
        return *id;
      }
    }
    return observation.ready.back();
  }
  std::string state_line() const override { return "latest-first"; }
};

// Gradients of a chunk add up in the order of the micro-batches whatever a policy prefers, unless
// that is lifted.
TEST(DynamicPolicy, GradientsComeInOrder) {
  Random random(3);
  const model::ProgramSpec spec =
      tests::random_spec(random, model::ScheduleKind::ZeroBubbleV, 3, 2, 8);
  SimulationOptions options;
  options.policy = [](const model::Program&, model::RankId) {
    return std::make_unique<LatestFirstPolicy>();
  };
  for (const bool in_order : {true, false}) {
    options.executor.gradients_in_order = in_order;
    const PipelineResult result = simulate_pipeline(spec, Engine::Events, options);
    ASSERT_TRUE(result.stalled.empty());
    int out_of_order = 0;
    for (const RankResult& rank : result.ranks) {
      int next[2] = {0, 0};
      for (const model::TaskId id : rank.order) {
        const model::Task task = result.shape.task(id);
        if (task.kind != model::TaskKind::BackwardWeight) {
          continue;
        }
        out_of_order += task.micro_batch.value == next[task.chunk.value]++ ? 0 : 1;
      }
    }
    EXPECT_EQ(out_of_order == 0, in_order);
  }
}

// Room for 3 activations of 100 bytes a stage: the greedy policy, which else would run all its
// forwards ahead, stays below the limit in the account of the planner too.
TEST(DynamicPolicy, StaysBelowTheMemoryLimit) {
  const model::ProgramSpec spec =
      tests::uniform_spec({model::ScheduleKind::OneForwardOneBackward, 4, 1, 12, 10, 12, 8});
  SimulationOptions options = greedy();
  const auto peak_of = [&](const PipelineResult& result, std::size_t rank) {
    return model::plan_memory({result.shape, spec.stages[rank], result.ranks[rank].order}).total();
  };
  EXPECT_GT(peak_of(simulate_pipeline(spec, Engine::Events, options), 0).value, 300);
  options.executor.memory_limit = {300};
  const PipelineResult result = simulate_pipeline(spec, Engine::Events, options);
  ASSERT_TRUE(result.stalled.empty());
  for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
    EXPECT_LE(peak_of(result, rank).value, 300);
  }
}

// With one receive slot a channel, no more than one message per channel waits at a receiver.
TEST(DynamicPolicy, MessagesWaitForReceiveSlots) {
  model::ProgramSpec spec =
      tests::uniform_spec({model::ScheduleKind::OneForwardOneBackward, 4, 1, 12, 10, 12, 8});
  spec.stages[1].speed = 3;
  spec.overlap_p2p = true;
  spec.send_activation = spec.send_gradient = {2};
  for (const int slots : {1, 2}) {
    SimulationOptions options = greedy();
    options.executor.receive_slots = slots;
    const PipelineResult result = simulate_pipeline(spec, Engine::Events, options);
    ASSERT_TRUE(result.stalled.empty());
    const auto programs = build_programs(spec);
    int most = 0;
    for (std::size_t rank = 0; rank < programs.size(); ++rank) {
      int waiting[model::kNumChannels] = {};
      for (const ExecutorEvent& event : result.logs[rank].events) {
        if (event.kind != ExecutorEventKind::MessageArrived &&
            event.kind != ExecutorEventKind::TaskDone) {
          continue;
        }
        const auto& message = programs[rank].receives[static_cast<std::size_t>(event.id)];
        if (!message.exists()) {
          continue;
        }
        waiting[message.channel] += event.kind == ExecutorEventKind::MessageArrived ? 1 : -1;
        most = std::max(most, waiting[message.channel]);
      }
      const policies::Replay again =
          replay_greedy(programs[rank], options.executor, result.logs[rank].events);
      EXPECT_TRUE(same_bytes(again.decisions, result.logs[rank].decisions));
    }
    EXPECT_EQ(most, slots);
  }
}

TEST(DynamicPolicy, SaysWhoStalled) {
  const model::ProgramSpec spec =
      tests::uniform_spec({model::ScheduleKind::OneForwardOneBackward, 2, 1, 3, 10, 12, 8});
  SimulationOptions idle = greedy();
  idle.policy = [](const model::Program&, model::RankId) {
    return std::make_unique<tests::IdlePolicy>();
  };
  EXPECT_EQ(simulate_pipeline(spec, Engine::Events, idle).stalled.size(), 2u);
  SimulationOptions tight = greedy();
  tight.executor.memory_limit = {99};  // An activation has 100.
  const PipelineResult result = simulate_pipeline(spec, Engine::Events, tight);
  ASSERT_EQ(result.stalled.size(), 2u);
  EXPECT_EQ(result.stalled[0],
            "rank 0, stage 0, ran 0 of 6 tasks; then F0.0 and 2 more forwards do not fit below the "
            "memory limit");
}

// Logs of static orders replay too.
TEST(DynamicPolicy, AStaticOrderReplays) {
  Random random(11);
  const model::ProgramSpec spec =
      tests::random_spec(random, model::ScheduleKind::Interleaved, 3, 2, 6);
  const PipelineResult result = simulate_pipeline(spec, Engine::Events, {.log = true});
  const auto programs = build_programs(spec);
  const auto orders = policies::schedule_orders(spec);
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    const policies::Replay again = policies::replay(
        {.program = programs[rank], .source = policies::OrderSource::List, .order = orders[rank]},
        result.logs[rank].events);
    EXPECT_TRUE(same_bytes(again.decisions, result.logs[rank].decisions));
    EXPECT_EQ(std::ssize(again.decisions), programs[rank].num_tasks());
  }
}

}  // namespace
}  // namespace megatwin::sim
