// Jobs over machines of several kinds: every stage at the price of its own kind, what is refused,
// and the splits found by cost against the closed forms.
#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "model/heterogeneous.h"
#include "model/nearest_plans.h"
#include "model/plan_check.h"
#include "model/program/group_topology.h"
#include "model/program/job_program.h"
#include "sim/decoupled/decoupled_job.h"
#include "sim/mixed/found_splits.h"
#include "sim/mixed/mixed_report.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

using sim::SimulationReport;

const std::string kModel = "model: {name: llama-2-13b, sequence_length: 2048}\n";
const std::string kBothNodes =
    "cluster: {nodes: [{type: dgx-a100-80g, count: 1}, {type: dgx-1v-32g, count: 1}]}\n";

// Stage 0 on A100, stage 1 on V100.
std::string stages_on_two_kinds(const std::string& more, int global_batch = 64) {
  return kModel + kBothNodes +
         "plan: {tensor: 8, pipeline: 2, micro_batch: 1, precision: fp16, recompute: full, zero: "
         "0,\n"
         "       global_batch: " +
         std::to_string(global_batch) + more + "}\n";
}

// Replica 0 on A100, replica 1 on V100.
std::string replicas_on_two_kinds(const std::string& more, int global_batch = 256) {
  return kModel + kBothNodes +
         "plan: {tensor: 4, pipeline: 2, micro_batch: 1, precision: fp16, recompute: full, zero: "
         "1,\n"
         "       rank_order: tp-cp-ep-pp-dp, global_batch: " +
         std::to_string(global_batch) + more + "}\n";
}

SimulationReport quick_report(const std::string& yaml) {
  return report_of(job_from(yaml), {.sensitivities = false});
}

std::vector<std::string> problems_of(const std::string& yaml) {
  const model::Job job = job_from(yaml);
  return model::plan_problems(job.transformer, job.plan, job.cluster, job.software);
}

// Machines that a scenario describes itself, eight GPUs with cards of so many Gbit/s.
std::string replicas_on_cards(const std::string& first, const std::string& second) {
  const auto machine = [](const std::string& rate) {
    return "{gpu: H100-SXM5-80GB, gpus: 8, nics: 8, nic_bandwidth: " + rate + " Gbit/s, count: 4}";
  };
  return "model: {name: llama-3-8b, sequence_length: 8192}\ncluster: {nodes: [" + machine(first) +
         ", " + machine(second) +
         "]}\nplan: {tensor: 8, data: 8, micro_batch: 1, global_batch: 64, zero: 1}\n";
}

void expect_refused(const std::string& yaml, const std::string& part) {
  const std::vector<std::string> problems = problems_of(yaml);
  ASSERT_FALSE(problems.empty()) << yaml;
  EXPECT_NE(problems.front().find(part), std::string::npos) << problems.front();
}

TEST(MixedCluster, WhatIsNearLeavesAWrongListOut) {
  const model::Job good = job_from(stages_on_two_kinds(", data: 1"));
  std::vector<model::Plan> plans(3, good.plan);
  plans[0].micro_batches_per_replica = {3};
  plans[1].precision_per_group = {model::Precision::Fp16};
  plans[2].tensor_per_stage = {8, 4};
  for (const model::Plan& plan : plans) {
    const auto near =
        model::nearest_legal_plans(good.transformer, plan, good.cluster, good.software);
    ASSERT_FALSE(near.empty());
    EXPECT_NE(near.front().change.find("left out"), std::string::npos) << near.front().change;
    EXPECT_TRUE(
        model::plan_problems(good.transformer, near.front().plan, good.cluster, good.software)
            .empty());
  }
}

// They differ in nothing that has a name: once all were priced as the first of them.
TEST(MixedCluster, MachinesThatDifferInTheirCardsAreOfTwoKinds) {
  const auto step = [](const std::string& first, const std::string& second) {
    return quick_report(replicas_on_cards(first, second)).step_time;
  };
  const model::Seconds fast = step("400", "400"), slow = step("25", "25");
  EXPECT_EQ(step("400", "25"), step("25", "400"));
  EXPECT_GT(step("400", "25"), fast);
  EXPECT_LE(step("400", "25"), slow);
}

