// Tensor, context and expert traffic on adapters that messages between stages and gradient
// reductions use as well: nothing changes where nothing overlaps, the step grows by no more than
// the traffic where it does, and the report names who met whom.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "sim/group_lanes.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

using model::RankId;
using sim::SimulationReport;

SimulationReport run(const std::string& plan, const std::string& network, int machines,
                     const std::string& model = "llama-3-8b") {
  return report_of(
      job_from("model: {name: " + model + ", sequence_length: 4096}\n" +
               "cluster: {nodes: [{type: dgx-h100, count: " + std::to_string(machines) +
               "}], fabric: {type: rail-optimized-fat-tree, routing: spray}}\n"
               "software: {framework: megatron-core}\nplan: {micro_batch: 1, " +
               plan + "}\nnetwork: " + network + "\n"),
      {.sensitivities = false});
}

bool names(const SimulationReport& report, const std::string& what) {
  return std::any_of(report.links.begin(), report.links.end(), [&](const sim::LinkLoad& load) {
    return std::any_of(load.users.begin(), load.users.end(), [&](const std::string& user) {
      return user.find(what) != std::string::npos;
    });
  });
}

double traffic(const SimulationReport& report) {
  const sim::StepBreakdown& parts = report.breakdown;
  return (parts.exposed_tp + parts.exposed_cp + parts.exposed_ep + parts.exposed_pp +
          parts.exposed_dp)
      .value;
}

// Tensor groups of two machines on two stages. One micro-batch: a stage computes while the other
// waits, so that no ring meets a message; the flows are there and cost nothing.
TEST(SharedAdapters, CostNothingWhereNothingOverlaps) {
  const std::string plan =
      "tensor: 16, pipeline: 2, data: 1, sequence_parallel: true, global_batch: 1";
  const SimulationReport flows = run(plan, "maxmin", 4), closed = run(plan, "analytic", 4);
  EXPECT_GT(flows.network_flows, 0);
  EXPECT_NEAR(flows.step_time.value, closed.step_time.value, 1e-8);
  EXPECT_NEAR(flows.breakdown.exposed_tp.value, closed.breakdown.exposed_tp.value, 1e-8);
}

// Eight micro-batches: messages arrive at a stage while its rings run.
TEST(SharedAdapters, SlowRingsThatMeetMessages) {
  const std::string plan =
      "tensor: 16, pipeline: 2, data: 1, sequence_parallel: true, global_batch: 8";
  const SimulationReport flows = run(plan, "maxmin", 4), closed = run(plan, "analytic", 4);
  EXPECT_GT(flows.step_time.value, closed.step_time.value * (1 + 1e-6));
  EXPECT_LT(flows.step_time.value, closed.step_time.value + traffic(closed));
  EXPECT_TRUE(names(flows, "collectives inside tasks"));
  EXPECT_TRUE(names(flows, "activations"));
  const sim::StepBreakdown& parts = flows.breakdown;
  EXPECT_GT(parts.exposed_tp, closed.breakdown.exposed_tp);
  EXPECT_NEAR((parts.compute + parts.exposed_tp + parts.exposed_pp + parts.exposed_dp +
               parts.exposed_ep + parts.exposed_cp + parts.bubble + parts.optimizer + parts.other)
                  .value,
              flows.step_time.value, 1e-9);
}

// Context groups of two machines on two chunks a stage: the gradients of one chunk are reduced over
// the adapters on which the last backward passes of the other still exchange keys and values. When
// reductions wait for all compute instead, messages meet those exchanges just as before, but no
// reduction does, so that sharing costs less. (With one chunk a stage nothing is left to meet, and
// both cost the same: what this test said before did not notice.)
TEST(SharedAdapters, SlowContextGroupsThatMeetReductions) {
  const auto late = [](const std::string& overlap, SimulationReport* report) {
    const std::string plan =
        "tensor: 8, context: 2, pipeline: 2, model_chunks: 2, data: 2, sequence_parallel: true, "
        "global_batch: 8, zero: 1, overlap_grad_reduce: " +
        overlap;
    const SimulationReport flows = run(plan, "maxmin", 8), closed = run(plan, "analytic", 8);
    EXPECT_LT(flows.step_time.value, closed.step_time.value + traffic(closed));
    EXPECT_GT(flows.breakdown.exposed_cp, closed.breakdown.exposed_cp);
    if (report != nullptr) *report = flows;
    return flows.step_time.value - closed.step_time.value;
  };
  SimulationReport overlapped;
  const double meets = late("true", &overlapped), waits = late("false", nullptr);
  EXPECT_GT(waits, 0);
  EXPECT_GT(meets, 1.05 * waits);
  EXPECT_TRUE(names(overlapped, "collectives inside tasks"));
  EXPECT_TRUE(names(overlapped, "collectives of stage"));
}

