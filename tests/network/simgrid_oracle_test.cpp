// Our solver and SimGrid end every flow at the same time, on a rail-optimised fabric of eight
// machines with hashed ways over four spines at oversubscription 2.
#include <random>

#include "sim/flow/collective_flows.h"
#include "tests/network/against_simgrid.h"

namespace megatwin::sim {
namespace {

using Links = std::vector<std::int32_t>;

class SimgridOracle : public AgainstSimgrid {
 protected:
  FlowSet flows_of(const RandomFlows& what, bool pxn = true) {
    model::Cluster cluster =
        model::hopper_cluster({.machines = 8}, model::FabricKind::RailOptimizedFatTree);
    cluster.fabric.oversubscription = 2;
    model::FabricShape shape = fabric_shape(cluster);
    shape.machines_per_leaf = 2;
    shape.spines = 4;
    topology_ = *build_topology(cluster, shape);
    model::Router router(topology_, {.pxn = pxn});
    return random_flows(router, what);
  }
  model::Topology topology_;
};

TEST_F(SimgridOracle, LoneFlowIsExact) {
  for (const double size : {1.0, 4096.0, 1e6, 1e9}) {
    FlowSet flows({model::BytesPerSecond{50e9}, model::BytesPerSecond{25e9}});
    flows.add({.size = {size}, .latency = {5e-6}}, Links{0, 1});
    const auto finish = simgrid_->finish_times(flows);
    ASSERT_TRUE(finish) << to_text(finish.error());
    EXPECT_NEAR((*finish)[0].value, 5e-6 + size / 25e9, 1e-15);
  }
}

// 1 MB over 300 GB/s and 1 µs: 4.333 µs, where SimGrid's model for TCP takes 16.62 µs (ADR 2).
TEST_F(SimgridOracle, IsNoModelOfTcp) {
  FlowSet flows({model::BytesPerSecond{300e9}});
  flows.add({.size = {1e6}, .latency = {1e-6}}, Links{0});
  const auto finish = simgrid_->finish_times(flows);
  ASSERT_TRUE(finish) << to_text(finish.error());
  EXPECT_NEAR((*finish)[0].value, 13.0 / 3 * 1e-6, 1e-15);
}

TEST_F(SimgridOracle, AgreesOnRandomFlows) {
  for (const unsigned seed : {1U, 2U, 3U}) {
    const FlowSet flows =
        flows_of({.pattern = Pattern::Random, .count = 400, .seed = seed, .stagger = 4e-3}, false);
    EXPECT_GE(sharing(flows), 0.3);
    expect_equal(flows);
  }
}

TEST_F(SimgridOracle, AgreesOnEveryPattern) {
  for (const Pattern pattern :
       {Pattern::Ring, Pattern::Permutation, Pattern::Incast, Pattern::Tree}) {
    for (const bool equal : {false, true}) {
      expect_equal(flows_of({.pattern = pattern, .stagger = 2e-4, .equal_sizes = equal}));
      expect_equal(flows_of({.pattern = pattern, .stagger = 0, .equal_sizes = equal}, false));
    }
  }
}

TEST_F(SimgridOracle, AgreesOnChains) {
  FlowSet flows({model::BytesPerSecond{3e9}, model::BytesPerSecond{5e9}});
  for (int i = 0; i < 100; ++i) {
    std::vector<FlowIndex> after;
    if (i >= 3) after = {i - 3, i - 2};
    flows.add({.size = {1e5 + 1e4 * (i % 7)}, .latency = {1e-6 * (i % 3)}, .after = after},
              i % 2 == 0 ? Links{0} : Links{0, 1});
  }
  const FlowIndex end = flows.add({.latency = {2e-6}, .after = {98, 99}}, Links{});
  EXPECT_EQ(end, 100);
  expect_equal(flows);
}

// On an idle network the closed form is right, for all three.
TEST_F(SimgridOracle, AllAgreeWithTheClosedFormWhenIdle) {
  FlowSet flows(std::vector<model::BytesPerSecond>(40, model::BytesPerSecond{25e9}));
  for (int i = 0; i < 40; ++i) {
    flows.add({.size = {1e6 * (i + 1)}, .start = {1e-5 * i}, .latency = {1.5e-6}}, Links{i});
  }
  const auto analytic = make_analytic_net()->finish_times(flows);
  const auto ours = make_max_min_net()->finish_times(flows);
  const auto theirs = simgrid_->finish_times(flows);
  ASSERT_TRUE(theirs);
  for (std::size_t i = 0; i < analytic->size(); ++i) {
    EXPECT_NEAR((*ours)[i].value, (*analytic)[i].value, 1e-15);
    EXPECT_NEAR((*theirs)[i].value, (*analytic)[i].value, 1e-15);
  }
}

// Two groups of 32 ranks, one rank apart in their start, by every algorithm over several machines.
TEST_F(SimgridOracle, AgreesOnEveryAlgorithm) {
  const model::Topology topology = *build_topology(
      model::hopper_cluster({.machines = 8}, model::FabricKind::RailOptimizedFatTree));
  for (const auto algorithm :
       {model::CollectiveAlgorithm::Ring, model::CollectiveAlgorithm::Tree,
        model::CollectiveAlgorithm::NvlsTree, model::CollectiveAlgorithm::CollNetDirect}) {
    for (const bool multicast : {true, false}) {
      model::Router router(topology);
      FlowSet flows(topology);
      CollectiveFlows collectives(router, flows);
      for (int group = 0; group < 2; ++group) {
        CommunicatorRanks ranks;
        for (int i = 0; i < 32; ++i) ranks.ranks.push_back(model::RankId{2 * i + group});
        const FlowIndex begin = flows.add({.latency = {3e-4 * group}}, Links{});
        const auto done =
            collectives.by_algorithm(ranks, model::Bytes{32.0 * 3 * 1024 * 1024},
                                     {.algorithm = algorithm, .multicast = multicast}, {begin});
        ASSERT_TRUE(done) << to_text(done.error());
      }
      expect_equal(flows);
    }
  }
}

TEST(SimgridPlugin, IsMissedWithAReason) {
  FlowSet flows({model::BytesPerSecond{1}});
  flows.add({.size = {1}}, Links{0});
  const auto finish = make_simgrid_net("no/such/plugin.so")->finish_times(flows);
  ASSERT_FALSE(finish);
  EXPECT_EQ(finish.error()[0].message.find("SimGrid's plug-in cannot be loaded: no/such"), 0U);
}

// Forty times a link gets wider or narrower, a way leads over that of another flow, or nowhere.
void change_at_random(FlowSet& flows, unsigned seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t count) {
    return static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(count));
  };
  for (int i = 1; i <= 40; ++i) {
    const model::Seconds at{1e-4 * i};
    const FlowIndex flow = below(flows.size()), other = below(flows.size());
    const auto links = flows.links_of(flow);
    if (i % 3 != 0) {
      const std::int32_t link = links[static_cast<std::size_t>(below(links.size()))];
      flows.change_capacity(at, link, model::BytesPerSecond{1e9 * (1 + below(60))});
    } else {
      flows.change_way(at, flows.flows()[static_cast<std::size_t>(flow)].way,
                       i % 9 == 0 ? 0 : flows.flows()[static_cast<std::size_t>(other)].way);
    }
  }
}

TEST_F(SimgridOracle, AgreesOnLinksAndWaysThatChange) {
  for (const unsigned seed : {1U, 2U, 3U, 4U}) {
    const RandomFlows what{.pattern = Pattern::Random, .count = 400, .seed = seed, .stagger = 4e-3};
    FlowSet flows = flows_of(what, false);
    const auto before = make_max_min_net()->finish_times(flows);
    change_at_random(flows, seed);
    EXPECT_GE(sharing(flows), 0.3);
    expect_equal(flows);
    // The changes strike.
    const auto after = make_max_min_net()->finish_times(flows);
    std::size_t moved = 0;
    for (std::size_t i = 0; i < before->size(); ++i) moved += (*before)[i] != (*after)[i] ? 1 : 0;
    EXPECT_GE(moved, 40U);
  }
}

}  // namespace
}  // namespace megatwin::sim