TEST(MixedCluster, APrecisionGoesWithAKindOfMachine) {
  expect_refused(kModel +
                     "cluster: {nodes: [{type: dgx-h100, count: 1}, {type: dgx-h100, count: 1}]}\n"
                     "plan: {tensor: 8, data: 2, micro_batch: 1, global_batch: 16,\n"
                     "       precision_per_group: [bf16, fp8]}\n",
                 "two precisions for one kind of machine: entries 1 and 2");
}

TEST(Mixed, EachStageCostsWhatItCostsOnItsKindAlone) {
  const model::JobProgram mixed = model::build_job_program(job_from(stages_on_two_kinds("")));
  const auto alone = [&](const char* machine, const char* software) {
    return model::build_job_program(job_from(
        kModel + "cluster: {nodes: [{type: " + machine + ", count: 2}]}\n" + software +
        "plan: {tensor: 8, pipeline: 2, micro_batch: 1, precision: fp16, recompute: full,\n"
        "       zero: 0, global_batch: 64}\n"));
  };
  const model::JobProgram a100 = alone("dgx-a100-80g", "");
  const model::JobProgram v100 = alone("dgx-1v-32g", "software: {attention: unfused}\n");
  EXPECT_EQ(mixed.spec.stages[0], a100.spec.stages[0]);
  EXPECT_EQ(mixed.spec.stages[1], v100.spec.stages[1]);
  EXPECT_GT(v100.spec.stages[1].chunks[0].forward, a100.spec.stages[1].chunks[0].forward);
}

TEST(Mixed, ReportsEveryStageWithItsGpuAndItsLimit) {
  const SimulationReport report = quick_report(stages_on_two_kinds(""));
  EXPECT_EQ(report.gpu_name, "A100-SXM4-80GB and V100-SXM2-32GB");
  ASSERT_EQ(report.stages.size(), 2u);
  EXPECT_EQ(report.stages[0].gpu, "A100-SXM4-80GB");
  EXPECT_EQ(report.stages[1].gpu, "V100-SXM2-32GB");
  EXPECT_GT(report.stages[0].memory_limit, report.stages[1].memory_limit);
  // The faster stage waits for the slower one, which is the critical one.
  EXPECT_EQ(report.critical_stage, 1);
  EXPECT_GT(report.stages[0].idle, report.stages[1].idle);
  EXPECT_NEAR(report.stages[0].idle, 1 - report.stages[0].busy.value / report.step_time.value,
              0.05);
}

TEST(Mixed, PeakIsTheSumOverTheKinds) {
  const model::Job job = job_from(stages_on_two_kinds(""));
  EXPECT_DOUBLE_EQ(sim::total_peak(job).value, 8 * (312e12 + 125e12));
}

TEST(Mixed, MemoryOfTheSmallerKindDecides) {
  const std::string yaml = kModel +
                           "cluster: {nodes: [{type: dgx-a100-80g}, {type: dgx-1v-16g}]}\n"
                           "plan: {tensor: 8, pipeline: 2, micro_batch: 1, precision: fp16,\n"
                           "       recompute: full, zero: 0, global_batch: 64,\n"
                           "       layers_per_stage: [16, 24]}\n";
  const auto answer = sim::simulate(job_from(yaml), {.sensitivities = false});
  const auto* refusal = std::get_if<sim::PlanRefusal>(&answer);
  ASSERT_NE(refusal, nullptr);
  EXPECT_EQ(refusal->code, "does_not_fit");
  // 24 layers of 317 million parameters over 8 ranks at 18 bytes each are 17.1 GB of 16; the 16
  // layers of the other stage have 80 GB.
  EXPECT_NE(refusal->message.find("stage 1"), std::string::npos) << refusal->message;
}

TEST(Mixed, DataflowEqualsEventsAndFoldedEqualsUnfolded) {
  for (const std::string& yaml :
       {stages_on_two_kinds(""), replicas_on_two_kinds(""),
        replicas_on_two_kinds(", micro_batches_per_replica: [180, 76]")}) {
    const model::Job job = job_from(yaml);
    const auto run = [&](sim::EngineChoice engine) {
      return report_of(job, {.engine = engine, .sensitivities = false}).step_time.value;
    };
    EXPECT_EQ(run(sim::EngineChoice::Dataflow), run(sim::EngineChoice::Events)) << yaml;
  }
}