// Tensor groups stay inside a machine there and meet nobody: what sharing costs is the context
// groups' alone. It was spread over both by their size.
TEST(SharedAdapters, DelayOnlyTheKindThatMeetsOthers) {
  const std::string plan =
      "tensor: 8, context: 2, pipeline: 2, model_chunks: 2, data: 2, sequence_parallel: true, "
      "global_batch: 8, zero: 1";
  const SimulationReport flows = run(plan, "maxmin", 8), closed = run(plan, "analytic", 8);
  ASSERT_EQ(flows.critical_stage, closed.critical_stage);
  EXPECT_GT(closed.breakdown.exposed_tp.value, 1e-3);
  EXPECT_NEAR(flows.breakdown.exposed_tp.value, closed.breakdown.exposed_tp.value, 1e-7);
  EXPECT_GT(flows.breakdown.exposed_cp.value, closed.breakdown.exposed_cp.value + 1e-5);
  EXPECT_NEAR(flows.breakdown.compute.value, closed.breakdown.compute.value, 1e-7);
}

// Expert groups of two machines meet messages and the reduction of the dense gradients.
TEST(SharedAdapters, SlowExpertsToo) {
  const std::string plan =
      "tensor: 2, expert: 8, pipeline: 2, data: 8, global_batch: 64, zero: 1, recompute: full, "
      "sequence_parallel: true";
  const SimulationReport flows = run(plan, "maxmin", 4, "mixtral-8x7b");
  const SimulationReport closed = run(plan, "analytic", 4, "mixtral-8x7b");
  EXPECT_GT(flows.step_time.value, closed.step_time.value * (1 + 1e-5));
  EXPECT_LT(flows.step_time.value, closed.step_time.value + traffic(closed));
  EXPECT_TRUE(names(flows, "expert-parallel collectives inside tasks"));
  EXPECT_TRUE(names(flows, "collectives of stage"));
}

// One lane a rank in place of its pairs: the same bytes out of and into every adapter.
TEST(SharedAdapters, ShiftedLanesLoadAdaptersAsPairsDo) {
  const model::Job job = job_from(
      "model: {name: llama-3-8b, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100, count: 3}], fabric: {type: rail-optimized-fat-tree}}\n"
      "plan: {tensor: 8, data: 3, micro_batch: 1, global_batch: 3}\n");
  const auto network = sim::JobNetwork::build(job);
  ASSERT_TRUE(network);
  std::vector<RankId> members;
  members.reserve(24);
  for (int r = 0; r < 24; ++r) members.push_back({r});
  const auto load = [&](const std::vector<sim::GroupLane>& lanes, bool out) {
    std::vector<double> rates(24);
    for (const sim::GroupLane& lane : lanes) {
      const RankId end = out ? lane.key.from : lane.key.to;
      rates[static_cast<std::size_t>(end.value)] += lane.rate.value;
    }
    return rates;
  };
  const auto pairs = pair_lanes(**network, members, {1e9});
  const auto shifted = shifted_lanes(**network, members, {1e9});
  EXPECT_EQ(pairs.size(), 24U * 16);
  EXPECT_EQ(shifted.size(), 24U);
  for (const bool out : {true, false}) EXPECT_EQ(load(pairs, out), load(shifted, out)) << out;
}

}  // namespace
}  // namespace megatwin::tests
