// What a refusal offers instead: whether somebody looked, and that every plan offered runs.
#include "sim/near_plans.h"

#include <string>
#include <variant>

#include <gtest/gtest.h>

#include "sim/simulation_problems.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

using sim::PlanRefusal;

PlanRefusal refusal_of(const model::Job& job, bool looks = true) {
  auto answer = sim::simulate(job, {.sensitivities = looks});
  if (auto* refusal = std::get_if<PlanRefusal>(&answer)) return std::move(*refusal);
  ADD_FAILURE() << "not refused";
  return {};
}

void expect_all_run(const model::Job& job, const PlanRefusal& refusal) {
  ASSERT_FALSE(refusal.nearest.empty());
  EXPECT_GE(refusal.others_tried.value_or(0), static_cast<int>(refusal.nearest.size()));
  for (const auto& near : refusal.nearest) {
    model::Job other = job;
    other.plan = near.plan;
    EXPECT_FALSE(near.change.empty());
    const auto answer = sim::simulate(other, {.sensitivities = false});
    EXPECT_TRUE(std::holds_alternative<sim::SimulationReport>(answer)) << near.change;
  }
}

const char* const kEightH100 =
    "cluster: {nodes: [{type: dgx-h100, count: 1}]}\n"
    "software: {framework: megatron-core}\n";

// Tensor 3 divides neither GPUs nor heads; of the legal plans, those without sharded states hold
// 70e9 · 18 B / 8 GPUs and do not fit.
TEST(NearPlans, OfAnIllegalPlanFit) {
  const model::Job job = job_from(
      "model: {name: llama-3.1-70b, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100, count: 4}]}\n"
      "software: {framework: megatron-core}\n"
      "plan: {tensor: 3, pipeline: 4, data: 2, micro_batch: 1, global_batch: 32}\n");
  expect_all_run(job, refusal_of(job));
  EXPECT_FALSE(refusal_of(job, false).others_tried);
}

// Experts twice as busy as the mean: 58.3 of 84.4 GiB are activations of 79.1 GiB that there are.
// What is offered fits with the same disturbances, not only without.
TEST(NearPlans, OfUnevenExpertsFitWithThem) {
  const model::Job job = job_from(
      "model: {name: mixtral-8x7b, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100, count: 16}]}\n"
      "software: {framework: megatron-core}\n"
      "plan: {pipeline: 2, model_chunks: 16, expert: 8, expert_tensor: 1, micro_batch: 1,"
      " global_batch: 1024, zero: 1}\npolicy: {schedule: interleaved}\n"
      "disturbances: [{kind: expert-imbalance, factor: 2}, {kind: slow-gpu, rank: 9, factor: "
      "2}]\n");
  const PlanRefusal refusal = refusal_of(job);
  EXPECT_EQ(refusal.code, "does_not_fit");
  expect_all_run(job, refusal);
}

// A table of tokens is of eight ranks: plans of other expert groups cannot be simulated with it.
TEST(NearPlans, OfATableOfTokensKeepItsRanks) {
  std::string row = "[3, 1, 1, 1, 1, 1, 1, 1]", rows = row;
  for (int i = 1; i < 8; ++i) rows += ", " + row;
  const model::Job job = job_from(
      "model: {name: mixtral-8x7b, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100, count: 4}]}\n"
      "software: {framework: megatron-core}\n"
      "plan: {pipeline: 3, expert: 8, expert_tensor: 1, data: 8, micro_batch: 1,"
      " global_batch: 128, zero: 1}\n"
      "disturbances: [{kind: expert-imbalance, tokens: [" +
      rows + "]}]\n");
  const PlanRefusal refusal = refusal_of(job);
  EXPECT_EQ(refusal.code, "illegal_plan");
  expect_all_run(job, refusal);
  for (const auto& near : refusal.nearest) EXPECT_EQ(near.plan.expert, 8) << near.change;
}

