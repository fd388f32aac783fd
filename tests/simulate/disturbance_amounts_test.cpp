// By how much a disturbance narrows what it strikes, and whose traffic a delay is: on the graph and
// the rates themselves, by hand.
#include <map>

#include <gtest/gtest.h>

#include "model/program/job_program.h"
#include "sim/group_algorithm.h"
#include "sim/group_contention.h"
#include "sim/group_lanes.h"
#include "sim/job_network.h"
#include "sim/task_traffic.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

using model::Job;
using model::RankId;

Job rails(const std::string& disturbances, const std::string& model = "llama-3-8b",
          const std::string& plan = "tensor: 8, data: 3, global_batch: 3") {
  return job_from("model: {name: " + model +
                  ", sequence_length: 4096}\n"
                  "cluster: {nodes: [{type: dgx-h100, count: 3}], "
                  "fabric: {type: rail-optimized-fat-tree}}\n"
                  "plan: {micro_batch: 1, " +
                  plan + "}\n" + disturbances);
}

// How many times as wide a link is without the disturbance.
double narrowed(const std::string& disturbance, const std::string& from, const std::string& to) {
  const auto plain = sim::JobNetwork::build(rails(""));
  const auto disturbed = sim::JobNetwork::build(rails("disturbances: [{" + disturbance + "}]\n"));
  EXPECT_TRUE(plain && disturbed);
  const auto bandwidth = [&](const sim::JobNetwork& network) {
    const model::Topology& topology = network.topology();
    return topology.link(topology.find_link(from, to)).bandwidth;
  };
  return ratio(bandwidth(**plain) / bandwidth(**disturbed));
}

// Down for 2 ms of every 10, a link carries four fifths; both directions do.
TEST(DisturbanceAmounts, AFlappingLinkCarriesWhatItsUptimeLeaves) {
  const std::string flapping =
      "kind: flapping-link, from: n0/nic0, to: rail0/leaf0, every: 10 ms, ";
  EXPECT_NEAR(narrowed(flapping + "down: 2 ms", "n0/nic0", "rail0/leaf0"), 1 / 0.8, 1e-12);
  EXPECT_NEAR(narrowed(flapping + "down: 2 ms", "rail0/leaf0", "n0/nic0"), 1 / 0.8, 1e-12);
  EXPECT_NEAR(narrowed(flapping + "down: 9 ms", "n0/nic0", "rail0/leaf0"), 10, 1e-9);
  EXPECT_EQ(narrowed(flapping + "down: 9 ms", "n0/nic1", "rail1/leaf0"), 1);
}

// A slot of 16 lanes that came up with fewer.
TEST(DisturbanceAmounts, ASlotCarriesItsLanes) {
  for (const int lanes : {1, 4, 8}) {
    const std::string width = "kind: pcie-width, at: n0/nic3, lanes: " + std::to_string(lanes);
    EXPECT_NEAR(narrowed(width, "n0/nic3", "n0/pcie3"), 16.0 / lanes, 1e-12) << lanes;
    EXPECT_EQ(narrowed(width, "n0/nic3", "rail3/leaf0"), 1);
  }
}

// Eight members on each of three machines: four lanes to each of the other two, since every second
// one goes to the machine after the next.
TEST(DisturbanceAmounts, ShiftedLanesSpreadOverAllMachines) {
  const auto network = sim::JobNetwork::build(rails(""));
  ASSERT_TRUE(network);
  std::vector<RankId> members;
  members.reserve(24);
  for (int r = 0; r < 24; ++r) members.push_back({r});
  std::map<std::pair<int, int>, int> lanes;
  for (const sim::GroupLane& lane : shifted_lanes(**network, members, {1e9})) {
    ++lanes[{(*network)->machine_of(lane.key.from), (*network)->machine_of(lane.key.to)}];
  }
  EXPECT_EQ(lanes.size(), 6U);
  for (const auto& [machines, count] : lanes) {
    EXPECT_EQ(count, 4) << machines.first << " to " << machines.second;
  }
}

// Each kind of traffic inside a task goes at its own rate over its own delay, replica by replica.
TEST(DisturbanceAmounts, EachKindInsideATaskHasItsOwnDelay) {
  const Job job = rails("", "mixtral-8x7b", "tensor: 2, expert: 4, data: 12, global_batch: 12");
  const sim::GroupAlgorithms algorithms(job, build_job_program(job));
  sim::GroupContention contention;
  contention.tensor.assign(12, 2);
  contention.context.assign(12, 3);
  contention.expert.assign(12, 5);
  contention.tensor[7] = 4;
  contention.expert[0] = 1;
  contention.expert_tensor.assign(12, 1);
  const sim::TaskTrafficRates rates =
      task_traffic_rates(contention, {{.exposed = {1, 1, 1}}}, algorithms);
  ASSERT_EQ(rates.rate[0].size(), 12U);
  ASSERT_EQ(rates.rate[2].size(), 12U);
  // Tensor groups make one kind of collective, of one size.
  const auto tensor = algorithms.of(model::GroupKind::Tensor).peak;
  const auto expert = algorithms.of(model::GroupKind::Expert).peak;
  EXPECT_NEAR(ratio(rates.rate[0][0] / tensor), 0.5, 1e-12);
  EXPECT_NEAR(ratio(rates.rate[0][7] / tensor), 0.25, 1e-12);
  EXPECT_NEAR(ratio(rates.rate[2][0] / expert), 1, 1e-12);
  EXPECT_NEAR(ratio(rates.rate[2][7] / expert), 0.2, 1e-12);
}

// As the plan's own imbalance of that size.
TEST(DisturbanceAmounts, ExpertImbalanceIsThePlans) {
  const std::string plan =
      "tensor: 2, expert: 4, data: 12, global_batch: 12, zero: 1, recompute: full";
  const Job disturbed =
      rails("disturbances: [{kind: expert-imbalance, factor: 1.5}]\n", "mixtral-8x7b", plan);
  Job plain = rails("", "mixtral-8x7b", plan);
  const model::Seconds even = report_of(plain, {.sensitivities = false}).step_time;
  plain.plan.expert_capacity_imbalance *= 1.5;
  const auto one = report_of(disturbed), other = report_of(plain);
  EXPECT_EQ(one.step_time, other.step_time);
  EXPECT_GT(one.step_time, 1.05 * even);
  EXPECT_EQ(one.memory_peak, other.memory_peak);
  EXPECT_EQ(one.critical_stage, other.critical_stage);
  EXPECT_EQ(one.breakdown.compute, other.breakdown.compute);
  EXPECT_EQ(one.energy_per_step.value, other.energy_per_step.value);
  // What would fit is asked with the experts as uneven as they are.
  ASSERT_EQ(one.sensitivities.size(), other.sensitivities.size());
  for (std::size_t i = 0; i < one.sensitivities.size(); ++i) {
    EXPECT_EQ(one.sensitivities[i].change, other.sensitivities[i].change);
    EXPECT_EQ(one.sensitivities[i].step_time, other.sensitivities[i].step_time);
  }
}

}  // namespace
}  // namespace megatwin::tests
