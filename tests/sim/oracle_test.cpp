// Three ways to one answer: the dataflow evaluator, the event engine, and longest paths through an
// independently built graph agree to the nanosecond on every small plan.
#include <map>

#include <gtest/gtest.h>

#include "sim/pipeline_simulation.h"
#include "tests/sim/every_plan.h"
#include "tests/sim/longest_path.h"
#include "tests/sim/timelines.h"

namespace megatwin::sim {
namespace {

using model::EventKind;
using model::EventRecord;

tests::StepGraph::Orders orders_of(const PipelineResult& result) {
  tests::StepGraph::Orders orders;
  for (const RankResult& rank : result.ranks) {
    auto& order = orders.emplace_back();
    for (const model::TaskId id : rank.order) {
      order.push_back(result.shape.task(id));
    }
  }
  return orders;
}

// The name under which the graph knows the span.
std::string name_of(const EventRecord& record) {
  const std::string rank = std::to_string(record.rank.value) + " ";
  const std::string chunk = std::to_string(record.chunk.value);
  const std::string place = std::to_string(record.micro_batch.value) + "." + chunk;
  switch (record.kind) {
    case EventKind::Forward:
    case EventKind::Backward:
    case EventKind::BackwardInput:
    case EventKind::BackwardWeight:
    case EventKind::Recompute:
      return rank + "FBIWR"[static_cast<int>(record.kind)] + place;
    case EventKind::SendActivation:
      return rank + "send F" + place;
    case EventKind::SendGradient:
      return rank + "send B" + place;
    case EventKind::ParameterGather:
      return rank + "gather " + chunk;
    case EventKind::GradientReduce:
      return rank + "reduce " + chunk;
    case EventKind::Optimizer:
      return rank + "optimizer";
  }
  return {};
}

TEST(Oracle, DataflowEventsAndLongestPathAgree) {
  int num_plans = 0;
  tests::visit_every_plan([&](const model::ProgramSpec& spec) {
    SCOPED_TRACE(tests::describe(spec));
    const PipelineResult dataflow = simulate_pipeline(spec, Engine::Dataflow, {.timeline = true});
    const PipelineResult events = simulate_pipeline(spec, Engine::Events, {.timeline = true});
    ASSERT_TRUE(tests::same_timeline(dataflow.timeline, events.timeline));
    ASSERT_EQ(dataflow.makespan, events.makespan);
    ASSERT_EQ(dataflow.events, events.events);

    const auto orders = orders_of(dataflow);
    const tests::StepGraph graph(spec, orders);
    ASSERT_EQ(graph.makespan(), dataflow.makespan.ns);
    const bool split = dataflow.shape.split_backward;
    for (const EventRecord& record : dataflow.timeline) {
      std::string name = name_of(record);
      if (split && record.kind == EventKind::SendGradient) {
        name.replace(name.find('B'), 1, "I");
      }
      ASSERT_EQ(graph.start(name), record.start.ns) << name;
    }
    ++num_plans;
  });
  // gpipe 4·2·4 = 32; 1f1b and zb-h1 4·4 = 16 each; zb-v 16; interleaved for both v: p = 2 has m =
  // 2, 4, 6, 8, p = 3 has 3, 6, p = 4 has 4, 8: 8 · 2 = 16. In all 96, times 24
  // kinds of transfer and overlap.
  EXPECT_EQ(num_plans, std::int64_t{96} * 24);
}

// The engines share the rule of slowdown, so here they are only held against each other; the rule
// itself has its own test.
TEST(Oracle, EnginesAgreeUnderSlowdown) {
  tests::visit_every_plan([](model::ProgramSpec spec) {
    spec.overlap_slowdown = 0.3;
    SCOPED_TRACE(tests::describe(spec));
    const PipelineResult dataflow = simulate_pipeline(spec, Engine::Dataflow, {.timeline = true});
    const PipelineResult events = simulate_pipeline(spec, Engine::Events, {.timeline = true});
    ASSERT_TRUE(tests::same_timeline(dataflow.timeline, events.timeline));
    ASSERT_EQ(dataflow.makespan, events.makespan);
  });
}

// How many tasks an Executor may issue ahead changes nothing when the order is fixed.
TEST(Oracle, IssueDepthDoesNotChangeAStaticOrder) {
  tests::visit_every_plan([](const model::ProgramSpec& spec) {
    SCOPED_TRACE(tests::describe(spec));
    const PipelineResult dataflow = simulate_pipeline(spec, Engine::Dataflow, {.timeline = true});
    for (const int depth : {1, 3}) {
      const PipelineResult events = simulate_pipeline(
          spec, Engine::Events, {.timeline = true, .executor = {.issue_depth = depth}});
      ASSERT_TRUE(tests::same_timeline(dataflow.timeline, events.timeline));
    }
  });
}

// An order file that says what a schedule says gives what the schedule gives.
TEST(Oracle, OrderFileEqualsTheScheduleItSpellsOut) {
  tests::visit_every_plan([](const model::ProgramSpec& spec) {
    SCOPED_TRACE(tests::describe(spec));
    const PipelineResult scheduled = simulate_pipeline(spec, Engine::Dataflow, {.timeline = true});
    model::ProgramSpec spelled = spec;
    spelled.schedule = model::ScheduleKind::OrderFile;
    spelled.orders_fold = spec.schedule == model::ScheduleKind::ZeroBubbleV;
    for (const auto& order : orders_of(scheduled)) {
      auto& tokens = spelled.orders.emplace_back();
      for (const model::Task& task : order) {
        tokens.push_back(to_text(task));
      }
    }
    ASSERT_TRUE(policies::schedule_problems(spelled).empty());
    const PipelineResult again = simulate_pipeline(spelled, Engine::Dataflow, {.timeline = true});
    ASSERT_TRUE(tests::same_timeline(again.timeline, scheduled.timeline));
  });
}

}  // namespace
}  // namespace megatwin::sim