TEST(NearPlans, OfAnImpossibleOneAreCounted) {
  const model::Job job =
      job_from("model: {name: llama-3.1-405b, sequence_length: 8192}\n" + std::string(kEightH100) +
               "plan: {tensor: 8, pipeline: 1, data: 1, micro_batch: 1, global_batch: 16}\n");
  const PlanRefusal refusal = refusal_of(job);
  EXPECT_EQ(refusal.code, "does_not_fit");
  EXPECT_TRUE(refusal.nearest.empty());
  EXPECT_GT(refusal.others_tried.value_or(0), 10);
}

// 800 million tasks: no plan near it is run whose tasks are not within the limit, all together.
TEST(NearPlans, OfAGiantBatchAreBoundedInWork) {
  const model::Job job =
      job_from("model: {name: gpt2}\n" + std::string(kEightH100) +
               "plan: {tensor: 1, pipeline: 2, micro_batch: 1, global_batch: 160000000}\n");
  const PlanRefusal refusal = refusal_of(job);
  EXPECT_EQ(refusal.code, "illegal_plan");
  double tasks = 0;
  for (const auto& near : refusal.nearest) {
    model::Job other = job;
    other.plan = near.plan;
    tasks += sim::tasks_of_step(other);
  }
  EXPECT_LE(tasks, 20e6);
  EXPECT_FALSE(refusal.nearest.empty());
  EXPECT_GE(refusal.others_tried.value_or(0), static_cast<int>(refusal.nearest.size()));
}

// A backward rank of half the model holds 13e9 / 2 · 18 B = 117 GB of states, one of two 59 GB.
TEST(NearPlans, OfDecoupledSidesHaveOtherTensorSizes) {
  const model::Job job =
      job_from("model: {name: llama-2-13b, sequence_length: 2048}\n" + std::string(kEightH100) +
               "plan: {tensor: 1, pipeline: 2, data: 2, micro_batch: 1, global_batch: 16, zero: 0, "
               "recompute: full}\npolicy: {schedule: fbd}\n");
  const PlanRefusal refusal = refusal_of(job);
  EXPECT_EQ(refusal.code, "does_not_fit");
  expect_all_run(job, refusal);
  for (const auto& near : refusal.nearest) {
    EXPECT_EQ(near.plan.gpus(), 8) << near.change;
    EXPECT_NE(near.change.find("tensor"), std::string::npos) << near.change;
  }
}

// Three stages fill no eight GPUs with sides of powers of two; four do.
TEST(NearPlans, OfDecoupledOnesThatNeverFillTheClusterHaveOtherStages) {
  const model::Job job = job_from(
      "model: {name: llama-3-8b, sequence_length: 2048}\n" + std::string(kEightH100) +
      "plan: {tensor: 1, pipeline: 3, data: 1, micro_batch: 1, global_batch: 32, recompute: "
      "full}\npolicy: {schedule: fbd}\n");
  const PlanRefusal refusal = refusal_of(job);
  EXPECT_EQ(refusal.code, "illegal_plan");
  expect_all_run(job, refusal);
  EXPECT_EQ(refusal.nearest.front().change, "plan.pipeline 3 → 4");
  for (const auto& near : refusal.nearest) {
    EXPECT_EQ(near.plan.schedule, model::ScheduleKind::Decoupled) << near.change;
    EXPECT_EQ(near.plan.gpus(), 8) << near.change;
  }
}

