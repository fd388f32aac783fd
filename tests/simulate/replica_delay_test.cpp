// Groups inside tasks that a link slows: the ranks that wait for it are those of the group's own
// replicas, and nobody else's tasks take longer.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/collective_cost.h"
#include "model/program/group_topology.h"
#include "model/program/job_program.h"
#include "sim/delayed_program.h"
#include "sim/flow/flow_net.h"
#include "sim/group_algorithm.h"
#include "sim/group_contention.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

using model::GroupKind;
using sim::SimulationReport;

// Llama 3 8B on 16 DGX H100: tensor groups of two machines. Ranks of stage s of replica d are those
// of machines 8·s + 2·d and the next one.
std::string pairs_of_machines(int pipeline, const std::string& disturbances) {
  return "model: {name: llama-3-8b, sequence_length: 4096}\n"
         "cluster: {nodes: [{type: dgx-h100, count: " +
         std::to_string(8 * pipeline) +
         "}], fabric: {type: rail-optimized-fat-tree, routing: spray}}\n"
         "software: {framework: megatron-core}\n"
         "plan: {tensor: 16, pipeline: " +
         std::to_string(pipeline) +
         ", data: 4, micro_batch: 1, global_batch: 32, sequence_parallel: true}\n"
         "network: maxmin\n" +
         (disturbances.empty() ? "" : "disturbances: [" + disturbances + "]\n");
}

std::string slow_link(int machine, int factor) {
  return "{kind: slow-link, from: n" + std::to_string(machine) +
         "/nic0, to: rail0/leaf0, factor: " + std::to_string(factor) + "}";
}

// What the tasks of each unit take together, in ns: replica by replica, stage by stage.
struct LaidOut {
  SimulationReport report;
  std::vector<std::int64_t> tasks;
};
LaidOut run_of(int pipeline, const std::string& disturbances) {
  LaidOut run{.report = report_of(job_from(pairs_of_machines(pipeline, disturbances)),
                                  {.timeline = true, .sensitivities = false}),
              .tasks = std::vector<std::int64_t>(static_cast<std::size_t>(4 * pipeline))};
  for (const model::EventRecord& event : run.report.timeline) {
    if (event.kind != model::EventKind::Forward && event.kind != model::EventKind::Backward) {
      continue;
    }
    run.tasks[static_cast<std::size_t>(event.rank.value)] += (event.end - event.start).ns;
  }
  return run;
}

// Without a network's help: the closed forms of one GPU's tasks, in which what a tensor group
// exposes takes no less than its bytes over eight lanes, of which the slowest has what is left of
// an adapter.
double tasks_by_hand(double left_gbps) {
  model::Job job = job_from(pairs_of_machines(1, ""));
  const model::JobProgram program = build_job_program(job);
  // At which rate the bytes of an endless gather go.
  const model::Bytes endless{1e15};
  const auto time = collective_time(model::CollectiveKind::AllGather, endless,
                                    group_topology(job, GroupKind::Tensor),
                                    {.algorithm = model::CollectiveAlgorithm::Ring})
                        .time;
  const double alone = 15.0 / 16 * endless.value / time.value;
  double seconds = 0;
  for (const model::PricedChunk& chunk : program.stages.front().chunks) {
    seconds += (chunk.forward.duration + chunk.backward.duration).value;
    for (const model::MicroOps* ops : {&chunk.ops->forward, &chunk.ops->backward}) {
      for (const model::MicroOp& op : *ops) {
        if (op.kind != model::MicroOpKind::Collective || op.group != GroupKind::Tensor) continue;
        const double passes = op.collective == model::CollectiveKind::AllReduce ? 2 : 1;
        const double sent = passes * 15 / 16 * op.bytes.value;
        seconds += op.count * std::max(0.0, sent / (8e9 * left_gbps) - sent / alone);
      }
    }
  }
  return 1e9 * seconds * program.spec.micro_batches;
}

// Two replicas of one stage, at 1/4 and at 1/2 of an adapter: each is as late as its own link makes
// it, the other two are not late, and the step is that of the worse.
TEST(ReplicaDelays, EachReplicaWaitsForItsOwnLink) {
  const LaidOut both = run_of(1, slow_link(0, 4) + ", " + slow_link(3, 2));
  ASSERT_EQ(both.tasks.size(), 4U);
  EXPECT_NEAR(static_cast<double>(both.tasks[0]), tasks_by_hand(12.5), 2e-3 * tasks_by_hand(12.5));
  EXPECT_NEAR(static_cast<double>(both.tasks[1]), tasks_by_hand(25), 2e-3 * tasks_by_hand(25));
  const double plain = tasks_by_hand(50);
  EXPECT_GT(tasks_by_hand(25), 1.2 * plain);
  EXPECT_GT(tasks_by_hand(12.5), 1.2 * tasks_by_hand(25));
  for (const std::size_t untouched : {2U, 3U}) {
    EXPECT_NEAR(static_cast<double>(both.tasks[untouched]), plain, 1000) << untouched;
  }
  const LaidOut worse = run_of(1, slow_link(0, 4)), milder = run_of(1, slow_link(3, 2));
  EXPECT_EQ(both.tasks[0], worse.tasks[0]);
  EXPECT_EQ(both.tasks[1], milder.tasks[1]);
  EXPECT_EQ(both.report.step_time, worse.report.step_time);
  EXPECT_GT(worse.report.step_time, milder.report.step_time);
  EXPECT_GT(milder.report.step_time, milder.report.disturbed->undisturbed_step_time);
}

