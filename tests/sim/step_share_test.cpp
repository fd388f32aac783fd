// Where a rank's time goes, on pipelines small enough to draw.
#include <gtest/gtest.h>

#include "sim/overlap_budget.h"
#include "sim/pipeline_simulation.h"
#include "tests/sim/pipeline_specs.h"

namespace megatwin::sim {
namespace {

using model::Instant;
using model::ScheduleKind;
using tests::uniform_spec;

constexpr Engine kEngines[] = {Engine::Dataflow, Engine::Events};

// Two stages, one micro-batch, F = 10, B = 20, a hop = 3, all exposed:
//   stage 0: F [0,10] send [10,13] wait … B [46,66]
//   stage 1:          F [13,23] B [23,43] send [43,46]
// Stage 0 waits [13,46]: its producer is done at 43, so 30 bubble and 3 transfer.
TEST(StepShare, TransferAndBubbleOfTwoStages) {
  model::ProgramSpec spec = uniform_spec({ScheduleKind::OneForwardOneBackward, 2, 1, 1, 10, 12, 8});
  spec.send_activation = spec.send_gradient = {3};
  for (const Engine engine : kEngines) {
    for (const bool overlap : {false, true}) {
      spec.overlap_p2p = overlap;
      const PipelineResult result = simulate_pipeline(spec, engine);
      EXPECT_EQ(result.makespan.ns, 66);
      EXPECT_EQ(result.critical_rank, 0);
      // A send that holds the lane counts for its sender too; beside compute it does not.
      EXPECT_EQ(result.ranks[0].exposed_p2p.ns, overlap ? 3 : 6);
      EXPECT_EQ(result.ranks[0].bubble.ns, overlap ? 33 : 30);
      EXPECT_EQ(result.ranks[0].compute.ns, 30);
      // Stage 1 waits [0,10] for stage 0 and [10,13] for the hop; done at 43 or 46 of 66.
      EXPECT_EQ(result.ranks[1].exposed_p2p.ns, overlap ? 3 : 6);
      EXPECT_EQ(result.ranks[1].bubble.ns, overlap ? 10 + 23 : 10 + 20);
    }
  }
}

// One stage, v = 2 chunks of F = 10, B = 20, one micro-batch; gathers of 4, reductions of 7,
// optimizer 5.
//   exposed: gathers [0,8], F F B B [8,68], reductions [68,82], optimizer [82,87]
//   overlap: gather 0 [0,4], F0 [4,14] F1 [14,24] B1 [24,44] B0 [44,64]; reduce 1 [44,51],
//            reduce 0 [64,71], optimizer [71,76]
TEST(StepShare, DataParallelTraffic) {
  model::ProgramSpec spec = uniform_spec({ScheduleKind::GPipe, 1, 2, 1, 10, 12, 8});
  spec.stages[0].optimizer = {5};
  for (model::ChunkCost& chunk : spec.stages[0].chunks) {
    chunk.parameter_gather = {4};
    chunk.gradient_reduce = {7};
  }
  for (const Engine engine : kEngines) {
    spec.overlap_param_gather = spec.overlap_grad_reduce = false;
    const PipelineResult exposed = simulate_pipeline(spec, engine);
    EXPECT_EQ(exposed.makespan.ns, 87);
    EXPECT_EQ(exposed.ranks[0].exposed_data_parallel.ns, 8 + 14);
    EXPECT_EQ(exposed.ranks[0].optimizer.ns, 5);

    spec.overlap_param_gather = spec.overlap_grad_reduce = true;
    const PipelineResult hidden = simulate_pipeline(spec, engine);
    EXPECT_EQ(hidden.makespan.ns, 76);
    EXPECT_EQ(hidden.ranks[0].exposed_data_parallel.ns, 4 + 7);
  }
}

// As above with a slowdown of one half: gather 1 of 4 ns covers 4 of F0's 10, so F0 takes 12;
// reduction 1 of 7 ns covers 7 of B0's 20, so B0 takes 20 + 3.5, rounded to 24.
TEST(StepShare, TrafficSlowsTheComputeBesideIt) {
  model::ProgramSpec spec = uniform_spec({ScheduleKind::GPipe, 1, 2, 1, 10, 12, 8});
  for (model::ChunkCost& chunk : spec.stages[0].chunks) {
    chunk.parameter_gather = {4};
    chunk.gradient_reduce = {7};
  }
  spec.overlap_param_gather = spec.overlap_grad_reduce = true;
  spec.overlap_slowdown = 0.5;
  for (const Engine engine : kEngines) {
    const PipelineResult result = simulate_pipeline(spec, engine);
    EXPECT_EQ(result.ranks[0].compute.ns, 12 + 10 + 20 + 24);
    EXPECT_EQ(result.makespan.ns, 4 + 66 + 7);
  }
}

TEST(OverlapBudget, IsUsedUpByTheTasksThatFollow) {
  OverlapBudget budget;
  EXPECT_EQ(budget.extended(100, 0.5), 100);
  budget.add(150);
  EXPECT_EQ(budget.extended(100, 0.5), 150);  // All of it covered.
  EXPECT_EQ(budget.extended(100, 0.5), 125);  // 50 left.
  EXPECT_EQ(budget.extended(100, 0.5), 100);
}

// A slow rank takes its factor in tasks and the optimizer, not in transfers.
TEST(StepShare, SpeedScalesTasksAndOptimizer) {
  model::ProgramSpec spec = uniform_spec({ScheduleKind::OneForwardOneBackward, 1, 1, 3, 10, 12, 8});
  spec.stages[0].optimizer = {6};
  spec.stages[0].chunks[0].gradient_reduce = {7};
  spec.stages[0].speed = 1.5;
  for (const Engine engine : kEngines) {
    EXPECT_EQ(simulate_pipeline(spec, engine).makespan.ns, 3 * (15 + 30) + 7 + 9);
  }
}

// Two replicas of one stage; the second is twice as slow. The first waits in the reduction:
//   replica 0: F B [0,30], replica 1: F B [0,60], reduction [60,67] for both, optimizer [67,72].
TEST(StepShare, AReductionWaitsForTheSlowestReplica) {
  model::ProgramSpec spec = uniform_spec({ScheduleKind::OneForwardOneBackward, 1, 1, 1, 10, 12, 8});
  spec.stages[0].optimizer = {5};
  spec.stages[0].chunks[0].gradient_reduce = {7};
  Replicas replicas{.count = 2};
  replicas.differences.push_back({1, {0}, spec.stages[0]});
  replicas.differences[0].cost.speed = 2;
  for (const Engine engine : kEngines) {
    const PipelineResult result = simulate_replicas(spec, replicas, engine);
    EXPECT_EQ(result.makespan.ns, 67 + 10);
    EXPECT_EQ(result.ranks[0].finish.ns, 72);
    EXPECT_EQ(result.ranks[0].exposed_data_parallel.ns, 37);
    EXPECT_EQ(result.ranks[1].exposed_data_parallel.ns, 7);
  }
}

}  // namespace
}  // namespace megatwin::sim