TEST(Mixed, RefusesWhatCannotBe) {
  expect_refused(
      kModel + kBothNodes + "plan: {tensor: 8, pipeline: 2, precision: bf16, global_batch: 64}\n",
      "V100-SXM2-32GB has no bf16 matrix units; fp16 it has");
  // Ranks of one tensor group on both kinds.
  expect_refused(kModel + kBothNodes +
                     "plan: {tensor: 8, context: 2, precision: fp16, "
                     "global_batch: 64}\n",
                 "need equal GPUs");
  expect_refused("model: {name: mixtral-8x7b, sequence_length: 2048}\n" + kBothNodes +
                     "plan: {tensor: 4, pipeline: 2, precision: fp16, rank_order: tp-cp-ep-pp-dp,\n"
                     "       global_batch: 64}\n",
                 "experts are exchanged");
  // An expert grid that does not fit aborted when its ranks were placed on the kinds.
  expect_refused("model: {name: mixtral-8x7b, sequence_length: 2048}\n" + kBothNodes +
                     "plan: {tensor: 8, pipeline: 2, expert: 4, precision: fp16, zero: 0,\n"
                     "       global_batch: 64}\n",
                 "plan.expert 4");
  expect_refused(replicas_on_two_kinds(", micro_batches_per_replica: [100, 100]"),
                 "holds 200 micro-batches");
  expect_refused(replicas_on_two_kinds(", micro_batches_per_replica: [256]"), "1 entries");
}

// With many micro-batches the step is that of the slowest stage, m · max(x_i / f_i): the found
// split beats the even one by the quotient of the closed form's slowest parts.
TEST(Mixed, FoundLayersBeatEvenOnesByTheClosedForm) {
  constexpr int kBatch = 1024;
  const SimulationReport even = quick_report(stages_on_two_kinds("", kBatch));
  const SimulationReport found =
      quick_report(stages_on_two_kinds(", layers_per_stage: auto", kBatch));
  std::vector<double> speeds;  // Layers a second.
  for (const sim::StageShare& stage : even.stages) {
    speeds.push_back(stage.layers / (stage.forward + stage.backward).value);
  }
  const std::vector<std::int64_t> halves = {20, 20};
  const std::vector<std::int64_t> best = model::min_max_split(40, speeds);
  const std::vector<std::int64_t> taken = {found.stages[0].layers, found.stages[1].layers};
  EXPECT_LE(std::abs(taken[0] - best[0]), 1) << "the ends of the model weigh less than a layer";
  const double predicted = model::slowest_part(halves, speeds) / model::slowest_part(taken, speeds);
  const double simulated = even.step_time.value / found.step_time.value;
  EXPECT_GT(predicted, 1.2);
  EXPECT_NEAR(simulated / predicted, 1, 0.02);
  // And that is what the closed form of the even split's utilisation leaves to gain, but for whole
  // layers.
  const double gain =
      model::split_utilization(taken, speeds) / model::even_split_utilization(speeds);
  EXPECT_NEAR(gain / predicted, 1, 1e-9);
}

TEST(Mixed, FoundMicroBatchesBeatEvenOnesByTheClosedForm) {
  constexpr int kBatch = 1024;
  const SimulationReport even = quick_report(replicas_on_two_kinds("", kBatch));
  const SimulationReport found =
      quick_report(replicas_on_two_kinds(", micro_batches_per_replica: auto", kBatch));
  ASSERT_EQ(even.stages.size(), 4u);
  // A replica's rate is that of its slower stage.
  const auto rate = [&](std::size_t first) {
    double slowest = 0;
    for (std::size_t stage = first; stage < first + 2; ++stage) {
      slowest = std::max(slowest, (even.stages[stage].forward + even.stages[stage].backward).value);
    }
    return 1 / slowest;
  };
  const std::vector<double> speeds = {rate(0), rate(2)};
  const std::vector<std::int64_t> halves = {512, 512};
  const std::vector<std::int64_t> taken = {found.stages[0].micro_batches,
                                           found.stages[2].micro_batches};
  EXPECT_EQ(taken[0] + taken[1], 1024);
  EXPECT_LE(std::abs(taken[0] - model::min_max_split(1024, speeds)[0]), 3);
  const double predicted = model::slowest_part(halves, speeds) / model::slowest_part(taken, speeds);
  EXPECT_GT(predicted, 1.2);
  EXPECT_NEAR(even.step_time.value / found.step_time.value / predicted, 1, 0.02);
}

