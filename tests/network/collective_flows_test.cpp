// NCCL's algorithms as flows: by hand on two machines, and what no algorithm may do on any.
#include "sim/flow/collective_flows.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "sim/flow/flow_net.h"
#include "tests/network/clusters.h"

namespace megatwin::sim {
namespace {

using model::Bytes;
using model::ClusterSize;
using model::FabricKind;
using model::RankId;
using model::Seconds;

CommunicatorRanks ranks(int count, int channels = 0) {
  CommunicatorRanks group{.channels = channels};
  for (int i = 0; i < count; ++i) group.ranks.push_back(RankId{i});
  return group;
}

enum class Algorithm { Ring, Tree, Hierarchical, Direct, Pairwise, Nvls };

// One collective alone on a cluster.
struct World {
  World(ClusterSize size, FabricKind kind)
      : cluster(model::hopper_cluster(size, kind)), topology(*build_topology(cluster)) {}

  Seconds time(Algorithm algorithm, Bytes bytes, const CommunicatorRanks& group) {
    model::Router router(topology);
    FlowSet flows(topology);
    CollectiveFlows collective(router, flows);
    const auto done = [&]() -> CollectiveFlows::Done {
      switch (algorithm) {
        case Algorithm::Ring:
          return collective.ring_all_reduce(group, bytes);
        case Algorithm::Tree:
          return collective.tree_all_reduce(group, bytes);
        case Algorithm::Hierarchical:
          return collective.hierarchical_all_reduce(group, bytes);
        case Algorithm::Direct:
          return collective.all_to_all(group, bytes, {});
        case Algorithm::Pairwise:
          return collective.all_to_all(group, bytes, {.rounds = true});
        case Algorithm::Nvls:
          return collective.nvls_all_reduce(group, bytes);
      }
      return FlowIndex{0};
    }();
    EXPECT_TRUE(done) << (done ? "" : to_text(done.error()));
    const auto finish = make_max_min_net()->finish_times(flows);
    EXPECT_TRUE(finish);
    EXPECT_EQ((*finish)[static_cast<std::size_t>(*done)].value, last_of(*finish).value);
    return last_of(*finish);
  }

