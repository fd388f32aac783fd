#include "sim/simulate.h"

#include <string>
#include <variant>

#include <gtest/gtest.h>

#include "scenarios/scenario.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

// Traffic that leaves a leaf of 16 machines is narrowed, whatever the number of machines beyond; a
// job on one leaf, and a fabric without leaves, know no oversubscription.
TEST(Simulate, OversubscriptionNarrowsWhatLeavesTheLeaf) {
  const auto traffic = [](int machines, const std::string& fabric) {
    const std::string count = std::to_string(machines);
    return report_of(job_from("model: {name: llama-3.1-8b, sequence_length: 4096}\n"
                              "cluster: {nodes: [{type: dgx-h100, count: " +
                              count + "}], fabric: {" + fabric +
                              "}}\n"
                              "plan: {tensor: 8, data: " +
                              count + ", micro_batch: 1, global_batch: " + count +
                              ", overlap_grad_reduce: false, overlap_param_gather: false}\n"))
        .breakdown.exposed_dp.value;
  };
  for (const int machines : {17, 32, 33, 64}) {
    const double even = traffic(machines, "type: fat-tree");
    const double narrow = traffic(machines, "type: fat-tree, oversubscription: 8");
    EXPECT_GT(narrow, 2 * even) << machines;
    EXPECT_EQ(traffic(machines, "type: single-switch, oversubscription: 8"),
              traffic(machines, "type: single-switch"));
  }
  EXPECT_EQ(traffic(16, "type: fat-tree, oversubscription: 8"), traffic(16, "type: fat-tree"));
}

using sim::SimulationReport;

const std::string kSeventyB =
    "model: {name: llama-3.1-70b, sequence_length: 8192}\n"
    "cluster: {nodes: [{type: dgx-h100, count: 8}]}\n"
    "plan: {tensor: 4, pipeline: 4, model_chunks: 5, data: auto, micro_batch: 1,\n"
    "       global_batch: 128}\n";

double sum_of(const sim::StepBreakdown& parts) {
  return (parts.compute + parts.exposed_tp + parts.exposed_pp + parts.exposed_dp +
          parts.exposed_ep + parts.exposed_cp + parts.bubble + parts.optimizer + parts.other)
      .value;
}

TEST(Simulate, PartsSumToTheStep) {
  for (const char* plan :
       {"", "software: {framework: megatron-2021}\n", "software: {framework: fsdp2}\n"}) {
    const SimulationReport report = report_of(job_from(kSeventyB + plan));
    EXPECT_NEAR(sum_of(report.breakdown) / report.step_time.value, 1, 1e-12) << plan;
    EXPECT_GE(report.breakdown.bubble.value, 0);
    EXPECT_LT(report.step_time_low, report.step_time);
    EXPECT_GT(report.step_time_high, report.step_time);
  }
}

TEST(Simulate, BothEnginesGiveTheSameNanosecond) {
  const model::Job job = job_from(kSeventyB);
  const SimulationReport dataflow =
      report_of(job, {.engine = sim::EngineChoice::Dataflow, .sensitivities = false});
  const SimulationReport events =
      report_of(job, {.engine = sim::EngineChoice::Events, .sensitivities = false});
  EXPECT_EQ(dataflow.step_time.value, events.step_time.value);
}

// 64 GPUs train at 128 sequences of 8,192 tokens a step; the rate and the step say the same thing.
TEST(Simulate, RatesAgreeWithTheStepTime) {
  const SimulationReport report = report_of(job_from(kSeventyB));
  EXPECT_EQ(report.gpus, 64);
  EXPECT_DOUBLE_EQ(report.tokens_per_s * report.step_time.value, 128.0 * 8192);
  EXPECT_DOUBLE_EQ(report.tokens_per_s_per_gpu * 64, report.tokens_per_s);
  EXPECT_GT(report.mfu, 0.2);
  EXPECT_LT(report.mfu, 0.8);
}

// Twice the memory bandwidth or link speed never slows a fixed order.
TEST(Simulate, AFasterLinkNeverSlowsAStep) {
  model::Job job = job_from(kSeventyB);
  const double before = report_of(job, {.sensitivities = false}).step_time.value;
  model::Node& node = job.cluster.groups.front().node;
  node.nic_per_direction = 2 * node.nic_per_direction;
  EXPECT_LE(report_of(job, {.sensitivities = false}).step_time.value, before);
}