// No split that is given beats the one that was found.
TEST(Mixed, FoundLayersAreTheBestOfAllSplits) {
  const SimulationReport found = quick_report(stages_on_two_kinds(", layers_per_stage: auto"));
  for (int first = 20; first < 40; ++first) {
    const std::string given =
        ", layers_per_stage: [" + std::to_string(first) + ", " + std::to_string(40 - first) + "]";
    const SimulationReport other = quick_report(stages_on_two_kinds(given));
    EXPECT_TRUE(!other.fits || other.step_time >= found.step_time) << first;
  }
}

// Two equal chunks a stage, so that a stage's two shares move together: of all splits of that form
// the one that was found is the best.
TEST(Mixed, FoundLayersOfTwoEqualChunksAreTheBestOfAllSplits) {
  const std::string schedule = "policy: {schedule: zb-v}\n";
  const SimulationReport found =
      quick_report(stages_on_two_kinds(", model_chunks: 2, layers_per_stage: auto") + schedule);
  for (int first = 10; first < 20; ++first) {
    const std::string a = std::to_string(first), b = std::to_string(20 - first);
    const SimulationReport other =
        quick_report(stages_on_two_kinds(", model_chunks: 2, layers_per_stage: [" + a + ", " + b +
                                         ", " + b + ", " + a + "]") +
                     schedule);
    EXPECT_TRUE(!other.fits || other.step_time >= found.step_time) << first;
  }
  const SimulationReport even = quick_report(
      stages_on_two_kinds(", model_chunks: 2, layers_per_stage: [10, 10, 10, 10]") + schedule);
  EXPECT_GT(even.step_time, 1.2 * found.step_time);
}

// NCCL leaves LL128 out between compute capabilities before Hopper.
TEST(Mixed, NoLl128BetweenA100AndV100) {
  const model::Job job = job_from(replicas_on_two_kinds(""));
  const model::StageSites sites(job.plan, job.cluster);
  const model::GroupTopology data = model::mixed_data_topology(job, sites, 0);
  EXPECT_EQ(data.ranks, 2);
  EXPECT_EQ(data.nodes, 2);
  EXPECT_FALSE(data.ll128_over_network);
  for (int power = 10; power < 32; power += 2) {
    const double bytes = std::exp2(power);
    EXPECT_NE(model::collective_time(model::CollectiveKind::AllReduce, {bytes}, data).protocol,
              model::CollectiveProtocol::Ll128);
  }
  // As slow as the V100 machine's four EDR cards for eight GPUs.
  EXPECT_EQ(data.nic_per_direction.value, 12.5e9);
}

// What joins two kinds leaves its leaf switch, and the spine of a tree narrows it. A torus has
// none: a message goes by one of two cables, half of the A100 machine's adapters over 4;
// data-parallel groups over unlike machines are not laid on its cables.
TEST(Mixed, TheSpineNarrowsWhatJoinsTwoKinds) {
  model::Job stages = job_from(stages_on_two_kinds(""));
  model::Job replicas = job_from(replicas_on_two_kinds(""));
  stages.cluster.fabric.oversubscription = replicas.cluster.fabric.oversubscription = 4;
  for (const bool tree : {true, false}) {
    const model::FabricKind kind = tree ? model::FabricKind::FatTree : model::FabricKind::Torus;
    stages.cluster.fabric.kind = replicas.cluster.fabric.kind = kind;
    const model::StageSites sites(stages.plan, stages.cluster);
    const model::GroupTopology hop = model::hop_topology(stages, sites, {0}, 0);
    EXPECT_DOUBLE_EQ(hop.oversubscription, tree ? 4 : hop.nic_efficiency * 2 * 4);
    const model::StageSites shared(replicas.plan, replicas.cluster);
    EXPECT_EQ(model::mixed_data_topology(replicas, shared, 0).oversubscription, tree ? 4 : 1);
  }
}

