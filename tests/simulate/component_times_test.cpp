#include "sim/component_times.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

sim::SimulationReport explained(const std::string& yaml) {
  sim::SimulateOptions options;
  options.explain = true;
  return report_of(job_from(yaml), options);
}

const char* const kJobs[] = {
    "model: {name: gpt3-175b}\n"
    "cluster: {nodes: [{type: dgx-a100-80g, count: 16}]}\n"
    "software: {framework: megatron-2022}\n"
    "plan: {tensor: 8, pipeline: 8, data: 2, micro_batch: 1, global_batch: 64, recompute: full}\n",
    "model: {name: mixtral-8x7b, sequence_length: 4096}\n"
    "cluster: {nodes: [{type: dgx-h100, count: 2}]}\n"
    "plan: {tensor: 2, expert: 4, data: 8, micro_batch: 1, global_batch: 64, precision: fp8}\n",
    "model: {name: llama-3-8b, sequence_length: 8192}\n"
    "cluster: {nodes: [{type: dgx-h100, count: 1}]}\n"
    "software: {framework: fsdp2}\n"
    "plan: {data: 8, micro_batch: 1, global_batch: 8, precision: fp8-current}\n"};

model::Seconds step_of(const sim::SimulationReport& report, std::string_view name) {
  for (const sim::ComponentTime& one : report.components) {
    if (one.name == name) return one.step();
  }
  return {};
}

// The components sum to the step, and each of the breakdown's waits is one of them; what is left
// over is the rounding of each task to a nanosecond.
TEST(ComponentTimes, SumToTheStepAndItsParts) {
  for (const char* yaml : kJobs) {
    const sim::SimulationReport report = explained(yaml);
    model::Seconds sum;
    for (const sim::ComponentTime& one : report.components) sum += one.step();
    EXPECT_NEAR(sum.value, report.step_time.value, 1e-12 * report.step_time.value);
    EXPECT_NEAR(step_of(report, "rounding and disturbances").value, 0, 1e-6);
    const sim::StepBreakdown& parts = report.breakdown;
    EXPECT_EQ(step_of(report, "tensor-parallel traffic"), parts.exposed_tp);
    EXPECT_EQ(step_of(report, "data-parallel traffic"), parts.exposed_dp);
    EXPECT_EQ(step_of(report, "expert traffic"), parts.exposed_ep);
    EXPECT_EQ(step_of(report, "bubble"), parts.bubble);
    EXPECT_EQ(step_of(report, "optimizer"), parts.optimizer);
    EXPECT_EQ(step_of(report, "other kernels").value, 0) << yaml;
  }
}

TEST(ComponentTimes, AreNamedAfterTheModel) {
  std::set<std::string> names;
  for (const char* yaml : kJobs) {
    for (const sim::ComponentTime& one : explained(yaml).components) names.insert(one.name);
  }
  for (const char* name : {"attention", "feed-forward", "experts", "norms and residuals",
                           "head and loss", "quantisation", "recomputation", "embedding"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(ComponentTimes, OnlyForThoseWhoAsk) {
  EXPECT_TRUE(report_of(job_from(kJobs[0])).components.empty());
}

}  // namespace
}  // namespace megatwin::tests