// The same in different stages: both replicas had both delays, so that two mild links made the step
// of one that is worse than either.
TEST(ReplicaDelays, LinksOfUnlikeReplicasAndStagesDoNotAddUp) {
  const LaidOut both = run_of(2, slow_link(0, 4) + ", " + slow_link(11, 3));
  const LaidOut first = run_of(2, slow_link(0, 4)), second = run_of(2, slow_link(11, 3));
  // Replica 0 of stage 0, and replica 1 of stage 1.
  EXPECT_EQ(both.tasks[0], first.tasks[0]);
  EXPECT_EQ(both.tasks[3], second.tasks[3]);
  EXPECT_LT(first.tasks[3], first.tasks[0]);
  EXPECT_GT(first.report.step_time, second.report.step_time);
  // What is left of sharing with messages is small.
  EXPECT_NEAR(ratio(both.report.step_time / first.report.step_time), 1, 1e-4);
  const auto names = [&](const std::string& words) {
    const auto& chain = both.report.disturbed->chain;
    return std::any_of(chain.begin(), chain.end(), [&](const std::string& line) {
      return line.find(words) != std::string::npos;
    });
  };
  EXPECT_TRUE(names("stage 0 of replica 0: its tasks take"));
  EXPECT_TRUE(names("stage 1 of replica 1: its tasks take"));
  EXPECT_FALSE(names("stage 0 of replica 1: its tasks take"));
  EXPECT_FALSE(names("stage 1 of replica 0: its tasks take"));
}

// The breakdown is that of the rank that is reported, the slow one: its tensor traffic is what its
// tasks have more.
TEST(ReplicaDelays, TheBreakdownIsOfTheSlowReplica) {
  const LaidOut slow = run_of(1, slow_link(2, 4)), plain = run_of(1, "");
  EXPECT_EQ(slow.report.critical_stage, 0);
  const double more = (slow.report.breakdown.exposed_tp - plain.report.breakdown.exposed_tp).value;
  // Traffic that takes longer hides longer as well, and slows what it hides behind.
  const double compute = (slow.report.breakdown.compute - plain.report.breakdown.compute).value;
  EXPECT_NEAR(1e9 * (more + compute), static_cast<double>(slow.tasks[1] - plain.tasks[1]), 1000);
  EXPECT_GE(compute, 0);
  EXPECT_LT(compute, 0.005 * plain.report.breakdown.compute.value);
}

// An expert group of two machines has its members in 16 replicas of one GPU each; all of them wait
// for the slow link of one, the 16 of the other group do not.
TEST(ReplicaDelays, AllReplicasOfAnExpertGroupWait) {
  const model::Job job = job_from(
      "model: {name: deepseek-v3, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100, count: 4}], fabric: {type: rail-optimized-fat-tree, "
      "routing: spray}}\n"
      "plan: {expert: 16, data: 32, micro_batch: 1, global_batch: 32}\n"
      "network: maxmin\n"
      "disturbances: [" +
      slow_link(3, 8) + "]\n");
  auto network = sim::JobNetwork::build(job);
  ASSERT_TRUE(network);
  const model::JobProgram plain = build_job_program(job);
  const sim::GroupAlgorithms algorithms(job, plain);
  const auto contention =
      sim::group_contention(job, **network, *sim::make_max_min_net(), algorithms);
  ASSERT_TRUE(contention);
  ASSERT_EQ(contention->expert.size(), 32U);
  for (std::size_t replica = 0; replica < 32; ++replica) {
    if (replica < 16) {
      EXPECT_EQ(contention->expert[replica], 1) << replica;
    } else {
      EXPECT_GT(contention->expert[replica], 2) << replica;
      EXPECT_EQ(contention->expert[replica], contention->expert[16]) << replica;
    }
  }
  const model::PricedEffects effects;
  const sim::DelayedProgram delayed({.job = job,
                                     .effects = effects,
                                     .plain = plain,
                                     .contention = *contention,
                                     .algorithms = algorithms});
  EXPECT_TRUE(delayed.differs(0, 0));
  EXPECT_FALSE(delayed.differs(31, 0));
  // Nothing but what the groups of each expert's weights add is left of it in the first replica.
  EXPECT_EQ(delayed.forward(0, 0, 0).duration, plain.stages[0].chunks[0].forward.duration);
  EXPECT_EQ(delayed.stage_cost(0, 0).chunks[0].forward, plain.spec.stages[0].chunks[0].forward);
  EXPECT_GT(delayed.stage_cost(31, 0).chunks[0].forward, plain.spec.stages[0].chunks[0].forward);
}

}  // namespace
}  // namespace megatwin::tests