TEST(Simulate, EachEffectCanBeSwitchedOff) {
  const model::Job job = job_from(kSeventyB);
  const double whole = report_of(job, {.sensitivities = false}).step_time.value;
  for (const char* name : {"memory-bound", "tensor", "pipeline", "launch", "spread"}) {
    const auto effects = sim::effects_without({name});
    ASSERT_TRUE(effects) << name;
    EXPECT_LT(report_of(job, {.effects = *effects, .sensitivities = false}).step_time.value, whole)
        << name;
  }
  EXPECT_FALSE(sim::effects_without({"gravity"}));
}

// 24 chunks a rank, whose reductions the schedule hides but for the last: taken in full, they made
// the step without its pipeline 2.2 s longer, and a loser's reason in a search negative.
TEST(Simulate, WithoutThePipelineOnlyItsWaitsAreGone) {
  const model::Job job = job_from(
      "model: {name: gpt3-175b, sequence_length: 2048}\n"
      "cluster: {nodes: [{type: dgx-a100-80g, count: 128}]}\n"
      "software: {framework: megatron-core}\n"
      "plan: {tensor: 8, pipeline: 4, model_chunks: 24, data: 32, micro_batch: 4,"
      " global_batch: 1536, sequence_parallel: true, zero: 1, recompute: none}\n"
      "policy: {schedule: interleaved}\n");
  const auto reported = [&](const sim::SimulateOptions& options) {
    const auto answer = sim::simulate(job, options);
    const auto* refusal = std::get_if<sim::PlanRefusal>(&answer);
    return refusal == nullptr ? std::get<SimulationReport>(answer) : refusal->report.value();
  };
  const SimulationReport whole = reported({.sensitivities = false});
  const SimulationReport without =
      reported({.effects = *sim::effects_without({"pipeline"}), .sensitivities = false});
  const model::Seconds waits = whole.breakdown.bubble + whole.breakdown.exposed_pp;
  EXPECT_GT(waits.value, 0);
  EXPECT_NEAR((whole.step_time - without.step_time).value, waits.value, 1e-9);
  EXPECT_EQ(without.breakdown.bubble.value, 0);
  EXPECT_EQ(without.breakdown.exposed_dp.value, whole.breakdown.exposed_dp.value);
  EXPECT_EQ(without.breakdown.compute.value, whole.breakdown.compute.value);
}

TEST(Simulate, IsDeterministic) {
  const model::Job job = job_from(kSeventyB);
  const SimulationReport a = report_of(job, {.timeline = true});
  const SimulationReport b = report_of(job, {.timeline = true});
  EXPECT_EQ(a.step_time.value, b.step_time.value);
  EXPECT_EQ(a.timeline, b.timeline);
}

// Compute by kind sums to the compute of the breakdown, whole or split backward.
TEST(Simulate, SharesSumToTheCompute) {
  for (const char* schedule : {"1f1b", "zb-h1"}) {
    const SimulationReport report = report_of(
        job_from("model: {name: llama-3.1-70b, sequence_length: 8192}\n"
                 "cluster: {nodes: [{type: dgx-h100, count: 8}]}\n"
                 "plan: {tensor: 8, pipeline: 4, data: 2, micro_batch: 1, global_batch: 64}\n"
                 "policy: {schedule: " +
                 std::string(schedule) + "}\n"));
    double sum = 0;
    for (const sim::ComputeShare& share : report.compute_shares) sum += share.time.value;
    EXPECT_NEAR(sum / report.breakdown.compute.value, 1, 1e-6) << schedule;
  }
}

// A slow GPU's time stood in no row below compute.
TEST(Simulate, SharesOfShippedScenariosSumToTheCompute) {
  for (const char* name : {"disturbed-llama-3-8b-h100", "gpt3-175b-a100", "llama-3.1-70b-h100",
                           "mixed-a100-v100", "mixtral-8x7b-h100"}) {
    const auto jobs = scenarios::load_scenario(std::string("scenarios/") + name + ".yaml", {});
    ASSERT_TRUE(jobs) << model::to_text(jobs.error());
    const SimulationReport report = report_of(jobs->front(), {.sensitivities = false});
    double sum = 0, slowed = 0;
    for (const sim::ComputeShare& share : report.compute_shares) {
      sum += share.time.value;
      if (share.name == "slowed by disturbances") slowed += share.time.value;
    }
    EXPECT_NEAR(sum / report.breakdown.compute.value, 1, 2e-6) << name;
    EXPECT_EQ(slowed > 0, report.disturbed.has_value()) << name;
  }
}

