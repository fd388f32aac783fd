// Cutting one cable, seen in finish times: whoever shares nothing with a flow that had to move ends
// at the same instant, to the last bit.
#include <algorithm>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "sim/flow/flow_net.h"
#include "tests/network/clusters.h"

namespace megatwin::sim {
namespace {

using model::LinkId;
using model::RankId;
using model::Route;

constexpr int kGpus = 32;

struct Placed {
  std::vector<Route> routes;
  std::vector<model::Seconds> finish;
};

// Every GPU sends 64 MB to the one eight further on, two machines of four away.
Placed run(const model::Topology& topology) {
  model::Router router(topology);
  FlowSet flows(topology);
  Placed placed;
  for (int from = 0; from < kGpus; ++from) {
    const auto route = router.route({RankId{from}, RankId{(from + kGpus / 4) % kGpus}});
    EXPECT_TRUE(route);
    placed.routes.push_back(*route);
    flows.add({.size = {64e6}, .latency = route->latency}, *route);
  }
  placed.finish = *make_max_min_net()->finish_times(flows);
  return placed;
}

// Flows that hang together over shared links, before or after.
std::vector<int> components(const Placed& a, const Placed& b) {
  std::vector<int> parent(kGpus);
  std::iota(parent.begin(), parent.end(), 0);
  const auto root = [&](int i) {
    while (parent[static_cast<std::size_t>(i)] != i) i = parent[static_cast<std::size_t>(i)];
    return i;
  };
  for (const Placed* placed : {&a, &b}) {
    for (int i = 0; i < kGpus; ++i) {
      for (int j = i + 1; j < kGpus; ++j) {
        const auto& mine = placed->routes[static_cast<std::size_t>(i)].links;
        const auto& other = placed->routes[static_cast<std::size_t>(j)].links;
        const bool shared = std::any_of(mine.begin(), mine.end(), [&](LinkId link) {
          return std::find(other.begin(), other.end(), link) != other.end();
        });
        if (shared) parent[static_cast<std::size_t>(root(i))] = root(j);
      }
    }
  }
  std::vector<int> component;
  component.reserve(static_cast<std::size_t>(kGpus));
  for (int i = 0; i < kGpus; ++i) component.push_back(root(i));
  return component;
}

// Eight machines of four, two a leaf, eight spines whose cables are an adapter's rate each: 8 flows
// leave each leaf over 8 such cables by hash, so some share one.
TEST(CutCable, ChangesOnlyTheEndsOfFlowsThatHeldItOrShareWithThem) {
  const model::Cluster cluster =
      model::hopper_cluster({.machines = 8, .gpus = 4, .nics = 4}, model::FabricKind::FatTree);
  model::FabricShape shape = fabric_shape(cluster);
  shape.machines_per_leaf = 2;
  shape.spines = 8;
  model::Topology topology = *build_topology(cluster, shape);
  const Placed before = run(topology);
  int changed_ends = 0, same_ends = 0;
  for (int spine = 0; spine < shape.spines; ++spine) {
    model::Topology cut = topology;
    const LinkId up = cut.find_link("leaf1", "spine" + std::to_string(spine));
    const LinkId down = cut.find_link("spine" + std::to_string(spine), "leaf1");
    cut.cut_cable(up);
    const Placed after = run(cut);
    const std::vector<int> component = components(before, after);
    std::set<int> touched;
    for (int i = 0; i < kGpus; ++i) {
      const auto& links = before.routes[static_cast<std::size_t>(i)].links;
      const bool held = std::find(links.begin(), links.end(), up) != links.end() ||
                        std::find(links.begin(), links.end(), down) != links.end();
      EXPECT_EQ(links != after.routes[static_cast<std::size_t>(i)].links, held) << i;
      if (held) touched.insert(component[static_cast<std::size_t>(i)]);
    }
    for (int i = 0; i < kGpus; ++i) {
      const bool same = before.finish[static_cast<std::size_t>(i)].value ==
                        after.finish[static_cast<std::size_t>(i)].value;
      if (!touched.contains(component[static_cast<std::size_t>(i)])) {
        EXPECT_TRUE(same) << i;
      }
      ++(same ? same_ends : changed_ends);
    }
  }
  EXPECT_GT(changed_ends, 0);
  EXPECT_GT(same_ends, 0);
}

// Alone on the network, only who held the cable can end at another time, and here nobody does: the
// way around is as long and as wide.
TEST(CutCable, LeavesLoneFlowsAsTheyWere) {
  const model::Cluster cluster =
      model::hopper_cluster({.machines = 8, .gpus = 4, .nics = 4}, model::FabricKind::FatTree);
  model::FabricShape shape = fabric_shape(cluster);
  shape.machines_per_leaf = 2;
  shape.spines = 4;
  model::Topology topology = *build_topology(cluster, shape);
  model::Router router(topology);
  const auto ends = [&] {
    std::vector<double> all;
    for (int from = 0; from < kGpus; ++from) {
      FlowSet flows(topology);
      const auto route = router.route({RankId{from}, RankId{(from + 8) % kGpus}});
      flows.add({.size = {1e6}, .latency = route->latency}, *route);
      all.push_back(make_max_min_net()->finish_times(flows)->front().value);
    }
    return all;
  };
  const std::vector<double> before = ends();
  topology.cut_cable(topology.find_link("leaf0", "spine1"));
  router.forget();
  EXPECT_EQ(before, ends());
}

// A deliberately wrong route is seen: over the other leaf's spine cable it is longer by a hop pair.
TEST(CutCable, AWrongRouteEndsAtAnotherTime) {
  const model::Cluster cluster =
      model::hopper_cluster({.machines = 4, .gpus = 1, .nics = 1}, model::FabricKind::FatTree);
  model::FabricShape shape = fabric_shape(cluster);
  shape.machines_per_leaf = 2;
  shape.spines = 1;
  const model::Topology topology = *build_topology(cluster, shape);
  model::Router router(topology);
  const Route right = *router.route({RankId{0}, RankId{1}});  // Over leaf0 alone.
  Route wrong = right;
  wrong.links.insert(wrong.links.begin() + 3, {topology.find_link("leaf0", "spine0"),
                                               topology.find_link("spine0", "leaf0")});
  for (const LinkId link : {wrong.links[3], wrong.links[4]}) {
    wrong.latency += topology.link(link).latency;
  }
  const auto end = [&](const Route& route) {
    FlowSet flows(topology);
    flows.add({.size = {1e6}, .latency = route.latency}, route);
    return make_max_min_net()->finish_times(flows)->front().value;
  };
  // By hand: gpu - pcie - nic - leaf - nic - pcie - gpu, 0.3 + 0.3 us of adapters and 0.3 us of the
  // leaf, 1 MB at 50 GB/s: 20.9 us.
  EXPECT_NEAR(end(right), 20.9e-6, 1e-12);
  EXPECT_NEAR(end(wrong), 21.5e-6, 1e-12);
}

}  // namespace
}  // namespace megatwin::sim
