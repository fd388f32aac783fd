// Links whose two directions are not as far: every collective ends, in maxmin and in SimGrid at the
// same time, and its latencies are those of the directions it takes, by hand.
#include <cmath>
#include <utility>

#include "sim/flow/collective_flows.h"
#include "tests/network/against_simgrid.h"

namespace megatwin::sim {
namespace {

using model::Bytes;
using model::FabricKind;
using model::Link;
using model::LinkId;
using model::RankId;
using model::Seconds;
using model::Topology;
using model::VertexId;

enum class Algorithm { Ring, Gather, Tree, Hierarchical, AtOnce, Rounds };

CollectiveFlows::Done add(CollectiveFlows& collective, Algorithm algorithm,
                          const CommunicatorRanks& group, Bytes bytes) {
  switch (algorithm) {
    case Algorithm::Ring:
      return collective.ring_all_reduce(group, bytes);
    case Algorithm::Gather:
      return collective.ring_all_gather(group, bytes);
    case Algorithm::Tree:
      return collective.tree_all_reduce(group, bytes);
    case Algorithm::Hierarchical:
      return collective.hierarchical_all_reduce(group, bytes);
    case Algorithm::AtOnce:
      return collective.all_to_all(group, bytes, {});
    case Algorithm::Rounds:
      return collective.all_to_all(group, bytes, {.rounds = true});
  }
  return FlowIndex{0};
}

// The same graph; `latency` of a link's number is its latency.
template <class Latency>
Topology with_latencies(const Topology& plain, Latency latency) {
  Topology other;
  for (VertexId v; v.value < plain.num_vertices(); ++v.value) other.add_vertex(plain.vertex(v));
  for (LinkId id; id.value < plain.num_links(); ++id.value) {
    Link link = plain.link(id);
    link.latency = latency(id);
    other.add_link(link);
  }
  return other;
}

// Three machines of one GPU on one switch. Up to it 1, 5 and 2 µs, down from it 7, 3 and 11 µs, so
// that 0→1 takes 4, 1→0 12, 1→2 16, 2→1 5, 2→0 9 and 0→2 12 µs.
Topology triangle() {
  const Topology plain = *build_topology(
      model::hopper_cluster({.machines = 3, .gpus = 1, .nics = 1}, FabricKind::SingleSwitch));
  return with_latencies(plain, [&](LinkId id) {
    constexpr double kUp[] = {1e-6, 5e-6, 2e-6}, kDown[] = {7e-6, 3e-6, 11e-6};
    if (plain.link(id).kind != model::LinkKind::Port) return Seconds{};
    const int from = plain.vertex(plain.link(id).from).machine;
    return from >= 0 ? Seconds{kUp[from]} : Seconds{kDown[plain.vertex(plain.link(id).to).machine]};
  });
}

Seconds time_of(const Topology& topology, Algorithm algorithm, const std::vector<int>& ranks,
                Bytes bytes) {
  model::Router router(topology);
  FlowSet flows(topology);
  CommunicatorRanks group;
  for (const int rank : ranks) group.ranks.push_back(RankId{rank});
  CollectiveFlows collective(router, flows);
  EXPECT_TRUE(add(collective, algorithm, group, bytes));
  return last_of(*make_max_min_net()->finish_times(flows));
}

// 3 MB over adapters of 50 GB/s. A ring's four steps each wait for its farthest edge, which depends
// on the way around: 1→2 with 16 µs, or 12 µs the other way; 2/3 · 2 · 3 MB an edge are 80 µs.
TEST(AsymmetricLatency, OfARingIsThatOfItsDirection) {
  EXPECT_NEAR(time_of(triangle(), Algorithm::Ring, {0, 1, 2}, {3e6}).value, 4 * 16e-6 + 80e-6,
              1e-15);
  EXPECT_NEAR(time_of(triangle(), Algorithm::Ring, {0, 2, 1}, {3e6}).value, 4 * 12e-6 + 80e-6,
              1e-15);
  EXPECT_NEAR(time_of(triangle(), Algorithm::Gather, {0, 2, 1}, {3e6}).value, 2 * 12e-6 + 40e-6,
              1e-15);
}

// Trees 0 ← 2 ← 1 and 1 ← 0 ← 2, two deep: four steps of 1→2's 16 µs in the first, of 1→0's and
// 0→2's 12 µs in the second. Each has half of the bytes up and down, 1.5 MB an edge. From 48 to 64
// µs the second is alone, two flows on either side of machine 0: 0.4 MB of each. Then machine 2 has
// to receive the other 4.1 of its 4.5 MB: 82 µs.
TEST(AsymmetricLatency, OfTreesIsThatOfTheirFarthestEdge) {
  EXPECT_NEAR(time_of(triangle(), Algorithm::Tree, {0, 1, 2}, {3e6}).value, 64e-6 + 82e-6, 1e-15);
}

// Rounds of 1 MB, 20 µs each: 0→1, 1→2, 2→0 wait for 16 µs, then 0→2, 1→0, 2→1 for 12 µs.
TEST(AsymmetricLatency, OfRoundsIsThatOfEachRound) {
  EXPECT_NEAR(time_of(triangle(), Algorithm::Rounds, {0, 1, 2}, {3e6}).value,
              16e-6 + 20e-6 + 12e-6 + 20e-6, 1e-15);
}

// There and back of every cable differ by up to a factor of 90, on every kind of link.
class AsymmetricLatencies : public AgainstSimgrid {
 protected:
  static Topology fabric(FabricKind kind) {
    const model::Cluster cluster =
        model::hopper_cluster({.machines = 6, .gpus = 4, .nics = 4}, kind);
    model::FabricShape shape = fabric_shape(cluster);
    shape.machines_per_leaf = 2;
    shape.spines = 2;
    return with_latencies(*build_topology(cluster, shape), [](LinkId id) {
      const int i = id.value;
      return Seconds{1e-7 * (i % 2 == 0 ? 1 + i % 7 : 90 - i % 11)};
    });
  }
};

// Nothing waits forever: every flow ends, after its latency and bytes at the least, and SimGrid
// says the same.
TEST_F(AsymmetricLatencies, EndEveryCollective) {
  for (const FabricKind kind : {FabricKind::SingleSwitch, FabricKind::FatTree,
                                FabricKind::RailOptimizedFatTree, FabricKind::Torus}) {
    const Topology topology = fabric(kind);
    CommunicatorRanks group;
    for (int rank = 0; rank < topology.num_gpus(); ++rank) group.ranks.push_back(RankId{rank});
    for (const Algorithm algorithm :
         {Algorithm::Ring, Algorithm::Gather, Algorithm::Tree, Algorithm::Hierarchical,
          Algorithm::AtOnce, Algorithm::Rounds}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(kind)) + ", algorithm " +
                   std::to_string(static_cast<int>(algorithm)));
      model::Router router(topology);
      FlowSet flows(topology);
      CollectiveFlows collective(router, flows);
      ASSERT_TRUE(add(collective, algorithm, group, {1e7}));
      const auto finish = make_max_min_net()->finish_times(flows);
      ASSERT_TRUE(finish);
      for (std::size_t i = 0; i < finish->size(); ++i) {
        const Flow& flow = flows.flows()[i];
        ASSERT_TRUE(std::isfinite((*finish)[i].value)) << i;
        ASSERT_GE((*finish)[i].value,
                  (flow.latency + flow.size / model::BytesPerSecond{450e9}).value)
            << i;
      }
      expect_equal(flows);
    }
  }
}

}  // namespace
}  // namespace megatwin::sim
