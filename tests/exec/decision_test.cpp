// The same Executor and the same policies in the host world and in the simulator: what one world
// decided comes out again in the other, and from the log alone.
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "exec/host_job.h"
#include "model/program/program_builder.h"
#include "policies/dynamic_pipeline.h"
#include "policies/replay.h"
#include "sim/pipeline_simulation.h"
#include "tests/exec/decision_runs.h"
#include "tests/exec/tiny_jobs.h"
#include "tests/policies/greedy_policy.h"

namespace megatwin::exec {
namespace {

using model::DecisionRecord;
using model::ExecutorEvent;
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

void make_dynamic(HostJob& job, const DynamicPipelineOptions& options) {
  job.steps = 1;
  job.log = true;
  job.policy = policies::dynamic_pipeline_factory(options);
}

policies::Replay replay(const model::Program& program, const DynamicPipelineOptions& options,
                        const policies::ExecutorOptions& executor,
                        const std::vector<ExecutorEvent>& events) {
  policies::DynamicPipelinePolicy policy(options);
  return policies::replay({.program = program, .policy = &policy, .options = executor}, events);
}

const std::vector<Plan>& plans() { return tests::dynamic_plans(); }

// Static orders on the shapes that they ask for; policies on each shape, with one, two and no
// receive slots, tight and free.
std::vector<tests::OrderChoice> every_order() {
  std::vector<tests::OrderChoice> all;
  for (const auto schedule :
       {ScheduleKind::GPipe, ScheduleKind::OneForwardOneBackward, ScheduleKind::Interleaved,
        ScheduleKind::ZeroBubbleH1, ScheduleKind::ZeroBubbleV}) {
    for (const int slots : {0, 1}) {
      all.push_back({.shape = schedule, .decides = schedule, .executor = {.receive_slots = slots}});
    }
  }
  for (const auto policy : {ScheduleKind::DynamicAdaptive, ScheduleKind::DynamicDepthFirst,
                            ScheduleKind::DynamicBreadthFirst}) {
    for (const Plan& plan : plans()) {
      for (const auto& [slots, most] : {std::pair(0, 0), std::pair(0, 5), std::pair(1, 5)}) {
        all.push_back({.shape = plan.schedule,
                       .decides = policy,
                       .live_activations_max = most,
                       .executor = {.issue_depth = 1 + slots, .receive_slots = slots}});
      }
    }
  }
  return all;
}

testing::AssertionResult replays(const tests::OrderChoice& choice, const model::ProgramSpec& spec,
                                 const HostRankReport& rank) {
  const auto programs = build_programs(spec);
  const auto stage = static_cast<std::size_t>(rank.stage.value) % programs.size();
  const auto factory = tests::policy_of(choice);
  const auto policy = factory ? factory(programs[stage], rank.rank) : nullptr;
  const auto orders = policy ? std::vector<policies::Order>{} : policies::schedule_orders(spec);
  const policies::Replay again = policies::replay(
      {.program = programs[stage],
       .source = policy ? policies::OrderSource::Policy : policies::OrderSource::List,
       .order = policy ? std::span<const model::TaskId>()
                       : std::span<const model::TaskId>(orders[stage]),
       .policy = policy.get(),
       .options = choice.executor},
      rank.logs.front().events);
  if (!again.divergence.empty()) {
    return testing::AssertionFailure() << again.divergence;
  }
  if (!same_bytes(again.decisions, rank.logs.front().decisions)) {
    return testing::AssertionFailure() << "other decisions";
  }
  return testing::AssertionSuccess();
}

// The two sides of one run, each as a run of its own.
std::vector<tests::RecordedRun> decoupled_runs(bool ship) {
  const tests::OrderChoice choice{.shape = ScheduleKind::Decoupled,
                                  .decides = ScheduleKind::Decoupled};
  constexpr int kStages = 4;
  TinyJob tiny(tiny_llama(), tests::pipeline_plan(choice.shape, kStages, 1));
  tiny.job.plan.decoupled.ship_activations = ship;
  set_order(tiny.job, choice);
  tiny.job.hooks.before_task = tests::delays(ship ? 1 : 2);
  const HostResult result = run_host(tiny.job);
  EXPECT_FALSE(result.fault) << to_text(*result.fault);
  std::vector<tests::RecordedRun> runs;
  for (const model::ProgramSpec& spec : host_program_specs(tiny.job)) {
    tests::RecordedRun run{.choice = choice, .spec = spec, .logs = {}, .hashes = {}};
    for (int stage = 0; stage < kStages; ++stage) {
      const auto index = runs.size() * kStages + static_cast<std::size_t>(stage);
      EXPECT_TRUE(replays(choice, spec, result.ranks[index])) << "rank " << index;
      run.logs.push_back(result.ranks[index].logs.front());
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

TEST(Decisions, ComeOutOfTheEventsOfAHostRunAgain) {
  for (const Plan& plan : plans()) {
    for (const auto traversal : {Traversal::BreadthFirst, Traversal::DepthFirst}) {
      TinyJob tiny(tiny_llama(), plan);
      const DynamicPipelineOptions options{.traversal = traversal};
      make_dynamic(tiny.job, options);
      tiny.job.hooks.before_task = tests::delays(1);
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
      const auto events = tests::one_arrival_later(log, decision);
      if (!events) continue;
      const policies::Replay again = replay(program, {}, {}, *events);
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

// Runs of every order, as tests/policies/recorded_runs_test.cpp replays them. Here each is run and
// replayed once more; with MEGATWIN_UPDATE_GOLDENS=1 they are written.
TEST(Decisions, OfEveryOrderReplay) {
  std::vector<tests::RecordedRun> runs;
  for (const tests::OrderChoice& choice : every_order()) {
    const bool folds = choice.shape == ScheduleKind::ZeroBubbleV;
    const bool chunked = folds || choice.shape == ScheduleKind::Interleaved;
    TinyJob tiny(tiny_llama(),
                 tests::pipeline_plan(choice.shape, chunked ? 2 : 4, chunked ? 2 : 1));
    set_order(tiny.job, choice);
    tiny.job.hooks.before_task = tests::delays(runs.size());
    const HostResult result = run_host(tiny.job);
    ASSERT_FALSE(result.fault) << to_text(*result.fault);
    tests::RecordedRun run{
        .choice = choice, .spec = host_program_spec(tiny.job), .logs = {}, .hashes = {}};
    const auto programs = build_programs(run.spec);
    for (const HostRankReport& rank : result.ranks) {
      EXPECT_TRUE(replays(choice, run.spec, rank)) << name_of(choice.decides);
      run.logs.push_back(rank.logs.front());
    }
    runs.push_back(std::move(run));
  }
  for (const bool ship : {false, true}) {
    for (tests::RecordedRun& run : decoupled_runs(ship)) {
      runs.push_back(std::move(run));
    }
  }
  if (std::getenv("MEGATWIN_UPDATE_GOLDENS") != nullptr) {
    std::ofstream file(tests::kRecordedRuns);
    tests::write_runs(file, runs);
  }
}

}  // namespace
}  // namespace megatwin::exec
