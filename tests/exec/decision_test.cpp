// The same Executor and the same policies in the host world and in the simulator: what one world
// decided comes out again in the other, and from the log alone.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "exec/host_job.h"
#include "model/program/memory_planner.h"
#include "model/program/program_builder.h"
#include "policies/dynamic_pipeline.h"
#include "policies/replay.h"
#include "sim/pipeline_simulation.h"
#include "tests/exec/tiny_jobs.h"
#include "tests/policies/greedy_policy.h"
#include "tests/sim/pipeline_specs.h"
#include "tests/sim/seeds.h"

namespace megatwin::exec {
namespace {

using model::DecisionRecord;
using model::ExecutorEvent;
using model::ExecutorEventKind;
using model::ExecutorLog;
using model::Plan;
using model::ScheduleKind;
using policies::DynamicPipelineOptions;
using policies::Traversal;
using tests::tiny_llama;
using tests::TinyJob;

bool same_bytes(const std::vector<DecisionRecord>& a, const std::vector<DecisionRecord>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(DecisionRecord)) == 0;
}

// One step of a pipeline, with the order decided while it runs.
Plan pipeline(ScheduleKind schedule, int p, int v) {
  Plan plan;
  plan.schedule = schedule;
  plan.pipeline = p;
  plan.model_chunks = v;
  return plan;
}

void make_dynamic(HostJob& job, const DynamicPipelineOptions& options) {
  job.steps = 1;
  job.log = true;
  job.policy = policies::dynamic_pipeline_factory(options);
}

// Sleeps up to 200 µs before some tasks, from the seed.
std::function<void(const TaskMoment&)> delays(std::uint64_t seed) {
  return [seed](const TaskMoment& moment) {
    tests::Random random(seed ^ static_cast<std::uint64_t>(1000 * moment.rank.value +
                                                           100 * moment.task.chunk.value +
                                                           10 * moment.task.micro_batch.value +
                                                           static_cast<int>(moment.task.kind)));
    if (random.coin()) {
      std::this_thread::sleep_for(std::chrono::microseconds(random.in(0, 200)));
    }
  };
}

policies::Replay replay(const model::Program& program, const DynamicPipelineOptions& options,
                        const policies::ExecutorOptions& executor,
                        const std::vector<ExecutorEvent>& events) {
  policies::DynamicPipelinePolicy policy(options);
  return policies::replay({.program = program, .policy = &policy, .options = executor}, events);
}

const std::vector<Plan>& plans() {
  static const std::vector<Plan> kPlans = {pipeline(ScheduleKind::Interleaved, 2, 2),
                                           pipeline(ScheduleKind::OneForwardOneBackward, 4, 1),
                                           pipeline(ScheduleKind::ZeroBubbleV, 2, 2)};
  return kPlans;
}

TEST(Decisions, ComeOutOfTheEventsOfAHostRunAgain) {
  for (const Plan& plan : plans()) {
    for (const auto traversal : {Traversal::BreadthFirst, Traversal::DepthFirst}) {
      TinyJob tiny(tiny_llama(), plan);
      const DynamicPipelineOptions options{.traversal = traversal};
      make_dynamic(tiny.job, options);
      tiny.job.hooks.before_task = delays(1);
      const HostResult result = run_host(tiny.job);
      ASSERT_FALSE(result.fault) << to_text(*result.fault);
      const auto programs = build_programs(host_program_spec(tiny.job));
      for (const HostRankReport& rank : result.ranks) {
        const auto& program = programs[static_cast<std::size_t>(rank.stage.value)];
        const ExecutorLog& log = rank.logs.front();
        const policies::Replay again = replay(program, options, {}, log.events);
        ASSERT_EQ(again.divergence, "");
        EXPECT_TRUE(same_bytes(again.decisions, log.decisions));
      }
    }
  }
}

// Each message that a decision followed, made one event late: the replay must notice.
TEST(Decisions, OneArrivalChangedGivesOthers) {
  TinyJob tiny(tiny_llama(), plans()[0]);
  make_dynamic(tiny.job, {});
  const HostResult result = run_host(tiny.job);
  ASSERT_FALSE(result.fault);
  const auto programs = build_programs(host_program_spec(tiny.job));
  int num_changed = 0;
  for (const HostRankReport& rank : result.ranks) {
    const auto& program = programs[static_cast<std::size_t>(rank.stage.value)];
    const ExecutorLog& log = rank.logs.front();
    for (const DecisionRecord& decision : log.decisions) {
      const std::size_t index = decision.after_event - 1;
      if (log.events[index].kind != ExecutorEventKind::MessageArrived ||
          index + 1 == log.events.size()) {
        continue;
      }
      std::vector<ExecutorEvent> events = log.events;
      std::swap(events[index], events[index + 1]);
      const policies::Replay again = replay(program, {}, {}, events);
      EXPECT_TRUE(!again.divergence.empty() || !same_bytes(again.decisions, log.decisions));
      ++num_changed;
    }
  }
  EXPECT_GT(num_changed, 0);
}

// The picks of either world, forced on the other.
TEST(Decisions, OfOneWorldRunInTheOther) {
  for (const Plan& plan : plans()) {
    TinyJob tiny(tiny_llama(), plan);
    make_dynamic(tiny.job, {});
    const HostResult host = run_host(tiny.job);
    ASSERT_FALSE(host.fault);
    const model::ProgramSpec spec = host_program_spec(tiny.job);
    const auto forced_on = [](const std::vector<const ExecutorLog*>& logs) {
      return [logs](const model::Program&, model::RankId rank) {
        return std::make_unique<policies::RecordedPicks>(
            logs[static_cast<std::size_t>(rank.value)]->decisions);
      };
    };

    std::vector<const ExecutorLog*> host_logs;
    for (const HostRankReport& rank : host.ranks) {
      host_logs.push_back(&rank.logs.front());
    }
    const sim::PipelineResult simulated = sim::simulate_pipeline(
        spec, sim::Engine::Events, {.policy = forced_on(host_logs), .log = true});
    ASSERT_TRUE(simulated.stalled.empty());
    for (std::size_t rank = 0; rank < host.ranks.size(); ++rank) {
      EXPECT_EQ(simulated.ranks[rank].order, host.ranks[rank].executed);
    }

    const sim::PipelineResult own = sim::simulate_pipeline(
        spec, sim::Engine::Events, {.policy = tests::greedy_factory(), .log = true});
    std::vector<const ExecutorLog*> sim_logs;
    for (const ExecutorLog& log : own.logs) {
      sim_logs.push_back(&log);
    }
    TinyJob forced(tiny_llama(), plan);
    make_dynamic(forced.job, {});
    forced.job.policy = forced_on(sim_logs);
    const HostResult again = run_host(forced.job);
    ASSERT_FALSE(again.fault) << to_text(*again.fault);
    EXPECT_EQ(again.losses, host.losses);
    EXPECT_EQ(again.weights_hash, host.weights_hash);
    for (std::size_t rank = 0; rank < again.ranks.size(); ++rank) {
      EXPECT_EQ(again.ranks[rank].executed, own.ranks[rank].order);
    }
  }
}

// What meets inside of the tasks of a stage, so that a leader must decide for several ranks.
enum class RankKind { Alone, Tensor, Context, ShardedWeights, Experts };

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

// Delays, one or two receive slots, and tight admission: the run ends, with the bits of a static
// schedule, in the memory that the planner finds in the order that was run. Seed 4 once found a
// rank that was done with its optimizer and no longer listened for the slot of its last gradient.
TEST(Decisions, NoDelayDeadlocksOrChangesTheBits) {
  TinyJob fixed(tiny_llama(), plans()[0]);
  fixed.job.steps = 1;
  const HostResult expected = run_host(fixed.job);
  for (const std::uint64_t seed : tests::seeds(60)) {
    SCOPED_TRACE(tests::rerun_line("exec_decision_test", seed));
    tests::Random random(seed);
    Plan plan = plans()[seed % plans().size()];
    const auto kind = static_cast<RankKind>(random.in(0, 4));
    TinyJob tiny(kind == RankKind::Experts ? tests::tiny_experts() : tiny_llama(),
                 with_groups(plan, kind));
    make_dynamic(tiny.job,
                 {.traversal = random.coin() ? Traversal::DepthFirst : Traversal::BreadthFirst,
                  .live_activations_max = static_cast<int>(random.in(2, 6))});
    tiny.job.executor.receive_slots = static_cast<int>(random.in(1, 2));
    tiny.job.executor.issue_depth = static_cast<int>(random.in(1, 3));
    tiny.job.hooks.before_task = delays(seed);
    const HostResult result = run_host(tiny.job);
    ASSERT_FALSE(result.fault) << to_text(*result.fault);
    if (kind == RankKind::Alone) {
      EXPECT_EQ(result.losses, expected.losses);
    }
    const model::ProgramSpec spec = host_program_spec(tiny.job);
    for (const HostRankReport& rank : result.ranks) {
      const auto& stage = spec.stages[static_cast<std::size_t>(rank.stage.value)];
      const model::MemoryPeak peak =
          model::plan_memory({pipeline_shape(spec), stage, rank.executed});
      EXPECT_EQ(rank.activations_max.value, peak.buffers.value);
      EXPECT_GE(rank.activations_reserved.value, peak.buffers.value);
      policies::Order sorted = rank.executed;
      std::sort(sorted.begin(), sorted.end());
      EXPECT_TRUE(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
      EXPECT_EQ(std::ssize(sorted), pipeline_shape(spec).num_tasks());
    }
  }
}

}  // namespace
}  // namespace megatwin::exec
