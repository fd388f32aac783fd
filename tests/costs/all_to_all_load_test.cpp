#include "model/all_to_all_load.h"

#include <vector>

#include <gtest/gtest.h>

#include "model/collective_cost.h"
#include "tests/costs/gpus.h"

namespace megatwin::model {
namespace {

std::vector<MemberSite> sites(int machines, int local, int adapters) {
  std::vector<MemberSite> members;
  for (int machine = 0; machine < machines; ++machine) {
    for (int gpu = 0; gpu < local; ++gpu) members.push_back({machine, gpu * adapters / local});
  }
  return members;
}

// Evenly: (l − 1)/n inside, (n − l)/n by each adapter of its own and twice that where two GPUs
// share one.
TEST(AllToAllLoad, OfEqualPairsIsTheTextbooks) {
  const auto own = all_to_all_load({.members = sites(3, 8, 8), .weights = {}});
  EXPECT_NEAR(own.inside, 7.0 / 24, 1e-15);
  EXPECT_NEAR(own.adapter, 16.0 / 24, 1e-15);
  EXPECT_EQ(own.peers, 16);
  const auto shared = all_to_all_load({.members = sites(3, 8, 4), .weights = {}});
  EXPECT_NEAR(shared.adapter, 2 * 16.0 / 24, 1e-15);
  EXPECT_EQ(fewest_adapters(sites(3, 8, 4)), 4);
}

// Ranks 0 and 1 of one machine send all they have, 4 mean pairs each, to rank 3 of another: 8/4 of
// a rank's bytes into its adapter, and out by PXN through the adapter beside it, without by their
// own ones.
TEST(AllToAllLoad, LeavesByTheDestinationsRail) {
  const std::vector<MemberSite> members = sites(2, 2, 2);
  PairWeights weights(4, std::vector<double>(4));
  weights[0][3] = weights[1][3] = 4;
  weights[2][2] = weights[3][3] = 4;
  const auto load = all_to_all_load({.members = members, .weights = weights});
  EXPECT_EQ(load.adapter, 2);
  EXPECT_EQ(load.inside, 0);
  EXPECT_EQ(load.peers, 2);
  weights[1] = {0, 0, 4, 0};
  // Now each to another: one rank's bytes an adapter.
  EXPECT_EQ(all_to_all_load({.members = members, .weights = weights}).adapter, 1);
  // Rank 1 alone sends, to both: halves by PXN, all by its own adapter without.
  weights[0] = {4, 0, 0, 0};
  weights[1] = {0, 0, 2, 2};
  EXPECT_EQ(all_to_all_load({.members = members, .weights = weights}).adapter, 0.5);
  EXPECT_EQ(all_to_all_load({.members = members, .weights = weights, .forwards = false}).adapter,
            1);
}

// A table of equal pairs gives the closed form without one; twice as much through the busiest
// adapter twice the time of what large messages leave by.
TEST(AllToAllLoad, EqualPairsAreNoTable) {
  const Node node{.num_gpus = 8, .num_nics = 8, .nic_per_direction = {50e9}, .nic_type = "NDR IB"};
  for (const int machines : {1, 2, 5}) {
    GroupTopology topology = group_topology({8 * machines, 8, 1}, node, tests::h200(), {}, {});
    for (const double bytes : {1e3, 1e6, 1e9}) {
      topology.exchange.reset();
      topology.adapters = 0;
      const auto even = collective_time(CollectiveKind::AllToAll, {bytes}, topology).time;
      topology.exchange = all_to_all_load({.members = sites(machines, 8, 8), .weights = {}});
      topology.adapters = 8;
      const auto table = collective_time(CollectiveKind::AllToAll, {bytes}, topology).time;
      EXPECT_NEAR(table.value / even.value, 1, 1e-12) << machines << " " << bytes;
      if (machines == 1 || bytes < 1e9) continue;
      topology.exchange->adapter *= 2;
      const auto twice = collective_time(CollectiveKind::AllToAll, {bytes}, topology).time;
      EXPECT_NEAR(twice.value / even.value, 2, 0.01) << machines;
    }
  }
}

// A GPU alone on its machine has one adapter, or all those that are its own, whatever hangs there.
TEST(AllToAllLoad, RanksHaveTheirOwnAdapters) {
  Node node{.num_gpus = 8, .num_nics = 8, .nic_per_direction = {50e9}, .nic_type = "NDR IB"};
  const auto bound = [&](const GroupPlacement& placement) {
    const auto topology = group_topology(placement, node, tests::h200(), {}, {});
    const Seconds least = injection_bound(CollectiveKind::AllReduce, {100e9}, topology);
    EXPECT_GE(collective_time(CollectiveKind::AllReduce, {100e9}, topology).time, least);
    return least.value;
  };
  EXPECT_NEAR(bound({2, 1, 1}), 2, 1e-12);
  EXPECT_NEAR(bound({2, 1, 8}), 2, 1e-12);
  EXPECT_NEAR(bound({4, 2, 1}), 1, 1e-12);
  EXPECT_NEAR(bound({16, 8, 1}), 0.25, 1e-12);
  node.num_nics = 16;
  EXPECT_NEAR(bound({2, 1, 1}), 1, 1e-12);
  node.num_nics = 4;
  EXPECT_NEAR(bound({2, 1, 1}), 2, 1e-12);
  EXPECT_NEAR(bound({2, 1, 8}), 4, 1e-12);
}

}  // namespace
}  // namespace megatwin::model