// Tensor size 8 on one A100 machine, then two stages of 4 on a V100 machine: each of the four
// receivers takes a quarter of the hidden states over the cards of its own machine.
TEST(Mixed, StagesOfOtherTensorSizeReshardAtTheBoundary) {
  const std::string yaml = kModel + kBothNodes +
                           "plan: {tensor_per_stage: [8, 4, 4], pipeline: 3, micro_batch: 1,\n"
                           "       precision: fp16, recompute: full, zero: 0, global_batch: 64,\n"
                           "       sequence_parallel: true, layers_per_stage: [24, 8, 8]}\n";
  const model::Job job = job_from(yaml);
  EXPECT_EQ(job.plan.data, 1);
  EXPECT_EQ(job.plan.gpus(), 16);
  const model::JobProgram program = model::build_job_program(job);
  const model::StageSites sites(job.plan, job.cluster);
  const model::Bytes quarter{2048.0 * 5120 * 2 / 4};
  const auto hop = [&](int boundary) {
    return model::round_to_instant(
        model::collective_time(model::CollectiveKind::SendReceive, quarter,
                               model::hop_topology(job, sites, {0}, boundary))
            .time);
  };
  EXPECT_EQ(program.spec.hops[0].activation, hop(0));
  EXPECT_EQ(program.spec.hops[0].gradient, hop(0));
  EXPECT_EQ(program.spec.hops[1].activation, hop(1));
  EXPECT_GT(hop(0), hop(1)) << "inside a machine it is faster";
  const SimulationReport report = report_of(job, {.sensitivities = false});
  EXPECT_EQ(report.stages[0].tensor, 8);
  EXPECT_EQ(report.stages[2].tensor, 4);
}

// H100 in fp8 and A100 in bf16: each kind at its own precision.
TEST(Mixed, EachKindHasItsPrecision) {
  const SimulationReport report = quick_report(
      "model: {name: llama-2-13b, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100}, {type: dgx-a100-80g}]}\n"
      "plan: {tensor: 8, pipeline: 2, micro_batch: 1, precision_per_group: [fp8, bf16], zero: 0,\n"
      "       global_batch: 64, layers_per_stage: auto}\n");
  EXPECT_EQ(report.stages[0].precision, "fp8");
  EXPECT_EQ(report.stages[1].precision, "bf16");
  EXPECT_GT(report.stages[0].layers, report.stages[1].layers);
}

// Schedules that decide while the step runs take stages and replicas that differ, each rank within
// the memory of its own GPU. No order beats the work of the busiest stage, and on two stages there
// is little to win over 1F1B.
TEST(Mixed, DecidesOverKindsWhileTheStepRuns) {
  for (const std::string& yaml :
       {stages_on_two_kinds(""), stages_on_two_kinds(", layers_per_stage: auto"),
        replicas_on_two_kinds(""),
        replicas_on_two_kinds(", micro_batches_per_replica: [180, 76]")}) {
    const SimulationReport fixed = quick_report(yaml);
    for (const char* schedule : {"dpp", "dpp-depth", "dpp-breadth"}) {
      SCOPED_TRACE(yaml + schedule);
      const SimulationReport report = quick_report(yaml + "policy: {schedule: " + schedule + "}\n");
      EXPECT_EQ(report.engine, "events");
      EXPECT_TRUE(report.fits);
      ASSERT_EQ(report.stages.size(), fixed.stages.size());
      for (std::size_t rank = 0; rank < report.stages.size(); ++rank) {
        const sim::StageShare& share = report.stages[rank];
        EXPECT_LE(share.memory_peak, share.memory_limit);
        const double work =
            static_cast<double>(share.micro_batches) * (share.forward + share.backward).value;
        EXPECT_NEAR(share.busy.value, work, 1e-6 * work);
        EXPECT_GT(report.step_time.value, work);
      }
      EXPECT_NEAR(report.step_time.value / fixed.step_time.value, 1, 0.02);
    }
  }
}

std::vector<std::string> refusal_of(const std::string& yaml) {
  const auto answer = sim::simulate(job_from(yaml), {.sensitivities = false});
  const auto* refusal = std::get_if<sim::PlanRefusal>(&answer);
  return refusal != nullptr ? refusal->reasons : std::vector<std::string>{""};
}

