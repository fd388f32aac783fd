// Steps of years: refused with what takes them, instead of overflowing the clock; and networks that
// do not lay out stages or replicas that differ.
#include "sim/step_limit.h"

#include <cmath>
#include <limits>
#include <string>
#include <variant>

#include <gtest/gtest.h>

#include "model/program/job_program.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

using sim::PlanRefusal;

// Two machines: a stage each with `pipeline` 2, a replica each with 1.
std::string on_two_machines(const std::string& node, const std::string& fabric, int pipeline,
                            const std::string& more = "") {
  return "model: {name: llama-2-13b, sequence_length: 2048}\n"
         "cluster: {nodes: [{type: dgx-a100-80g, count: 2" +
         node + "}], fabric: {type: fat-tree" + fabric + "}}\n" +
         "plan: {tensor: 8, pipeline: " + std::to_string(pipeline) +
         ", micro_batch: 1, global_batch: 8, recompute: full, overlap_p2p: false}\n" + more;
}

PlanRefusal refusal_of(const std::string& yaml) {
  const auto answer = sim::simulate(job_from(yaml), {.sensitivities = false});
  if (const auto* refusal = std::get_if<PlanRefusal>(&answer)) return *refusal;
  ADD_FAILURE() << "not refused:\n" << yaml;
  return {};
}

void expect_endless(const std::string& yaml, const std::string& part) {
  const PlanRefusal refusal = refusal_of(yaml);
  EXPECT_EQ(refusal.code, "endless_step");
  ASSERT_EQ(refusal.reasons.size(), 1u);
  EXPECT_NE(refusal.reasons[0].find("a step would take over 3 years"), std::string::npos);
  EXPECT_NE(refusal.reasons[0].find(part), std::string::npos) << refusal.reasons[0];
}

TEST(StepLimit, NamesTheTermThatTakesYears) {
  expect_endless(on_two_machines(", nic_bandwidth: 1e-30 GB/s", "", 2), "pipeline traffic");
  expect_endless(on_two_machines(", nic_latency: 1e30 s", "", 2), "pipeline traffic");
  expect_endless(on_two_machines("", ", switch_latency: 1e9 s", 2), "pipeline traffic");
  expect_endless(on_two_machines(", nic_bandwidth: 1e-30 GB/s", "", 1), "data-parallel traffic");
  expect_endless(on_two_machines(", nic_latency: 1e30 s", "", 2, "network: maxmin\n"),
                 "pipeline traffic");
}

// Also where the share of weight gradients is looked for by simulating.
TEST(StepLimit, DecoupledStepsOfYearsAreRefused) {
  const std::string job =
      "model: {name: gpt-7.5b}\n"
      "hardware: {gpus: {slow: {like: A100-SXM4-80GB, fp16: 1 FLOP/s, bf16: 1 FLOP/s, "
      "fp32: 1 FLOP/s, tf32: 1 FLOP/s}}}\n"
      "cluster: {nodes: [{gpu: slow, gpus: 8, count: 2}]}\n"
      "plan: {tensor: 2, pipeline: 4, data: 1, micro_batch: 1, global_batch: 64}\n"
      "policy: {schedule: fbd, feed: activations, weight_gradients_on_forward: ";
  for (const char* share : {"auto", "0", "0.5"}) expect_endless(job + share + "}\n", "");
}

// Eight micro-batches whose sends hold the lane for at least a latency of 1e5 s each.
TEST(StepLimit, LongStepsBelowItAreSimulated) {
  const auto report =
      report_of(job_from(on_two_machines(", nic_latency: 1e5 s", "", 2)), {.sensitivities = false});
  EXPECT_GT(report.step_time.value, 8e5);
  EXPECT_LT(report.step_time, sim::kStepTimeMax);
  EXPECT_TRUE(std::isfinite(report.tokens_per_s));
}

TEST(StepLimit, DurationsSaturate) {
  EXPECT_EQ(model::round_to_instant({1e30}), model::kDurationMax);
  EXPECT_EQ(model::round_to_instant({std::numeric_limits<double>::infinity()}),
            model::kDurationMax);
  EXPECT_EQ(model::round_to_instant({std::nan("")}), model::kDurationMax);
  EXPECT_EQ(model::round_to_instant({-1e30}).ns, -model::kDurationMax.ns);
  EXPECT_EQ(model::round_to_instant({1.5e-9}).ns, 2);
}

TEST(UnequalRanks, AreNotLaidOutOnANetworkNorDisturbed) {
  const std::string mixed =
      "model: {name: llama-2-13b, sequence_length: 2048}\n"
      "cluster: {nodes: [{type: dgx-a100-80g, count: 1}, {type: dgx-1v-32g, count: 1}]}\n"
      "plan: {tensor: 8, pipeline: 2, micro_batch: 1, precision: fp16, recompute: full, zero: 0,\n"
      "       global_batch: 64}\n";
  const PlanRefusal flows = refusal_of(mixed + "network: maxmin\n");
  EXPECT_EQ(flows.code, "no_network");
  EXPECT_NE(flows.reasons.at(0).find("network maxmin"), std::string::npos);
  EXPECT_NE(flows.reasons.at(0).find("network analytic"), std::string::npos);
  const PlanRefusal slow =
      refusal_of(mixed + "disturbances: [{kind: slow-gpu, rank: 1, factor: 1.5}]\n");
  EXPECT_NE(slow.reasons.at(0).find("no disturbances"), std::string::npos);
}

}  // namespace
}  // namespace megatwin::tests