// 32e9 parameters of 18 B on the backward ranks, four of eight GPUs: 146 GB each. Two machines have
// room; on one, both passes on the same ranks hold 73 GB.
TEST(NearPlans, OfDecoupledOnesThatFitNowhereHaveMoreMachinesOrNoSides) {
  const model::Job job = job_from(
      "model: {name: llama-3-8b, sequence_length: 2048, num_layers: 144}\n" +
      std::string(kEightH100) +
      "plan: {tensor: 1, pipeline: 4, data: 1, micro_batch: 1, global_batch: 32, recompute: "
      "full}\npolicy: {schedule: fbd}\n");
  const PlanRefusal refusal = refusal_of(job);
  EXPECT_EQ(refusal.code, "does_not_fit");
  ASSERT_GE(refusal.nearest.size(), 2U);
  ASSERT_LE(refusal.nearest.size(), 3U);
  const auto& first = refusal.nearest.front();
  EXPECT_EQ(first.change.rfind("cluster.nodes[0].count 1 → 2", 0), 0U) << first.change;
  EXPECT_EQ(first.plan.schedule, model::ScheduleKind::Decoupled);
  model::Job larger = job;
  larger.cluster.groups.front().count = 2;
  larger.plan = first.plan;
  EXPECT_TRUE(std::holds_alternative<sim::SimulationReport>(
      sim::simulate(larger, {.sensitivities = false})));
  for (std::size_t i = 1; i < refusal.nearest.size(); ++i) {
    EXPECT_EQ(refusal.nearest[i].change.rfind("policy.schedule fbd → 1f1b", 0), 0U)
        << refusal.nearest[i].change;
  }
}

// An H100 has no units for blocks of 32, but those for eight bits.
TEST(NearPlans, OfAFormatThatTheGpuLacksHaveTheNextThatItHas) {
  for (const char* precision : {"mxfp8", "nvfp4"}) {
    const model::Job job = job_from(
        "model: {name: llama-3-8b, sequence_length: 4096}\n" + std::string(kEightH100) +
        "plan: {tensor: 2, data: 4, micro_batch: 1, global_batch: 32, zero: 1, precision: " +
        precision + "}\n");
    const PlanRefusal refusal = refusal_of(job);
    expect_all_run(job, refusal);
    ASSERT_GE(refusal.nearest.size(), 2U);
    EXPECT_EQ(refusal.nearest[0].plan.precision, model::Precision::Fp8PerTensor);
    EXPECT_EQ(refusal.nearest[1].plan.precision, model::Precision::Bf16);
  }
}

// The second rank takes the second message first: it needs two slots.
TEST(NearPlans, OfRanksThatWaitForEachOtherHaveMoreSlots) {
  model::Job job = job_from(
      "model: {name: llama-3-8b, sequence_length: 4096}\n" + std::string(kEightH100) +
      "plan: {tensor: 4, pipeline: 2, data: 1, micro_batch: 1, global_batch: 2, recompute: "
      "full}\n");
  job.plan.schedule = model::ScheduleKind::OrderFile;
  job.plan.order_file = "crosswise.txt";
  job.plan.orders = {{"F0.0", "F1.0", "B1.0", "B0.0"}, {"F1.0", "B1.0", "F0.0", "B0.0"}};
  job.plan.receive_slots = 1;
  const PlanRefusal refusal = refusal_of(job);
  ASSERT_EQ(refusal.nearest.size(), 1U);
  EXPECT_EQ(refusal.nearest.front().change, "policy.receive_slots 1 → 2");
  EXPECT_EQ(refusal.others_tried, 1);
  EXPECT_FALSE(refusal_of(job, false).others_tried);
}

// Ten million tasks a step: two tries would go beyond what is allowed, so that the one is without a
// limit. With a limit of any number of slots below that of the micro-batches they still wait.
TEST(NearPlans, OfAGiantOrderGoWithoutSlots) {
  model::Job job =
      job_from("model: {name: gpt2}\n" + std::string(kEightH100) +
               "plan: {tensor: 4, pipeline: 2, data: 1, micro_batch: 1, global_batch: 3000000}\n");
  job.plan.receive_slots = 1;
  sim::PlanRefusal refusal;
  sim::look_for_slots(job, refusal);
  ASSERT_EQ(refusal.nearest.size(), 1U);
  EXPECT_EQ(refusal.nearest.front().change, "policy.receive_slots 1 → 0");
  EXPECT_EQ(refusal.others_tried, 1);
  EXPECT_EQ(refusal.others_too_large, 0);
}

}  // namespace
}  // namespace megatwin::tests