// Twice the time of every kernel: the row holds what the kernels take once more, and no other row
// grows. Launches of the host and traffic are not slowed.
TEST(Simulate, ASlowGpuHasARowOfItsOwn) {
  const std::string yaml =
      "model: {name: llama-3-8b, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100, count: 1}]}\n"
      "plan: {tensor: 1, pipeline: 1, data: 8, micro_batch: 1, global_batch: 64, zero: 1}\n";
  const SimulationReport plain = report_of(job_from(yaml), {.sensitivities = false});
  const SimulationReport slow =
      report_of(job_from(yaml + "disturbances: [{kind: slow-gpu, rank: 3, factor: 2}]\n"),
                {.sensitivities = false});
  ASSERT_EQ(slow.compute_shares.size(), plain.compute_shares.size() + 1);
  double kernels = 0;
  for (std::size_t i = 0; i < plain.compute_shares.size(); ++i) {
    const sim::ComputeShare& share = plain.compute_shares[i];
    EXPECT_EQ(slow.compute_shares[i].time.value, share.time.value) << share.name;
    if (share.name != "host launches") kernels += share.time.value;
  }
  EXPECT_EQ(slow.compute_shares.back().name, "slowed by disturbances");
  EXPECT_NEAR(slow.compute_shares.back().time.value / kernels, 1, 1e-6);
}

TEST(Simulate, RefusesWhatItCannotAnswer) {
  const auto code_of = [](const std::string& yaml) {
    const auto answer = sim::simulate(job_from(yaml));
    const auto* refusal = std::get_if<sim::PlanRefusal>(&answer);
    return refusal == nullptr ? "answered" : refusal->code;
  };
  const std::string model = "model: {name: llama-3-8b, sequence_length: 4096}\n";
  EXPECT_EQ(
      code_of(model +
              "cluster: {nodes: [{type: dgx-h100, count: 1}, {type: dgx-a100-80g, count: 1}]}\n"
              "plan: {tensor: 8, context: 2, micro_batch: 1, global_batch: 16}\n"),
      "illegal_plan");
  EXPECT_EQ(code_of(model + "cluster: {nodes: [{type: dgx-h100, count: 4}]}\n"
                            "plan: {tensor: 8, pipeline: 4, data: 1, micro_batch: 1, "
                            "global_batch: 16000000}\n"),
            "illegal_plan");
}

TEST(Simulate, SaysThatAnEffectIsLeftOut) {
  const SimulationReport report =
      report_of(job_from(kSeventyB), {.effects = *sim::effects_without({"tensor"})});
  ASSERT_FALSE(report.warnings.empty());
  EXPECT_EQ(report.warnings.front(), "left out: tensor");
}

// 128 experts of a rank are 128 launches a product, of 32 rows each: a newcomer saw a step of
// launches and no way out of it.
TEST(Simulate, SaysWhenLaunchesOfExpertsTakeTheStep) {
  const std::string yaml =
      "model: {name: qwen3-30b-a3b, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100, count: 8}]}\n"
      "plan: {tensor: 8, data: 8, micro_batch: 1, global_batch: 64, zero: 3, recompute: full}\n";
  const auto hint_of = [&](const std::string& software) {
    const SimulationReport report = report_of(job_from(yaml + software), {.sensitivities = false});
    for (const std::string& warning : report.warnings) {
      if (warning.rfind("host launches take", 0) == 0) return warning;
    }
    return std::string();
  };
  const std::string hint = hint_of("software: {framework: fsdp2}\n");
  EXPECT_NE(hint.find(" the 128 experts of a rank "), std::string::npos) << hint;
  EXPECT_NE(hint.find("plan.expert"), std::string::npos) << hint;
  EXPECT_EQ(hint_of("software: {framework: fsdp2, cuda_graphs: true}\n"), "");
  EXPECT_EQ(hint_of("software: {framework: maxtext}\n"), "");
}

// Selective recomputation costs little, full recomputation about one forward pass.
TEST(Simulate, RecomputationCostsItsForward) {
  model::Job job = job_from(kSeventyB);
  const double none = report_of(job, {.sensitivities = false}).step_time.value;
  job.plan.recompute = model::RecomputeKind::Full;
  const double full = report_of(job, {.sensitivities = false}).step_time.value;
  EXPECT_GT(full / none, 1.2);
  EXPECT_LT(full / none, 1.5);
}

}  // namespace
}  // namespace megatwin::tests
