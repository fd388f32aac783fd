// Work whose cost changes while it is under way.
#include "sim/changing_costs.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "sim/pipeline_simulation.h"
#include "tests/sim/every_plan.h"

namespace megatwin::sim {
namespace {

using model::Instant;
using tests::Random;

constexpr std::int64_t kMillisecond = 1'000'000;

std::vector<PipelineCosts::Change> changes_at(const std::vector<Nanoseconds>& instants) {
  std::vector<PipelineCosts::Change> changes;
  changes.reserve(instants.size());
  for (const Nanoseconds at : instants) changes.push_back({.at = at});
  return changes;
}

Nanoseconds duration(const std::vector<Nanoseconds>& instants, Nanoseconds start,
                     const std::vector<Nanoseconds>& whole) {
  return changing_duration(changes_at(instants), start, [&](std::size_t k) { return whole[k]; });
}

// 10 ms of work, twice as slow from 4 ms on: 4/10 are done by 4 ms, 6/10 take 12 ms: ends at 16 ms.
TEST(ChangingWork, SlowedInTheMiddle) {
  EXPECT_EQ(duration({4 * kMillisecond}, 0, {10 * kMillisecond, 20 * kMillisecond}),
            16 * kMillisecond);
}

// The same until 8 ms only: 2/10 more are done by then, and 4/10 take 4 ms: ends at 12 ms.
TEST(ChangingWork, SlowedForAWhile) {
  const std::vector<Nanoseconds> whole{10 * kMillisecond, 20 * kMillisecond, 10 * kMillisecond};
  EXPECT_EQ(duration({4 * kMillisecond, 8 * kMillisecond}, 0, whole), 12 * kMillisecond);
  // Begun at 8 ms, when all is well again; at 7 ms, of which 1/20 is done by 8 ms and 19/20 take
  // 9.5 ms; at 4 ms, when the change holds already: 4/20 by 8 ms, 16/20 take 8 ms.
  EXPECT_EQ(duration({4 * kMillisecond, 8 * kMillisecond}, 8 * kMillisecond, whole),
            10 * kMillisecond);
  EXPECT_EQ(duration({4 * kMillisecond, 8 * kMillisecond}, 7 * kMillisecond, whole), 10'500'000);
  EXPECT_EQ(duration({4 * kMillisecond, 8 * kMillisecond}, 4 * kMillisecond, whole),
            12 * kMillisecond);
}

// Work that ends with the change knows nothing of it; none takes no time.
TEST(ChangingWork, EndsAtTheChange) {
  EXPECT_EQ(duration({10}, 0, {10, 1000}), 10);
  EXPECT_EQ(duration({10}, 0, {0, 0}), 0);
  EXPECT_EQ(duration({10}, 10, {0, 7}), 7);
}

// A spec whose tasks and optimizer of every stage take `factor` times as long.
std::vector<model::StageCost> slower(const model::ProgramSpec& spec, std::int64_t factor) {
  std::vector<model::StageCost> stages = spec.stages;
  for (model::StageCost& stage : stages) {
    for (model::ChunkCost& chunk : stage.chunks) {
      for (Instant* part :
           {&chunk.forward, &chunk.backward, &chunk.backward_input, &chunk.backward_weight}) {
        part->ns *= factor;
      }
    }
    stage.optimizer.ns *= factor;
  }
  return stages;
}

Replicas::Later later_on(const model::ProgramSpec& spec, Instant from, std::int64_t factor) {
  Replicas::Later later{.from = from};
  const std::vector<model::StageCost> stages = slower(spec, factor);
  for (int stage = 0; stage < spec.pipeline; ++stage) {
    later.differences.push_back(
        {.replica = 0, .stage = {stage}, .cost = stages[static_cast<std::size_t>(stage)]});
  }
  return later;
}

PipelineResult run(const model::ProgramSpec& spec, std::vector<Replicas::Later> later) {
  return simulate_replicas(spec, {.count = 1, .later = std::move(later)}, Engine::Events,
                           {.timeline = true});
}

std::int64_t plain_duration(const model::ProgramSpec& spec, const model::EventRecord& event) {
  const model::StageCost& stage = spec.stages[event.rank.value];
  if (event.kind == model::EventKind::Optimizer) return stage.optimizer.ns;
  const model::ChunkCost& chunk = stage.chunks[event.chunk.value];
  switch (event.kind) {
    case model::EventKind::Forward:
      return chunk.forward.ns;
    case model::EventKind::Backward:
      return chunk.backward.ns;
    case model::EventKind::BackwardInput:
      return chunk.backward_input.ns;
    case model::EventKind::BackwardWeight:
      return chunk.backward_weight.ns;
    default:
      return 0;
  }
}

model::ProgramSpec random_job(Random& random) {
  for (;;) {
    model::ProgramSpec spec = tests::random_plan(random);
    spec.overlap_slowdown = 0;
    if (policies::schedule_problems(spec).empty()) return spec;
  }
}

// Whatever the schedule: of each task, the parts that it does inside and outside the window, at a
// third of the rate inside, sum to one but for the nanosecond of its end.
TEST(ChangingCosts, EveryTaskDoesAllOfItsWork) {
  Random random(20261130);
  int split = 0;
  for (int i = 0; i < 200; ++i) {
    const model::ProgramSpec spec = random_job(random);
    SCOPED_TRACE(tests::describe(spec));
    const std::int64_t step = run(spec, {}).makespan.ns;
    const Instant from{1 + random.in(0, step)}, until{from.ns + 1 + random.in(0, step)};
    const PipelineResult result = run(spec, {later_on(spec, from, 3), later_on(spec, until, 1)});
    ASSERT_GE(result.makespan.ns, step);
    for (const model::EventRecord& event : result.timeline) {
      const auto plain = static_cast<double>(plain_duration(spec, event));
      if (plain == 0) continue;
      const std::int64_t begin = std::max(event.start, from).ns,
                         end = std::min(event.end, until).ns;
      const double inside = static_cast<double>(std::max<std::int64_t>(0, end - begin));
      const double outside = static_cast<double>((event.end - event.start).ns) - inside;
      ASSERT_NEAR(outside + inside / 3, plain, 0.51) << event.start.ns << " to " << event.end.ns;
      split += inside > 0 && outside > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(split, 100);
}

// A change to the costs that are there, and one after the end, change nothing.
TEST(ChangingCosts, ThatAreNoneChangeNothing) {
  Random random(7);
  for (int i = 0; i < 50; ++i) {
    const model::ProgramSpec spec = random_job(random);
    const PipelineResult plain = run(spec, {});
    ASSERT_EQ(run(spec, {later_on(spec, {1 + plain.makespan.ns / 2}, 1)}).makespan, plain.makespan);
    ASSERT_EQ(run(spec, {later_on(spec, plain.makespan, 3)}).makespan, plain.makespan);
  }
}

}  // namespace
}  // namespace megatwin::sim
