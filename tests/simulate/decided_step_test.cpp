// Schedules that decide while the step runs, and decoupled ranks, beside disturbances and flows:
// what works together, and what is refused with the words that help.
#include <string>
#include <variant>

#include <gtest/gtest.h>

#include "sim/simulate.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

using sim::PlanRefusal;
using sim::SimulationReport;

// Sixteen H100: four stages, two replicas of two ranks a stage.
model::Job job_of(const std::string& policy, const std::string& more = "") {
  return job_from(
      "model: {name: llama-3-8b, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100, count: 2}]}\n"
      "software: {framework: megatron-core}\n"
      "plan: {tensor: 2, pipeline: 4, data: " +
      std::string(policy.find("fbd") == std::string::npos ? "2" : "1") +
      ", micro_batch: 1, global_batch: 16, recompute: full}\npolicy: " + policy + "\n" + more);
}

std::string reasons_of(const model::Job& job) {
  const auto answer = sim::simulate(job, {.sensitivities = false});
  const auto* refusal = std::get_if<PlanRefusal>(&answer);
  if (refusal == nullptr) return "";
  std::string all;
  for (const std::string& reason : refusal->reasons) all += reason + "\n";
  return all;
}

// Rank 12 is in stage 3 of replica 0, the longest for its head: its replica alone is ordered anew,
// and holds up the step. No task takes more than 1.5 times as long, so neither does the step.
TEST(DecidedStep, ASlowGpuIsDecidedAround) {
  for (const char* policy :
       {"{schedule: dpp}", "{schedule: dpp-depth}", "{schedule: dpp-breadth}"}) {
    const SimulationReport plain = report_of(job_of(policy), {.sensitivities = false});
    EXPECT_EQ(plain.ranks_simulated, 4);
    EXPECT_EQ(plain.engine, "events");
    const SimulationReport slow =
        report_of(job_of(policy, "disturbances: [{kind: slow-gpu, rank: 12, factor: 1.5}]\n"),
                  {.sensitivities = false});
    EXPECT_EQ(slow.ranks_simulated, 8) << policy;
    EXPECT_EQ(slow.engine, "events");
    EXPECT_GT(slow.step_time.value, 1.1 * plain.step_time.value) << policy;
    EXPECT_LT(slow.step_time.value, 1.5 * plain.step_time.value) << policy;
    ASSERT_TRUE(slow.disturbed.has_value());
    EXPECT_EQ(slow.disturbed->undisturbed_step_time.value, plain.step_time.value);
    EXPECT_GE(slow.memory_peak.value, plain.memory_peak.value);
  }
}

TEST(DecidedStep, FlowsNeedAnOrderBeforehand) {
  EXPECT_NE(reasons_of(job_of("{schedule: dpp}", "network: maxmin\n"))
                .find("policy.schedule dpp: decides while the step runs"),
            std::string::npos);
  EXPECT_EQ(reasons_of(job_of("{schedule: 1f1b}", "network: maxmin\n")), "");
}

TEST(DecidedStep, DecoupledRanksTakeClosedFormsOnly) {
  EXPECT_EQ(reasons_of(job_of("{schedule: fbd}")), "");
  EXPECT_NE(reasons_of(job_of("{schedule: fbd}", "network: maxmin\n")).find("network maxmin"),
            std::string::npos);
  EXPECT_NE(reasons_of(job_of("{schedule: fbd}",
                              "disturbances: [{kind: slow-gpu, rank: 0, factor: 1.5}]\n"))
                .find("disturbances are not simulated"),
            std::string::npos);
}

}  // namespace
}  // namespace megatwin::tests
