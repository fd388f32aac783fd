// Replicas of a pipeline that differ in costs, hops and numbers of micro-batches and meet in the
// data-parallel collectives of their stages: both engines against each other, and against what
// follows by hand from the longest paths of each replica alone.
#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "sim/pipeline_simulation.h"
#include "tests/policies/greedy_policy.h"
#include "tests/sim/every_plan.h"
#include "tests/sim/longest_path.h"
#include "tests/sim/timelines.h"

namespace megatwin::sim {
namespace {

using model::ScheduleKind;
using tests::Random;

constexpr int kRandomJobs = 300;
constexpr std::uint64_t kSeed = 20261129;

// Up to three replicas, alike but for their costs, hops and micro-batches.
std::vector<model::ProgramSpec> random_replicas(Random& random) {
  for (;;) {
    model::ProgramSpec first = tests::random_plan(random);
    if (first.schedule == ScheduleKind::ZeroBubbleV) continue;
    first.overlap_slowdown = 0;
    first.micro_batch_group = 0;
    std::vector<model::ProgramSpec> replicas = {first};
    const auto count = random.in(2, 3);
    while (std::ssize(replicas) < count) {
      model::ProgramSpec next =
          tests::random_spec(random, first.schedule, first.pipeline, first.model_chunks,
                             static_cast<int>(random.in(1, 14)));
      next.overlap_p2p = first.overlap_p2p;
      next.overlap_grad_reduce = first.overlap_grad_reduce;
      next.overlap_param_gather = first.overlap_param_gather;
      next.hops = tests::random_hops(random, first.pipeline);
      if (policies::schedule_problems(next).empty()) replicas.push_back(next);
    }
    if (policies::schedule_problems(first).empty()) return replicas;
  }
}

std::vector<ReplicaClass> classes_of(const std::vector<model::ProgramSpec>& replicas) {
  std::vector<ReplicaClass> classes;
  classes.reserve(replicas.size());
  for (const model::ProgramSpec& spec : replicas) classes.push_back(replica_class(spec));
  return classes;
}

TEST(ReplicaClasses, DataflowEqualsEvents) {
  Random random(kSeed);
  for (int i = 0; i < kRandomJobs; ++i) {
    const auto replicas = random_replicas(random);
    SCOPED_TRACE(tests::describe(replicas.front()));
    const auto classes = classes_of(replicas);
    const PipelineResult dataflow = simulate_classes(classes, Engine::Dataflow, {.timeline = true});
    const PipelineResult events = simulate_classes(classes, Engine::Events, {.timeline = true});
    ASSERT_TRUE(tests::same_timeline(dataflow.timeline, events.timeline));
    ASSERT_EQ(dataflow.makespan, events.makespan);
    ASSERT_EQ(dataflow.events, events.events);
  }
}

// Gathers of a stage last as long as those of its slowest replica.
void share_gathers(std::vector<model::ProgramSpec>& replicas) {
  const model::ProgramSpec& first = replicas.front();
  for (int stage = 0; stage < first.pipeline; ++stage) {
    for (int chunk = 0; chunk < first.model_chunks; ++chunk) {
      std::int64_t longest = 0;
      for (const auto& spec : replicas) {
        longest = std::max(longest, spec.stages[stage].chunks[chunk].parameter_gather.ns);
      }
      for (auto& spec : replicas) spec.stages[stage].chunks[chunk].parameter_gather = {longest};
    }
  }
}

// Each replica's tasks depend on nothing outside it, so their times are its own longest paths.
// Chunk by chunk a reduction then starts when its last replica is ready and the lane is free.
TEST(ReplicaClasses, MeetInTheReductionsOfTheirStages) {
  Random random(kSeed + 1);
  for (int i = 0; i < kRandomJobs; ++i) {
    auto replicas = random_replicas(random);
    SCOPED_TRACE(tests::describe(replicas.front()));
    share_gathers(replicas);
    const PipelineResult result = simulate_classes(classes_of(replicas), Engine::Dataflow);
    const int p = replicas.front().pipeline;
    std::int64_t makespan = 0;
    for (int stage = 0; stage < p; ++stage) {
      std::vector<std::int64_t> lane_end(replicas.size());
      std::map<int, std::int64_t> ready;    // Last replica's last gradient, by chunk …
      std::map<int, std::int64_t> longest;  // … and the slowest reduction.
      std::vector<int> order;
      for (std::size_t k = 0; k < replicas.size(); ++k) {
        const model::ProgramSpec& spec = replicas[k];
        const model::PipelineShape shape = model::pipeline_shape(spec);
        tests::StepGraph::Orders orders;
        for (int s = 0; s < p; ++s) {
          auto& tasks = orders.emplace_back();
          for (const model::TaskId id : result.ranks[k * p + s].order) {
            tasks.push_back(shape.task(id));
          }
        }
        const tests::StepGraph graph(spec, orders);
        const std::int64_t compute_end = graph.end_of_compute(stage);
        lane_end[k] = compute_end;
        std::map<int, std::int64_t> last;
        std::vector<int> own_order;
        for (const model::Task& task : orders[stage]) {
          if (task.kind != shape.last_kind()) continue;
          last[task.chunk.value] = graph.end(stage, task);
          std::erase(own_order, task.chunk.value);
          own_order.push_back(task.chunk.value);
        }
        if (order.empty()) order = own_order;
        ASSERT_EQ(order, own_order);
        const std::int64_t all_done = graph.end(stage, orders[stage].back());
        for (const auto& [chunk, end] : last) {
          ready[chunk] = std::max(ready[chunk], spec.overlap_grad_reduce ? end : all_done);
          longest[chunk] =
              std::max(longest[chunk], spec.stages[stage].chunks[chunk].gradient_reduce.ns);
        }
      }
      std::int64_t reduced = 0;
      for (const int chunk : order) reduced = std::max(reduced, ready[chunk]) + longest[chunk];
      for (std::size_t k = 0; k < replicas.size(); ++k) {
        const std::int64_t end =
            std::max(reduced, lane_end[k]) + replicas[k].stages[stage].optimizer.ns;
        ASSERT_EQ(result.ranks[k * p + stage].finish.ns, end) << "replica " << k;
        makespan = std::max(makespan, end);
      }
    }
    ASSERT_EQ(result.makespan.ns, makespan);
  }
}

// A class with a multiplicity is what its replicas are one by one.
TEST(ReplicaClasses, FoldedEqualsUnfolded) {
  Random random(kSeed + 2);
  for (int i = 0; i < kRandomJobs; ++i) {
    const auto replicas = random_replicas(random);
    auto folded = classes_of(replicas);
    std::vector<ReplicaClass> unfolded;
    for (ReplicaClass& one : folded) {
      const auto times = random.in(1, 3);
      unfolded.insert(unfolded.end(), static_cast<std::size_t>(times), one);
      one.multiplicity = static_cast<int>(times);
    }
    for (const Engine engine : {Engine::Dataflow, Engine::Events}) {
      const PipelineResult a = simulate_classes(folded, engine);
      const PipelineResult b = simulate_classes(unfolded, engine);
      ASSERT_EQ(a.makespan, b.makespan);
      const auto p = static_cast<std::size_t>(replicas.front().pipeline);
      std::size_t at = 0;
      for (std::size_t k = 0; k < folded.size(); ++k) {
        for (int copy = 0; copy < folded[k].multiplicity; ++copy, at += p) {
          for (std::size_t stage = 0; stage < p; ++stage) {
            ASSERT_EQ(a.ranks[k * p + stage].finish, b.ranks[at + stage].finish);
            ASSERT_EQ(a.ranks[k * p + stage].bubble, b.ranks[at + stage].bubble);
          }
        }
      }
    }
  }
}

// Orders that are found while the step runs: those that were run have their longest paths, replica
// by replica, since the greedy policy never waits. Chunks are reduced as their last replica is
// ready, whatever order each replica finished them in.
TEST(ReplicaClasses, DecidedOrdersHaveTheirLongestPaths) {
  Random random(kSeed + 3);
  for (int i = 0; i < kRandomJobs; ++i) {
    auto replicas = random_replicas(random);
    SCOPED_TRACE(tests::describe(replicas.front()));
    share_gathers(replicas);
    const PipelineResult result =
        simulate_classes(classes_of(replicas), Engine::Events, {.policy = tests::greedy_factory()});
    ASSERT_TRUE(result.stalled.empty());
    const auto p = static_cast<std::size_t>(replicas.front().pipeline);
    std::vector<tests::StepGraph> graphs;
    std::vector<tests::StepGraph::Orders> orders(replicas.size());
    for (std::size_t k = 0; k < replicas.size(); ++k) {
      const model::PipelineShape shape = model::pipeline_shape(replicas[k]);
      for (std::size_t stage = 0; stage < p; ++stage) {
        auto& tasks = orders[k].emplace_back();
        for (const model::TaskId id : result.ranks[k * p + stage].order) {
          tasks.push_back(shape.task(id));
        }
        ASSERT_EQ(std::ssize(tasks), shape.num_tasks());
      }
      graphs.emplace_back(replicas[k], orders[k]);
    }
    for (std::size_t stage = 0; stage < p; ++stage) {
      const int s = static_cast<int>(stage);
      std::map<int, std::int64_t> ready, longest;  // By chunk.
      for (std::size_t k = 0; k < replicas.size(); ++k) {
        const model::ProgramSpec& spec = replicas[k];
        const std::int64_t all_done = graphs[k].end(s, orders[k][stage].back());
        for (const model::Task& task : orders[k][stage]) {
          if (task.kind != model::pipeline_shape(spec).last_kind()) continue;
          std::int64_t& at = ready[task.chunk.value];
          at = std::max(at, spec.overlap_grad_reduce ? graphs[k].end(s, task) : all_done);
          std::int64_t& length = longest[task.chunk.value];
          length = std::max(length, spec.stages[stage].chunks[task.chunk.value].gradient_reduce.ns);
        }
      }
      std::vector<std::pair<std::int64_t, std::int64_t>> reductions;
      reductions.reserve(ready.size());
      for (const auto& [chunk, at] : ready) reductions.emplace_back(at, longest[chunk]);
      std::sort(reductions.begin(), reductions.end());
      std::int64_t reduced = 0;
      for (const auto& [at, length] : reductions) reduced = std::max(reduced, at) + length;
      for (std::size_t k = 0; k < replicas.size(); ++k) {
        const std::int64_t end =
            std::max(reduced, graphs[k].end_of_compute(s)) + replicas[k].stages[stage].optimizer.ns;
        ASSERT_EQ(result.ranks[k * p + stage].finish.ns, end) << "replica " << k;
      }
    }
  }
}

}  // namespace
}  // namespace megatwin::sim
