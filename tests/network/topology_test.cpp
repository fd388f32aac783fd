// One worked case a fabric: the way link by link, its latency and narrowest link, by hand.
#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "model/topology/graph_search.h"
#include "model/topology/machine_topology.h"
#include "model/topology/torus_load.h"
#include "tests/network/clusters.h"

namespace megatwin::model {
namespace {

Topology built(const Cluster& cluster, const FabricShape& shape) {
  auto topology = build_topology(cluster, shape);
  EXPECT_TRUE(topology) << (topology ? "" : to_text(topology.error()));
  return *std::move(topology);
}

Route route_of(Router& router, int from, int to, int channel = 0) {
  const auto route = router.route({.from = RankId{from}, .to = RankId{to}, .channel = channel});
  EXPECT_TRUE(route) << (route ? "" : to_text(route.error()));
  return route ? *route : Route{};
}

double in_us(Seconds time) { return time.value * 1e6; }

// GPU 0 and 3 share two links of 25 GB/s. GPU 0 and 7 share none: over 3 it is 2 links then 1 =
// 25 GB/s, over 4 it is 2 and 2 = 50 GB/s, so 4. GPU 0 and 5: over 1 it is 1 then 2, over 4 it is
// 2 then 1, both 25 GB/s, so the lower number.
TEST(CubeMesh, TakesTheWidestOfTheShortestWays) {
  const Cluster cluster = cube_mesh_cluster();
  const Topology topology = built(cluster, fabric_shape(cluster));
  Router router(topology);
  EXPECT_EQ(way(router, 0, 3), "n0/gpu0 -> n0/gpu3");
  EXPECT_EQ(route_of(router, 0, 3).bandwidth, 50_GBps);
  EXPECT_EQ(way(router, 0, 7), "n0/gpu0 -> n0/gpu4 -> n0/gpu7");
  EXPECT_EQ(route_of(router, 0, 7).bandwidth, 50_GBps);
  EXPECT_EQ(way(router, 0, 5), "n0/gpu0 -> n0/gpu1 -> n0/gpu5");
  EXPECT_EQ(route_of(router, 0, 5).bandwidth, 25_GBps);
  // The wrong way of equal length: over 3 there is half of the width.
  Route wrong;
  wrong.links = {topology.find_link("n0/gpu0", "n0/gpu3"),
                 topology.find_link("n0/gpu3", "n0/gpu7")};
  EXPECT_NE(to_text(topology, wrong), way(router, 0, 7));
  EXPECT_EQ(topology.link(wrong.links[1]).bandwidth, 25_GBps);
}

// Without NVLink from 0 to 5 in at most one relay, PCIe it is: two switches, two sockets.
TEST(CubeMesh, FallsBackToPcie) {
  Cluster cluster = cube_mesh_cluster();
  cluster.groups[0].node.nvlink_matrix.assign(8, std::vector<int>(8, 0));
  const Topology topology = built(cluster, fabric_shape(cluster));
  Router router(topology);
  EXPECT_EQ(way(router, 0, 5),
            "n0/gpu0 -> n0/pcie0 -> n0/socket0 -> n0/socket1 -> n0/pcie2 -> n0/gpu5");
  EXPECT_EQ(route_of(router, 0, 5).bandwidth, 6_GBps);  // Between two Broadwells.
  EXPECT_EQ(way(router, 0, 1), "n0/gpu0 -> n0/pcie0 -> n0/gpu1");
}

// DGX-2: six 25 GB/s links a GPU to its board; eight GPUs' worth between the boards, 1.2 TB/s.
TEST(NvSwitch, JoinsTheTwoBoardsOfADgx2) {
  Cluster cluster = cube_mesh_cluster();
  cluster.groups[0].node.num_gpus = 16;
  cluster.groups[0].node.nvlink_topology = NvlinkTopology::Switch;
  const Topology topology = built(cluster, fabric_shape(cluster));
  Router router(topology);
  EXPECT_EQ(way(router, 1, 2), "n0/gpu1 -> n0/nvswitch0 -> n0/gpu2");
  EXPECT_EQ(way(router, 1, 9), "n0/gpu1 -> n0/nvswitch0 -> n0/nvswitch1 -> n0/gpu9");
  EXPECT_EQ(topology.link(topology.find_link("n0/nvswitch0", "n0/nvswitch1")).bandwidth, 1200_GBps);
}

TEST(NvSwitch, HoldsARackOf72) {
  const Cluster cluster =
      hopper_cluster({.machines = 1, .gpus = 72, .nics = 72}, FabricKind::Ideal);
  const Topology topology = built(cluster, fabric_shape(cluster));
  Router router(topology);
  EXPECT_EQ(way(router, 0, 71), "n0/gpu0 -> n0/nvswitch0 -> n0/gpu71");
  EXPECT_EQ(route_of(router, 0, 71).bandwidth, 450_GBps);
}

// Four machines of two GPUs, two machines a leaf, two spines. Rank 1 is n0/gpu1, rank 6 n3/gpu0.
// PXN leaves by adapter 0, whose GPU is 0. Latency: 0.3 (adapter) + 0.3 (leaf0) + 0.3 (spine) +
// 0.3 (leaf1) + 0.3 (adapter) = 1.5 µs. A leaf takes 2 · 2 · 50 = 200 GB/s from its machines, so
// each of its two cables to the spines has 100.
TEST(FatTree, GoesUpAndDown) {
  const Cluster cluster =
      hopper_cluster({.machines = 4, .gpus = 2, .nics = 2}, FabricKind::FatTree);
  FabricShape shape = fabric_shape(cluster);
  shape.machines_per_leaf = 2;
  shape.spines = 2;
  const Topology topology = built(cluster, shape);
  Router router(topology);
  const std::string up =
      "n0/gpu1 -> n0/nvswitch0 -> n0/gpu0 -> n0/pcie0 -> n0/nic0 -> leaf0 -> spine";
  const std::string down = " -> leaf1 -> n3/nic0 -> n3/pcie0 -> n3/gpu0";
  const std::string found = way(router, 1, 6);
  EXPECT_TRUE(found == up + "0" + down || found == up + "1" + down) << found;
  const Route route = route_of(router, 1, 6);
  EXPECT_NEAR(in_us(route.latency), 1.5, 1e-9);
  EXPECT_EQ(route.bandwidth, 50_GBps);
  EXPECT_EQ(topology.link(topology.find_link("leaf0", "spine1")).bandwidth, 100_GBps);
  // On one leaf no spine is passed: 0.3 + 0.3 + 0.3 µs.
  EXPECT_EQ(way(router, 0, 2),
            "n0/gpu0 -> n0/pcie0 -> n0/nic0 -> leaf0 -> n1/nic0 -> n1/pcie0 "
            "-> n1/gpu0");
  EXPECT_NEAR(in_us(route_of(router, 0, 2).latency), 0.9, 1e-9);
  // A way that skips the spine does not exist.
  EXPECT_EQ(topology.find_link("leaf0", "leaf1").value, -1);
}

// As above with oversubscription 4: 200/4 over two spines is 25 GB/s, narrower than the adapter.
TEST(FatTree, NarrowsWithOversubscription) {
  Cluster cluster = hopper_cluster({.machines = 4, .gpus = 2, .nics = 2}, FabricKind::FatTree);
  cluster.fabric.oversubscription = 4;
  FabricShape shape = fabric_shape(cluster);
  shape.machines_per_leaf = 2;
  shape.spines = 2;
  const Topology topology = built(cluster, shape);
  Router router(topology);
  EXPECT_EQ(route_of(router, 0, 6).bandwidth, 25_GBps);
  EXPECT_EQ(route_of(router, 0, 2).bandwidth, 50_GBps);
  shape.spray = true;  // One spine stands for both: 50 GB/s together.
  const Topology sprayed = built(cluster, shape);
  EXPECT_EQ(sprayed.link(sprayed.find_link("leaf0", "spine0")).bandwidth, 50_GBps);
}

// Eight machines of one GPU, one a leaf, two leaves a pod, one spine a pod, two cores a spine.
// Rank 0 to 1 stays in pod 0; rank 0 to 7 goes over a core: leaf0, spine, core, spine, leaf7 are
// five switches: 0.3 + 5 · 0.3 + 0.3 = 2.1 µs.
TEST(FatTree, ThreeLevelsGoOverACore) {
  const Cluster cluster =
      hopper_cluster({.machines = 8, .gpus = 1, .nics = 1}, FabricKind::FatTree);
  FabricShape shape = fabric_shape(cluster);
  shape.levels = 3;
  shape.machines_per_leaf = 1;
  shape.leaves_per_pod = 2;
  shape.spines = 1;
  shape.cores_per_spine = 1;
  const Topology topology = built(cluster, shape);
  Router router(topology);
  EXPECT_EQ(way(router, 0, 1),
            "n0/gpu0 -> n0/pcie0 -> n0/nic0 -> leaf0 -> pod0/spine0 -> leaf1 -> n1/nic0 -> "
            "n1/pcie0 -> n1/gpu0");
  EXPECT_EQ(way(router, 0, 7),
            "n0/gpu0 -> n0/pcie0 -> n0/nic0 -> leaf0 -> pod0/spine0 -> core0 -> pod3/spine0 -> "
            "leaf7 -> n7/nic0 -> n7/pcie0 -> n7/gpu0");
  EXPECT_NEAR(in_us(route_of(router, 0, 7).latency), 2.1, 1e-9);
  // The spine takes 2 · 50 GB/s from its leaves and gives as much to its core.
  EXPECT_EQ(topology.link(topology.find_link("pod0/spine0", "core0")).bandwidth, 100_GBps);
}

// Two machines of eight: rail 3 to rail 3 stays on the leaf of rail 3. Rail 1 to rail 6 hops to
// GPU 6 over NVLink first (PXN); without PXN it changes rails in a spine.
TEST(RailOptimized, KeepsToTheRail) {
  const Cluster cluster = hopper_cluster({.machines = 2}, FabricKind::RailOptimizedFatTree);
  FabricShape shape = fabric_shape(cluster);
  shape.spines = 1;
  const Topology topology = built(cluster, shape);
  Router router(topology);
  EXPECT_EQ(way(router, 3, 11),
            "n0/gpu3 -> n0/pcie3 -> n0/nic3 -> rail3/leaf0 -> n1/nic3 -> n1/pcie3 -> n1/gpu3");
  EXPECT_EQ(way(router, 1, 14),
            "n0/gpu1 -> n0/nvswitch0 -> n0/gpu6 -> n0/pcie6 -> n0/nic6 -> rail6/leaf0 -> "
            "n1/nic6 -> n1/pcie6 -> n1/gpu6");
  Router plain(topology, {.pxn = false});
  const std::string over_spine =
      "n0/gpu1 -> n0/pcie1 -> n0/nic1 -> rail1/leaf0 -> spine0 -> rail6/leaf0 -> n1/nic6 -> "
      "n1/pcie6 -> n1/gpu6";
  EXPECT_EQ(way(plain, 1, 14), over_spine);
  EXPECT_NE(way(router, 1, 14), over_spine);
}

// Three groups of one leaf with one machine, two spines a group. Each pair of groups has
// max(1, 2/2) = 1 cable. Group 0 to 2: offset (2 − 0 − 1) = 1, so spine 1 of group 0; seen from
// group 2: (0 − 2 − 1 + 3) mod 3 = 0, so its spine 0. Latency: leaf, spine, spine, leaf: 0.3 + 4 ·
// 0.3 + 0.3 = 1.8 µs. A group sends 50 GB/s, 25 to each of the others.
TEST(Dragonfly, CrossesByTheGroupsCable) {
  const Cluster cluster =
      hopper_cluster({.machines = 3, .gpus = 1, .nics = 1}, FabricKind::Dragonfly);
  FabricShape shape = fabric_shape(cluster);
  shape.machines_per_leaf = 1;
  shape.leaves_per_pod = 1;
  shape.spines = 2;
  const Topology topology = built(cluster, shape);
  Router router(topology);
  EXPECT_EQ(way(router, 0, 2),
            "n0/gpu0 -> n0/pcie0 -> n0/nic0 -> leaf0 -> pod0/spine1 -> pod2/spine0 -> leaf2 -> "
            "n2/nic0 -> n2/pcie0 -> n2/gpu0");
  EXPECT_NEAR(in_us(route_of(router, 0, 2).latency), 1.8, 1e-9);
  EXPECT_EQ(route_of(router, 0, 2).bandwidth, 25_GBps);
  EXPECT_EQ(topology.find_link("pod0/spine0", "pod2/spine0").value, -1);  // The wrong spine.
}

// The same with oversubscription 4, which is of the cables between groups: 25/4 GB/s there; those
// inside a group stay at 50/2.
TEST(Dragonfly, NarrowsItsGlobalCablesWithOversubscription) {
  const Cluster cluster =
      hopper_cluster({.machines = 3, .gpus = 1, .nics = 1}, FabricKind::Dragonfly);
  FabricShape shape = fabric_shape(cluster);
  shape.machines_per_leaf = 1;
  shape.leaves_per_pod = 1;
  shape.spines = 2;
  shape.oversubscription = 4;
  const Topology topology = built(cluster, shape);
  Router router(topology);
  EXPECT_EQ(route_of(router, 0, 2).bandwidth, 6.25_GBps);
  EXPECT_EQ(topology.link(topology.find_link("leaf0", "pod0/spine1")).bandwidth, 25_GBps);
}

// 3 × 2 × 2: machine m = x + 3y + 6z. From 0 = (0,0,0) to 11 = (2,1,1), x goes backwards in one
// step, then y, then z: routers 0, 2, 5, 11. One adapter of 50 GB/s over 6 cables: 8.33 GB/s.
TEST(Torus, GoesDimensionByDimension) {
  const Cluster cluster = hopper_cluster({.machines = 12, .gpus = 1, .nics = 1}, FabricKind::Torus);
  const FabricShape shape = fabric_shape(cluster);
  EXPECT_EQ(shape.torus, (std::vector<int>{3, 2, 2}));
  const Topology topology = built(cluster, shape);
  Router router(topology, {.choice = WayChoice::First});
  EXPECT_EQ(way(router, 0, 11),
            "n0/gpu0 -> n0/pcie0 -> n0/nic0 -> router0 -> router2 -> router5 -> router11 -> "
            "n11/nic0 -> n11/pcie0 -> n11/gpu0");
  EXPECT_NEAR(route_of(router, 0, 11).bandwidth.value, 50e9 / 6, 1);
}

// What is sent from anywhere to anywhere, some of it twice, against the routes of the graph.
TEST(Torus, LoadsItsCablesAsItsRoutesDo) {
  for (const std::vector<int>& sizes :
       {std::vector<int>{4, 3, 2}, {6}, {2, 2}, {4, 4}, {1, 5, 2}, {7, 2}}) {
    int machines = 1;
    for (const int size : sizes) machines *= size;
    const Cluster cluster =
        hopper_cluster({.machines = machines, .gpus = 1, .nics = 1}, FabricKind::Torus);
    FabricShape shape = fabric_shape(cluster);
    shape.torus = sizes;
    const Topology topology = built(cluster, shape);
    Router router(topology, routing_options(cluster));
    for (const int reach : {1, 2, machines}) {
      TorusLoad load(sizes);
      std::map<LinkId, double> by_link;
      for (int a = 0; a < machines; ++a) {
        for (int k = 0; k < reach; ++k) {
          const int b = (a + k + a % 2) % machines;
          const double amount = 1 + a % 3;
          load.send(a, b, amount);
          for (const LinkId link : route_of(router, a, b).links) {
            if (topology.link(link).kind == LinkKind::Fabric) by_link[link] += amount;
          }
        }
      }
      double most = 0;
      for (const auto& [link, amount] : by_link) most = std::max(most, amount);
      EXPECT_DOUBLE_EQ(load.busiest(), most) << sizes.front() << " " << machines << " " << reach;
    }
  }
}

// Its cables by 5: 50 GB/s over 6 and 5.
TEST(Torus, NarrowsWithOversubscription) {
  const Cluster cluster = hopper_cluster({.machines = 12, .gpus = 1, .nics = 1}, FabricKind::Torus);
  FabricShape shape = fabric_shape(cluster);
  shape.oversubscription = 5;
  const Topology topology = built(cluster, shape);
  EXPECT_NEAR(topology.link(topology.find_link("router0", "router2")).bandwidth.value, 50e9 / 30,
              1e-3);
}

// Between the sockets of an A100 machine 16 GB/s (NCCL's AMD_BW, src/graph/topo.h), of one with
// H100 22.
TEST(Sockets, AreAsFarApartAsNcclTakesThem) {
  for (const auto& [architecture, bandwidth] :
       {std::pair{GpuArchitecture::Ampere, 16_GBps}, {GpuArchitecture::Hopper, 22_GBps}}) {
    Cluster cluster = hopper_cluster({.machines = 1}, FabricKind::Ideal);
    cluster.groups[0].gpu.architecture = architecture;
    cluster.groups[0].node.nvlink_topology = NvlinkTopology::None;
    const Topology topology = built(cluster, fabric_shape(cluster));
    Router router(topology);
    EXPECT_EQ(route_of(router, 0, 7).bandwidth, bandwidth);
  }
}

// Cutting a cable of a tree with four spines: every route that did not hold it stays, every one
// that did finds another way and is as wide.
TEST(Routes, ChangeOnlyWhereTheyHeldTheCutCable) {
  const Cluster cluster =
      hopper_cluster({.machines = 8, .gpus = 4, .nics = 4}, FabricKind::FatTree);
  FabricShape shape = fabric_shape(cluster);
  shape.machines_per_leaf = 2;
  shape.spines = 4;
  Topology topology = built(cluster, shape);
  Router router(topology);
  std::vector<Route> before;
  for (int a = 0; a < 32; ++a) {
    for (int b = 0; b < 32; ++b) before.push_back(route_of(router, a, b));
  }
  const LinkId up = topology.find_link("leaf1", "spine2");
  const LinkId down = topology.find_link("spine2", "leaf1");
  topology.cut_cable(up);
  router.forget();
  int held = 0;
  for (int a = 0; a < 32; ++a) {
    for (int b = 0; b < 32; ++b) {
      const Route& old = before[static_cast<std::size_t>(a) * 32 + static_cast<std::size_t>(b)];
      const bool holds = std::count(old.links.begin(), old.links.end(), up) > 0 ||
                         std::count(old.links.begin(), old.links.end(), down) > 0;
      const Route now = route_of(router, a, b);
      EXPECT_EQ(old.links != now.links, holds) << a << " to " << b;
      held += holds ? 1 : 0;
    }
  }
  // 8 GPUs of leaf 1 with 24 others, both ways: 384 routes over 4 spines, 96 a spine on average.
  EXPECT_GT(held, 60);
  EXPECT_LT(held, 140);
}

TEST(Routes, SaySoWhenThereIsNone) {
  const Cluster cluster =
      hopper_cluster({.machines = 2, .gpus = 1, .nics = 1}, FabricKind::SingleSwitch);
  Topology topology = built(cluster, fabric_shape(cluster));
  topology.cut_cable(topology.find_link("n1/nic0", "leaf0"));
  Router router(topology);
  EXPECT_EQ(way(router, 0, 1),
            "error: no route from n0/gpu0 to n1/gpu0: the network does not join n0/nic0 and "
            "n1/nic0\n1 error; nothing was run\n");
  EXPECT_EQ(way(router, 0, 9),
            "error: rank 9 is not in the topology\n  allowed: ranks 0 to 1\n"
            "1 error; nothing was run\n");
  const Diagnostics faults = topology.check();
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].message, "no cable joins n0/gpu0 with n1/gpu0");
}