TEST(Mixed, RefusesSplitsThatAScheduleDoesNotKnow) {
  const auto has = [](const std::string& yaml, const std::string& part) {
    const std::vector<std::string> reasons = refusal_of(yaml);
    EXPECT_NE(reasons.front().find(part), std::string::npos) << reasons.front();
  };
  has(replicas_on_two_kinds(", micro_batches_per_replica: auto") + "policy: {schedule: dpp}\n",
      "policy.schedule dpp: plan.micro_batches_per_replica auto");
  has(stages_on_two_kinds(", layers_per_stage: auto") + "policy: {schedule: fbd}\n",
      "policy.schedule fbd: plan.layers_per_stage auto");
  has(kModel + kBothNodes +
          "plan: {tensor_per_stage: [8, 8], pipeline: 2, precision: fp16, global_batch: 64}\n"
          "policy: {schedule: fbd}\n",
      "policy.schedule fbd: plan.tensor_per_stage");
  has(replicas_on_two_kinds(", micro_batches_per_replica: [180, 76]") + "policy: {schedule: fbd}\n",
      "policy.schedule fbd: plan.micro_batches_per_replica");
}

// Two kinds whose ranks no plain layout holds; the refusal once aborted on that.
TEST(Mixed, SaysWhichSideDoesNotFit) {
  const auto refusal = [](int forward) {
    const std::string yaml =
        kModel +
        "cluster: {nodes: [{type: dgx-a100-80g, count: 2}, {type: dgx-1v-16g}]}\n"
        "plan: {pipeline: 4, data: 1, micro_batch: 1, precision: fp16, zero: 0, global_batch: 8}\n"
        "policy: {schedule: fbd, feed: activations,\n"
        "  forward: {nodes: " +
        std::to_string(forward) + ", tensor: " + (forward == 0 ? "4" : "2") +
        "}, backward: {nodes: " + std::to_string(1 - forward) +
        ", tensor: " + (forward == 0 ? "2" : "4") + "}}\n";
    const auto answer = sim::simulate(job_from(yaml), {.sensitivities = false});
    const auto* refused = std::get_if<sim::PlanRefusal>(&answer);
    return refused != nullptr ? refused->message : "fits";
  };
  // 13 billion parameters over 8 ranks are 29 GB of states on a backward rank and 3 GB of weights
  // on a forward rank, which has 16 GB.
  EXPECT_TRUE(refusal(0).starts_with("a backward rank of stage ")) << refusal(0);
  EXPECT_EQ(refusal(1), "fits");
}

// Each side of a decoupled job is what a plain pipeline on its machines is. Its hops were zero when
// hops came to be one a boundary.
TEST(Mixed, DecoupledSidesCostWhatTheyCostOnTheirKindAlone) {
  const std::string plan =
      "plan: {tensor: 2, pipeline: 4, micro_batch: 1, precision: fp16, recompute: full, zero: 0,\n"
      "       global_batch: 64";
  const model::Job job =
      job_from(kModel + kBothNodes + plan +
               "}\npolicy: {schedule: fbd, forward: {nodes: 1}, backward: {nodes: 0}}\n");
  ASSERT_TRUE(sim::decoupled_problems(job).empty());
  const sim::DecoupledJob sides = sim::price_decoupled(job);
  const auto alone = [&](const char* machine) {
    return model::build_job_program(
        job_from(kModel + "cluster: {nodes: [{type: " + machine + "}]}\n" + plan + "}\n"));
  };
  const model::JobProgram a100 = alone("dgx-a100-80g"), v100 = alone("dgx-1v-32g");
  EXPECT_EQ(sides.backward_program.spec.stages, a100.spec.stages);
  EXPECT_EQ(sides.forward_program.spec.stages, v100.spec.stages);
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const sim::DecoupledStage& priced = sides.spec.stages[stage];
    EXPECT_EQ(priced.send_activation, v100.spec.hops[stage].activation);
    EXPECT_GT(priced.send_activation.ns, 0);
    if (stage > 0) {
      EXPECT_EQ(priced.send_gradient, a100.spec.hops[stage - 1].gradient);
    }
  }
  const SimulationReport report = report_of(job, {.sensitivities = false});
  ASSERT_EQ(report.memory.size(), 8u);
  EXPECT_EQ(report.memory[0].limit, job.cluster.groups[0].gpu.memory_usable);
  EXPECT_EQ(report.memory[7].limit, job.cluster.groups[1].gpu.memory_usable);
}

}  // namespace
}  // namespace megatwin::tests