  model::Cluster cluster;
  model::Topology topology;
};

// Eight GPUs on one NVSwitch, one ring: 2 · 7/8 · 1 GB over 450 GB/s; no latency inside.
TEST(RingAllReduce, OnOneMachine) {
  World world({.machines = 1}, FabricKind::Ideal);
  EXPECT_NEAR(world.time(Algorithm::Ring, {1e9}, ranks(8, 1)).value, 1.75e9 / 450e9, 1e-15);
  // Eight rings share each GPU's links and move as much.
  EXPECT_NEAR(world.time(Algorithm::Ring, {1e9}, ranks(8, 8)).value, 1.75e9 / 450e9, 1e-12);
  EXPECT_NEAR(world.time(Algorithm::Nvls, {1e9}, ranks(8)).value, 1e9 / 450e9, 1e-15);
}

// Two machines of eight on rails. Each of eight rings moves 2 · 15/16 · 1/8 GB over each adapter of
// 50 GB/s; 30 steps of 0.3 + 0.3 + 0.3 µs. With one ring, one adapter does it all.
TEST(RingAllReduce, OnTwoMachines) {
  World world({.machines = 2}, FabricKind::RailOptimizedFatTree);
  const double latency = 30 * 0.9e-6;
  EXPECT_NEAR(world.time(Algorithm::Ring, {1e9}, ranks(16, 8)).value, latency + 1.875e9 / 8 / 50e9,
              1e-12);
  EXPECT_NEAR(world.time(Algorithm::Ring, {1e9}, ranks(16, 1)).value, latency + 1.875e9 / 50e9,
              1e-12);
}

// NCCL's tree of eight: 0 ← 4, 4 ← 2 and 6, 2 ← 1 and 3, 6 ← 5 and 7; mirrored for the other.
// Of five: 0 ← 4, 4 ← 2, 2 ← 1 and 3, and the other is that shifted up by one: 1 ← 0, 0 ← 3, 3 ← 2
// and 4. It was shifted down: with the root 4.
TEST(Tree, IsNccls) {
  EXPECT_EQ(binary_tree(8, false), (std::vector<int>{-1, 2, 4, 2, 0, 6, 4, 6}));
  EXPECT_EQ(binary_tree(8, true), (std::vector<int>{1, 3, 1, 7, 5, 3, 5, -1}));
  EXPECT_EQ(binary_tree(5, false), (std::vector<int>{-1, 2, 4, 2, 0}));
  EXPECT_EQ(binary_tree(5, true), (std::vector<int>{1, -1, 3, 0, 3}));
  // No machine has two children in both trees, so that nobody sends more than 2 · (S/2 · 2).
  for (const int count : {2, 3, 5, 8, 13, 64}) {
    std::vector<int> children(static_cast<std::size_t>(count), 0);
    for (const bool second : {false, true}) {
      int roots = 0;
      for (const int up : binary_tree(count, second)) {
        if (up < 0) ++roots;
        if (up >= 0) ++children[static_cast<std::size_t>(up)];
      }
      EXPECT_EQ(roots, 1) << count;
    }
    EXPECT_LE(*std::max_element(children.begin(), children.end()), 3) << count;
  }
}

// Two machines of one GPU: up and down 1 GB in two halves, both trees together 1 GB each way over
// 50 GB/s; 2 · 1 steps of 0.9 µs.
TEST(Tree, OnTwoMachines) {
  World world({.machines = 2, .gpus = 1, .nics = 1}, FabricKind::RailOptimizedFatTree);
  EXPECT_NEAR(world.time(Algorithm::Tree, {1e9}, ranks(2)).value, 1.8e-6 + 1e9 / 50e9, 1e-12);
}

// Two machines of two GPUs: each channel has a chain of one below its head, so that it is 2 · (1 +
// 1) steps of 0.9 µs. Both channels' trees move 2 · 1/4 GB each way over an adapter of 50 GB/s.
TEST(Tree, CountsTheStepsOfItsChains) {
  World world({.machines = 2, .gpus = 2, .nics = 2}, FabricKind::RailOptimizedFatTree);
  EXPECT_NEAR(world.time(Algorithm::Tree, {1e9}, ranks(4)).value, 4 * 0.9e-6 + 0.5e9 / 50e9, 1e-12);
}

// Inside 7/8 S, over each rail 2 · 1/2 · S/8, inside 7/8 S again.
TEST(Hierarchical, AddsItsThreePhases) {
  World world({.machines = 2}, FabricKind::RailOptimizedFatTree);
  EXPECT_NEAR(world.time(Algorithm::Hierarchical, {1e9}, ranks(16)).value,
              2 * 0.875e9 / 450e9 + 2 * 0.9e-6 + 0.125e9 / 50e9, 1e-12);
}

// 64 GPUs with an adapter of 25 GB/s each send 63/64 of 64 MB: 2.52 ms at the least, 2.642 ms for
// 64 MiB. F6 of the faults of other simulators.
TEST(AllToAll, NeverBeatsTheInjectionBound) {
  World world({.machines = 64, .gpus = 1, .nics = 1}, FabricKind::SingleSwitch);
  for (model::LinkId id; id.value < world.topology.num_links(); ++id.value) {
    if (world.topology.link(id).kind == model::LinkKind::Port) {
      world.topology.set_bandwidth(id, {25e9});
    }
  }
  const double bound = 63.0 / 64 * 64e6 / 25e9;
  EXPECT_NEAR(bound, 2.52e-3, 1e-8);
  for (const Algorithm algorithm : {Algorithm::Direct, Algorithm::Pairwise}) {
    const double time = world.time(algorithm, {64e6}, ranks(64)).value;
    EXPECT_GE(time, bound);
    EXPECT_LE(time, 1.05 * bound);
    EXPECT_GE(world.time(algorithm, {64.0 * 1024 * 1024}, ranks(64)).value, 2.64e-3);
  }
  EXPECT_GE(world.time(Algorithm::Ring, {64e6}, ranks(64)).value, 2 * bound);
}

// All-reduce: a rank's machine must send and receive S/… through its adapters whatever the
// algorithm; and inside, at least 2(n−1)/n S (1 S with NVLS) through its NVLink.
TEST(AllReduce, NeverBeatsItsBound) {
  for (const int machines : {2, 3, 4, 7}) {
    World world({.machines = machines}, FabricKind::RailOptimizedFatTree);
    const CommunicatorRanks group = ranks(8 * machines);
    const double outside = 2.0 * (machines - 1) / machines * 1e8 / (8 * 50e9);
    for (const Algorithm algorithm : {Algorithm::Ring, Algorithm::Tree, Algorithm::Hierarchical}) {
      EXPECT_GE(world.time(algorithm, {1e8}, group).value, outside * (1 - 1e-12)) << machines;
    }
  }
}

// F7: latency adds per hop. A message of one byte over more switches takes 0.3 µs for each.
TEST(Latency, AddsPerHop) {
  double last = 0;
  for (const int levels : {1, 2, 3}) {
    const model::Cluster cluster =
        model::hopper_cluster({.machines = 16, .gpus = 1, .nics = 1}, FabricKind::FatTree);
    model::FabricShape shape = fabric_shape(cluster);
    shape.levels = levels;
    shape.machines_per_leaf = levels == 1 ? 16 : 2;
    shape.leaves_per_pod = 2;
    const model::Topology topology = *build_topology(cluster, shape);
    model::Router router(topology);
    FlowSet flows(topology);
    const auto done = CollectiveFlows(router, flows)
                          .ring_all_reduce({.ranks = {RankId{0}, RankId{15}}}, Bytes{2});
    ASSERT_TRUE(done);
    const double time = last_of(*make_max_min_net()->finish_times(flows)).value;
    if (levels > 1) {
      EXPECT_NEAR(time - last, 2 * 2 * 0.3e-6, 1e-10) << levels;
    }
    last = time;
  }
}

// F7: the shape (2, 8) and the shape (8, 2) with equal links cost the same.
TEST(Shape, DoesNotMatterWhereLinksAreEqual) {
  const auto torus_time = [](std::vector<int> sizes) {
    const model::Cluster cluster =
        model::hopper_cluster({.machines = 16, .gpus = 1, .nics = 1}, FabricKind::Torus);
    model::FabricShape shape = fabric_shape(cluster);
    shape.torus = std::move(sizes);
    const model::Topology topology = *build_topology(cluster, shape);
    model::Router router(topology, {.choice = model::WayChoice::First});
    FlowSet flows(topology);
    CollectiveFlows collective(router, flows);
    EXPECT_TRUE(collective.all_to_all(ranks(16), Bytes{1e8}, {}));
    return last_of(*make_max_min_net()->finish_times(flows)).value;
  };
  EXPECT_NEAR(torus_time({2, 8}), torus_time({8, 2}), 1e-12);
}

// A ring is as fast as its slowest edge.
TEST(RingAllReduce, WaitsForItsSlowestLink) {
  World world({.machines = 4}, FabricKind::RailOptimizedFatTree);
  const double whole = world.time(Algorithm::Ring, {1e9}, ranks(32)).value;
  world.topology.set_bandwidth(world.topology.find_link("n1/nic2", "rail2/leaf0"), {25e9});
  const double slow = world.time(Algorithm::Ring, {1e9}, ranks(32)).value;
  const double latency = 62 * 0.9e-6;
  EXPECT_NEAR(slow - latency, 2 * (whole - latency), 1e-9);
}

// A router that sends everything to one expert of eight: its GPU receives 7 · 1 GB over 450 GB/s,
// seven times what an even spread asks of it.
TEST(AllToAll, ShowsImbalance) {
  World world({.machines = 1}, FabricKind::Ideal);
  model::Router router(world.topology);
  FlowSet even_flows(world.topology), uneven_flows(world.topology);
  const std::vector<std::vector<Bytes>> even(8, std::vector<Bytes>(8, Bytes{1e9 / 7}));
  std::vector<std::vector<Bytes>> uneven(8, std::vector<Bytes>(8));
  for (auto& row : uneven) row[0] = Bytes{1e9};
  ASSERT_TRUE(CollectiveFlows(router, even_flows).all_to_all(ranks(8), even));
  ASSERT_TRUE(CollectiveFlows(router, uneven_flows).all_to_all(ranks(8), uneven));
  const auto net = make_max_min_net();
  EXPECT_NEAR(last_of(*net->finish_times(even_flows)).value, 1e9 / 450e9, 1e-12);
  EXPECT_NEAR(last_of(*net->finish_times(uneven_flows)).value, 7e9 / 450e9, 1e-12);
}

TEST(Collectives, OfOneRankAreDoneAtOnce) {
  World world({.machines = 2}, FabricKind::RailOptimizedFatTree);
  for (const Algorithm algorithm : {Algorithm::Ring, Algorithm::Tree, Algorithm::Hierarchical,
                                    Algorithm::Direct, Algorithm::Pairwise, Algorithm::Nvls}) {
    EXPECT_EQ(world.time(algorithm, {1e9}, ranks(1)).value, 0);
  }
}

TEST(Collectives, RefuseRanksThatAreNotThere) {
  World world({.machines = 2}, FabricKind::RailOptimizedFatTree);
  model::Router router(world.topology);
  FlowSet flows(world.topology);
  CollectiveFlows collective(router, flows);
  const auto done = collective.ring_all_reduce(ranks(17), Bytes{1});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error()[0].message, "rank 16 is not in the topology");
  EXPECT_EQ(collective.nvls_all_reduce(ranks(16), Bytes{1}).error()[0].message,
            "NVLS adds inside one NVSwitch, the ranks are on several");
  EXPECT_EQ(collective.hierarchical_all_reduce(ranks(15), Bytes{1}).error()[0].message,
            "a hierarchical all-reduce over machines of 8 and 7 members");
}

// What an all-to-all puts on every adapter's cable, by machines as pair by pair; where all pairs
// are alike it takes as long, too, on rails, leaves and with two GPUs an adapter.
TEST(AllToAll, ByMachinesIsPairByPairForAdapters) {
  const std::vector<std::pair<ClusterSize, FabricKind>> clusters = {
      {{.machines = 4}, FabricKind::RailOptimizedFatTree},
      {{.machines = 3, .gpus = 4, .nics = 4}, FabricKind::SingleSwitch},
      {{.machines = 4, .gpus = 8, .nics = 4}, FabricKind::RailOptimizedFatTree}};
  for (const auto& [size, kind] : clusters) {
    const World world(size, kind);
    const CommunicatorRanks group = ranks(size.machines * size.gpus);
    const std::size_t n = group.ranks.size();
    std::vector<std::vector<Bytes>> sent(
        n, std::vector<Bytes>(n, Bytes{1e9 / static_cast<double>(n)}));
    const auto laid = [&](bool by_machines, bool even) {
      model::Router router(world.topology);
      FlowSet flows(world.topology);
      CollectiveFlows collective(router, flows);
      const auto done = by_machines ? collective.all_to_all_by_machines(
                                          group, {1e9}, even ? decltype(sent){} : sent)
                                    : collective.all_to_all(group, sent);
      EXPECT_TRUE(done);
      return flows;
    };
    const auto time = [&](bool by_machines) {
      return last_of(*make_max_min_net()->finish_times(laid(by_machines, true))).value;
    };
    EXPECT_NEAR(time(true) / time(false), 1, 1e-9) << size.gpus << " " << size.nics;
    EXPECT_LT(laid(true, true).size(), laid(false, true).size());
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j)
        sent[i][j] = Bytes{1e3 * static_cast<double>((7 * i + 3 * j) % 11)};
    }
    const auto carried = [&](const FlowSet& flows) {
      std::vector<double> bytes(static_cast<std::size_t>(world.topology.num_links()));
      for (std::size_t f = 0; f < flows.size(); ++f) {
        for (const std::int32_t link : flows.links_of(static_cast<FlowIndex>(f))) {
          if (world.topology.link(model::LinkId{link}).kind != model::LinkKind::Port) continue;
          bytes[static_cast<std::size_t>(link)] += flows.flows()[f].size.value;
        }
      }
      return bytes;
    };
    const auto pairs = carried(laid(false, false)), machines = carried(laid(true, false));
    for (std::size_t link = 0; link < pairs.size(); ++link) {
      EXPECT_NEAR(machines[link], pairs[link], 1e-3) << link;
    }
  }
}

}  // namespace
}  // namespace megatwin::sim
