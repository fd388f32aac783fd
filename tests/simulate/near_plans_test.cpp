// What a refusal offers instead: whether somebody looked, and that every plan offered runs.
#include <string>
#include <variant>

#include <gtest/gtest.h>

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

TEST(NearPlans, OfAnImpossibleOneAreCounted) {
  const model::Job job =
      job_from("model: {name: llama-3.1-405b, sequence_length: 8192}\n" + std::string(kEightH100) +
               "plan: {tensor: 8, pipeline: 1, data: 1, micro_batch: 1, global_batch: 16}\n");
  const PlanRefusal refusal = refusal_of(job);
  EXPECT_EQ(refusal.code, "does_not_fit");
  EXPECT_TRUE(refusal.nearest.empty());
  EXPECT_GT(refusal.others_tried.value_or(0), 10);
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

// Eleven GPUs' worth of ranks on eight: no sides of powers of two make three stages.
TEST(NearPlans, OfDecoupledOnesThatNeverFillTheClusterAreCoupled) {
  const model::Job job = job_from(
      "model: {name: llama-3-8b, sequence_length: 2048}\n" + std::string(kEightH100) +
      "plan: {tensor: 1, pipeline: 3, data: 1, micro_batch: 1, global_batch: 32, recompute: "
      "full}\npolicy: {schedule: fbd}\n");
  const PlanRefusal refusal = refusal_of(job);
  EXPECT_EQ(refusal.code, "illegal_plan");
  expect_all_run(job, refusal);
  for (const auto& near : refusal.nearest) {
    EXPECT_EQ(near.change.rfind("policy.schedule fbd → 1f1b, ", 0), 0U) << near.change;
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

}  // namespace
}  // namespace megatwin::tests
