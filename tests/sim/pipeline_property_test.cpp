// What must hold for any plan: checked on random ones.
#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "sim/pipeline_simulation.h"
#include "tests/sim/every_plan.h"
#include "tests/sim/seeds.h"
#include "tests/sim/timelines.h"

namespace megatwin::sim {
namespace {

using model::Task;
using model::TaskId;
using model::TaskKind;
using tests::Random;

constexpr Engine kEngines[] = {Engine::Dataflow, Engine::Events};

template <class Check>
void for_each_random_plan(int count, Check check) {
  for (const std::uint64_t seed : tests::seeds(count)) {
    Random random(seed);
    const model::ProgramSpec spec = tests::random_plan(random);
    SCOPED_TRACE(tests::describe(spec));
    SCOPED_TRACE(tests::rerun_line("sim_property_test", seed));
    check(spec, random);
    if (::testing::Test::HasFatalFailure()) {
      return;
    }
  }
}

TEST(PipelineProperty, EveryTaskRunsOnceAndBackwardAfterForward) {
  for_each_random_plan(300, [](const model::ProgramSpec& spec, Random&) {
    const PipelineResult result = simulate_pipeline(spec, Engine::Events);
    const model::PipelineShape& shape = result.shape;
    for (const RankResult& rank : result.ranks) {
      ASSERT_EQ(std::ssize(rank.order), shape.num_tasks());
      std::map<Task, int> position;
      for (int n = 0; n < shape.num_tasks(); ++n) {
        ASSERT_TRUE(
            position.emplace(shape.task(rank.order[static_cast<std::size_t>(n)]), n).second);
      }
      for (const auto& [task, when] : position) {
        if (task.kind == TaskKind::Forward) {
          continue;
        }
        const TaskKind before =
            task.kind == TaskKind::BackwardWeight ? TaskKind::BackwardInput : TaskKind::Forward;
        ASSERT_LT(position.at({before, task.micro_batch, task.chunk}), when) << to_text(task);
      }
    }
  });
}

// The five parts of a rank's step leave nothing out and count nothing twice.
TEST(PipelineProperty, SharesSumToTheMakespan) {
  for_each_random_plan(300, [](const model::ProgramSpec& spec, Random&) {
    for (const Engine engine : kEngines) {
      const PipelineResult result = simulate_pipeline(spec, engine);
      for (const RankResult& rank : result.ranks) {
        ASSERT_EQ(rank.compute + rank.optimizer + rank.exposed_p2p + rank.exposed_data_parallel +
                      rank.bubble,
                  result.makespan);
        for (const model::Instant share : {rank.compute, rank.optimizer, rank.exposed_p2p,
                                           rank.exposed_data_parallel, rank.bubble}) {
          ASSERT_GE(share.ns, 0);
        }
      }
      const RankResult& critical = result.ranks[static_cast<std::size_t>(result.critical_rank)];
      ASSERT_EQ(critical.finish, result.makespan);
    }
  });
}

// No step is shorter than the work of any rank, nor than one micro-batch's way through all stages
// and back.
TEST(PipelineProperty, MakespanIsAtLeastItsLowerBounds) {
  for_each_random_plan(300, [](const model::ProgramSpec& spec, Random&) {
    const PipelineResult result = simulate_pipeline(spec, Engine::Dataflow);
    const bool split = result.shape.split_backward;
    std::int64_t way = 0;
    for (const model::StageCost& stage : spec.stages) {
      std::int64_t work = stage.optimizer.ns;
      for (const model::ChunkCost& chunk : stage.chunks) {
        const std::int64_t weight = split ? chunk.backward_weight.ns : 0;
        const std::int64_t through =
            chunk.forward.ns + (split ? chunk.backward_input.ns : chunk.backward.ns);
        work += spec.micro_batches * (through + weight);
        way += through;
      }
      ASSERT_GE(result.makespan.ns, work);
    }
    ASSERT_GE(result.makespan.ns, way);
  });
}

// With the order fixed all times are sums and maxima of durations, so a faster link cannot hurt.
TEST(PipelineProperty, AFasterLinkNeverSlowsAFixedOrder) {
  for_each_random_plan(300, [](const model::ProgramSpec& spec, Random& random) {
    for (const Engine engine : kEngines) {
      const model::Instant slow = simulate_pipeline(spec, engine).makespan;
      model::ProgramSpec faster = spec;
      faster.send_activation = {random.in(0, spec.send_activation.ns)};
      faster.send_gradient = {random.in(0, spec.send_gradient.ns)};
      for (model::PipelineHop& hop : faster.hops) {
        hop = {{random.in(0, hop.activation.ns)}, {random.in(0, hop.gradient.ns)}};
      }
      ASSERT_LE(simulate_pipeline(faster, engine).makespan, slow);
    }
  });
}

// A rank does the same whether it stands for many or for itself.
void expect_same_rank(const RankResult& a, const RankResult& b) {
  ASSERT_EQ(a.stage, b.stage);
  ASSERT_EQ(a.compute, b.compute);
  ASSERT_EQ(a.optimizer, b.optimizer);
  ASSERT_EQ(a.exposed_p2p, b.exposed_p2p);
  ASSERT_EQ(a.exposed_data_parallel, b.exposed_data_parallel);
  ASSERT_EQ(a.bubble, b.bubble);
  ASSERT_EQ(a.finish, b.finish);
  ASSERT_EQ(a.order, b.order);
}

TEST(PipelineProperty, FoldedEqualsUnfolded) {
  for_each_random_plan(200, [](const model::ProgramSpec& spec, Random& random) {
    const int count = static_cast<int>(random.in(1, 4));
    const auto p = static_cast<std::size_t>(spec.pipeline);
    for (const Engine engine : kEngines) {
      const PipelineResult folded = simulate_pipeline(spec, engine);
      const PipelineResult unfolded =
          simulate_replicas(spec, {.count = count, .fold = false}, engine);
      ASSERT_EQ(folded.makespan, unfolded.makespan);
      ASSERT_EQ(unfolded.ranks.size(), p * static_cast<std::size_t>(count));
      for (std::size_t rank = 0; rank < unfolded.ranks.size(); ++rank) {
        expect_same_rank(folded.ranks[rank % p], unfolded.ranks[rank]);
      }
    }
  });
}

// Of several replicas some ranks differ; those that are alike fold, the others do not.
TEST(PipelineProperty, DifferencesUnfoldOnlyWhatTheyTouch) {
  for_each_random_plan(200, [](const model::ProgramSpec& spec, Random& random) {
    Replicas replicas{.count = static_cast<int>(random.in(2, 5))};
    const int slow = static_cast<int>(random.in(0, replicas.count - 1));
    const auto stage = static_cast<std::int32_t>(random.in(0, spec.pipeline - 1));
    model::StageCost cost = spec.stages[static_cast<std::size_t>(stage)];
    cost.speed = 1.5;
    replicas.differences.push_back({slow, {stage}, cost});
    Replicas apart = replicas;
    apart.fold = false;
    for (const Engine engine : kEngines) {
      const PipelineResult folded = simulate_replicas(spec, replicas, engine);
      const PipelineResult unfolded = simulate_replicas(spec, apart, engine);
      const auto p = static_cast<std::size_t>(spec.pipeline);
      ASSERT_EQ(folded.ranks.size(), 2 * p);
      ASSERT_EQ(folded.makespan, unfolded.makespan);
      ASSERT_GE(folded.makespan, simulate_pipeline(spec, engine).makespan);
      // Classes are in the order of their first replica, so replica 0 is of class 0.
      for (std::size_t rank = 0; rank < unfolded.ranks.size(); ++rank) {
        const bool is_slow = static_cast<int>(rank / p) == slow;
        const bool first_is_slow = slow == 0;
        const std::size_t replica_class = is_slow == first_is_slow ? 0 : 1;
        expect_same_rank(folded.ranks[replica_class * p + rank % p], unfolded.ranks[rank]);
      }
      int multiplicity = 0;
      for (std::size_t k = 0; k < 2; ++k) {
        multiplicity += folded.ranks[k * p].multiplicity;
      }
      ASSERT_EQ(multiplicity, replicas.count);
    }
  });
}

// Both engines on several replicas that differ.
TEST(PipelineProperty, EnginesAgreeOnReplicasThatDiffer) {
  for_each_random_plan(200, [](const model::ProgramSpec& spec, Random& random) {
    Replicas replicas{.count = 3};
    for (int n = 0; n < 2; ++n) {
      replicas.differences.push_back({static_cast<int>(random.in(0, 2)),
                                      {static_cast<std::int32_t>(random.in(0, spec.pipeline - 1))},
                                      tests::random_stage(random, spec.model_chunks)});
    }
    const PipelineResult dataflow =
        simulate_replicas(spec, replicas, Engine::Dataflow, {.timeline = true});
    const PipelineResult events =
        simulate_replicas(spec, replicas, Engine::Events, {.timeline = true});
    ASSERT_TRUE(tests::same_timeline(dataflow.timeline, events.timeline));
    ASSERT_EQ(dataflow.makespan, events.makespan);
  });
}

TEST(PipelineProperty, TheSameInputGivesTheSameResult) {
  for_each_random_plan(50, [](const model::ProgramSpec& spec, Random&) {
    PipelineCache cache;
    const PipelineResult first = simulate_pipeline(spec, Engine::Events, {.timeline = true});
    for (int n = 0; n < 2; ++n) {
      const PipelineResult again = simulate_pipeline(spec, Engine::Events, {.timeline = true});
      ASSERT_TRUE(tests::same_timeline(again.timeline, first.timeline));
      const PipelineResult dataflow =
          simulate_pipeline(spec, Engine::Dataflow, {.timeline = true, .cache = &cache});
      ASSERT_TRUE(tests::same_timeline(dataflow.timeline, first.timeline));
    }
  });
}

}  // namespace
}  // namespace megatwin::sim