TEST(Faults, AreNamed) {
  Cluster cluster = hopper_cluster({.machines = 2, .gpus = 1, .nics = 1}, FabricKind::Torus);
  FabricShape shape = fabric_shape(cluster);
  shape.torus = {3, 3};
  auto refused = build_topology(cluster, shape);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error()[0].message, "a torus of 3 × 3 does not hold 2 machines");
  cluster.groups[0].node.num_nics = 0;
  cluster.groups[0].node.name = "pc";
  refused = build_topology(cluster);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error()[0].message,
            "the machine pc has no network adapter and cannot reach the others");
  Topology topology;
  EXPECT_EQ(topology.check()[0].message, "the topology has no GPU");
  const VertexId a = topology.add_vertex({.name = "a", .machine = 0});
  const VertexId b = topology.add_vertex({.name = "a", .machine = 0});
  topology.add_cable({.from = a, .to = b, .kind = LinkKind::Nvlink});
  const Diagnostics faults = topology.check();
  ASSERT_EQ(faults.size(), 2U);
  EXPECT_EQ(faults[0].message, "the link a -> a has no bandwidth, nor have 1 others");
  EXPECT_EQ(faults[1].message, "two parts are named 'a'");
}

TEST(Faults, FindTheMembersOfACycle) {
  EXPECT_TRUE(find_cycle(4, {{0, 1}, {1, 2}, {0, 2}, {2, 3}}).empty());
  EXPECT_EQ(find_cycle(4, {{0, 1}, {1, 2}, {2, 3}, {3, 1}}), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(find_cycle(2, {{1, 1}}), (std::vector<int>{1}));
}

// A dead adapter's GPU goes on over the nearest that is up, by hand from the wiring: adapter a of a
// Hopper hangs on PCIe switch a, of an Ampere on switch a/2; the upper half of both on socket 1.
// The next in number would be adapter 0, across the sockets.
TEST(Routes, ADeadAdapterLeavesTheNearest) {
  struct Case {
    GpuArchitecture architecture;
    std::vector<int> dead;
    int gpu, takes;
    std::size_t links;  // Of PCIe, to it.
  };
  const std::vector<Case> cases{
      {GpuArchitecture::Hopper, {7}, 7, 4, 4},  // Its socket.
      {GpuArchitecture::Hopper, {2}, 2, 3, 4},
      {GpuArchitecture::Hopper, {3}, 3, 0, 4},           // 4 is beyond.
      {GpuArchitecture::Hopper, {4, 5, 6, 7}, 5, 0, 5},  // None is left there.
      {GpuArchitecture::Hopper, {7}, 6, 6, 2},           // Not its own.
      {GpuArchitecture::Ampere, {7}, 7, 6, 2},           // Its PCIe switch.
      {GpuArchitecture::Ampere, {6, 7}, 7, 4, 4},
  };
  for (const Case& c : cases) {
    Cluster cluster = hopper_cluster({}, FabricKind::SingleSwitch);
    cluster.groups[0].gpu.architecture = c.architecture;
    Topology topology = built(cluster, fabric_shape(cluster));
    for (const int nic : c.dead) {
      topology.cut_cable(topology.find_link("n0/nic" + std::to_string(nic), "leaf0"));
    }
    Router router(topology, {.pxn = false});
    const std::string name = "n0/nic" + std::to_string(c.takes);
    const VertexId adapter = router.adapter_of({c.gpu});
    EXPECT_EQ(topology.vertex(adapter).name, name) << c.gpu;
    EXPECT_EQ(router.links_between(topology.gpu({c.gpu}), adapter), c.links) << name;
    const Route route = route_of(router, c.gpu, 8 + c.gpu);
    EXPECT_NE(to_text(topology, route).find(" -> " + name + " -> leaf0"), std::string::npos)
        << to_text(topology, route);
    // And back: whoever sends to this GPU comes in by it.
    const Route back = route_of(router, 8 + c.gpu, c.gpu);
    EXPECT_NE(to_text(topology, back).find("leaf0 -> " + name + " -> "), std::string::npos)
        << to_text(topology, back);
  }
}

// Thousands of switches: 2,048 machines of 8 on 512 rail leaves and 32 spines.
TEST(Routes, ReachAcross16384Gpus) {
  const Cluster cluster = hopper_cluster({.machines = 2048}, FabricKind::RailOptimizedFatTree);
  FabricShape shape = fabric_shape(cluster);
  shape.machines_per_leaf = 32;
  const Topology topology = built(cluster, shape);
  EXPECT_EQ(topology.num_gpus(), 16384);
  Router router(topology);
  std::set<std::string> spines;
  for (int channel = 0; channel < 64; ++channel) {
    const Route route = route_of(router, 0, 16376, channel);
    EXPECT_EQ(route.links.size(), 8U);
    spines.insert(topology.vertex(topology.link(route.links[3]).to).name);
  }
  EXPECT_GT(spines.size(), 20U);  // 64 draws of 32: 27.8 are expected.
}

}  // namespace
}  // namespace megatwin::model
