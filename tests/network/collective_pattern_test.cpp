// SHARP, NVLS trees and PAT as patterns: every cable by hand, what no pattern may beat, and what
// arrives where.
#include "sim/flow/collective_pattern.h"

#include <cmath>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "sim/flow/collective_flows.h"
#include "sim/flow/flow_net.h"
#include "tests/network/clusters.h"

namespace megatwin::sim {
namespace {

using model::Bytes;
using model::CollectiveAlgorithm;
using model::CollectiveKind;
using model::FabricKind;
using model::RankId;
using model::Seconds;

CommunicatorRanks first_ranks(int count) {
  CommunicatorRanks group;
  for (int i = 0; i < count; ++i) group.ranks.push_back(RankId{i});
  return group;
}

// Machines of two GPUs and two adapters on rails, two machines a leaf and rail.
model::Topology rails(int machines) {
  const model::Cluster cluster = model::hopper_cluster({.machines = machines, .gpus = 2, .nics = 2},
                                                       FabricKind::RailOptimizedFatTree);
  model::FabricShape shape = fabric_shape(cluster);
  shape.machines_per_leaf = 2;
  return *build_topology(cluster, shape);
}

struct Outcome {
  std::map<std::string, double> bytes;  // By link.
  Seconds time;
};
Outcome run(const model::Topology& topology, const CommunicatorRanks& group, Bytes bytes,
            const PatternWish& wish) {
  model::Router router(topology);
  FlowSet flows(topology);
  const auto done = CollectiveFlows(router, flows).by_algorithm(group, bytes, wish);
  EXPECT_TRUE(done) << (done ? "" : to_text(done.error()));
  Outcome out;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    for (const std::int32_t link : flows.links_of(static_cast<FlowIndex>(i))) {
      out.bytes[topology.link_name(model::LinkId{link})] += flows.flows()[i].size.value;
    }
  }
  out.time = last_of(*make_max_min_net()->finish_times(flows));
  return out;
}

void put_cable(std::map<std::string, double>& bytes, const std::string& a, const std::string& b,
               double there, double back) {
  bytes[a + " -> " + b] += there;
  bytes[b + " -> " + a] += back;
}

// Four machines of two GPUs, 1 GB: GPU c of every machine speaks for half of it. It goes to leaf
// m/2 of rail c, which adds two machines and sends one half GB to a spine, spine 0 for the rail of
// rank 0, spine 1 for that of rank 1. The other spines carry nothing. Inside, every GPU gives 1 GB
// to its NVSwitch and gets 1 GB; the speaker gets half a GB more, its machine's sum, and gives as
// much, everybody's. The adapters take longest: 0.5 GB over 50 GB/s, after 0.3 + 0.3 µs to the
// leaf, 0.3 to the spine, and 0.3 + 0.3 back.
TEST(Sharp, LoadsEachCableOfItsTreeOnce) {
  const model::Topology topology = rails(4);
  const Outcome sharp =
      run(topology, first_ranks(8), Bytes{1e9}, {.algorithm = CollectiveAlgorithm::CollNetDirect});
  std::map<std::string, double> hand;
  for (int m = 0; m < 4; ++m) {
    for (int c = 0; c < 2; ++c) {
      const std::string n = "n" + std::to_string(m) + "/", i = std::to_string(c);
      const std::string leaf = "rail" + i + "/leaf" + std::to_string(m / 2);
      put_cable(hand, n + "gpu" + i, n + "nvswitch0", 1.5e9, 1.5e9);
      put_cable(hand, n + "gpu" + i, n + "pcie" + i, 0.5e9, 0.5e9);
      put_cable(hand, n + "pcie" + i, n + "nic" + i, 0.5e9, 0.5e9);
      put_cable(hand, n + "nic" + i, leaf, 0.5e9, 0.5e9);
    }
  }
  for (const std::string i : {"0", "1"}) {
    for (const std::string block : {"0", "1"}) {
      put_cable(hand, "rail" + i + "/leaf" + block, "spine" + i, 0.5e9, 0.5e9);
    }
  }
  EXPECT_EQ(sharp.bytes, hand);
  EXPECT_NEAR(sharp.time.value, 0.5e9 / 50e9 + 1.5e-6, 1e-12);
}

// Switches of machines that cannot add: the other GPU's half goes to its speaker and comes back.
TEST(Sharp, WithoutMulticastSendsDirectlyInside) {
  const Outcome sharp = run(rails(4), first_ranks(8), Bytes{1e9},
                            {.algorithm = CollectiveAlgorithm::CollNetDirect, .multicast = false});
  for (const char* link : {"n0/gpu0 -> n0/nvswitch0", "n3/nvswitch0 -> n3/gpu1"}) {
    EXPECT_DOUBLE_EQ(sharp.bytes.at(link), 1e9) << link;
  }
  EXPECT_NEAR(sharp.time.value, 0.5e9 / 50e9 + 1.5e-6, 1e-12);
}

// On one leaf the leaf is the root; a rank each on three machines.
TEST(Sharp, AddsInTheLeafWhereOneHoldsAll) {
  const model::Topology topology = *build_topology(
      model::hopper_cluster({.machines = 3, .gpus = 1, .nics = 1}, FabricKind::SingleSwitch));
  const Outcome sharp =
      run(topology, first_ranks(3), Bytes{1e9}, {.algorithm = CollectiveAlgorithm::CollNetDirect});
  for (const auto& [link, bytes] : sharp.bytes) EXPECT_EQ(bytes, 1e9) << link;
  EXPECT_EQ(sharp.bytes.size(), 3U * 2 * 3);
  EXPECT_NEAR(sharp.time.value, 1e9 / 50e9 + 0.9e-6, 1e-12);
}

// A machine's part of the sum must leave it once: S over its adapters. A ring sends 2(N − 1)/N S.
TEST(Sharp, MeetsItsInjectionBound) {
  for (const int machines : {2, 3, 5, 8, 16}) {
    const model::Topology topology = rails(machines);
    const CommunicatorRanks group = first_ranks(2 * machines);
    const double bound = 1e9 / (2 * 50e9);
    const double sharp =
        run(topology, group, Bytes{1e9}, {.algorithm = CollectiveAlgorithm::CollNetDirect})
            .time.value;
    EXPECT_GE(sharp, bound);
    EXPECT_LE(sharp, bound + 10e-6) << machines;
    const double ring =
        run(topology, group, Bytes{1e9}, {.algorithm = CollectiveAlgorithm::Ring}).time.value;
    EXPECT_GE(ring, bound * 2 * (machines - 1) / machines);
  }
}

// Three levels: leaf, spine, core, and down again, on every member's way to the root.
TEST(Sharp, RootIsAsLowAsItCanBe) {
  const model::Cluster cluster =
      model::hopper_cluster({.machines = 16, .gpus = 1, .nics = 1}, FabricKind::FatTree);
  model::FabricShape shape = fabric_shape(cluster);
  shape.levels = 3;
  shape.machines_per_leaf = 2;
  shape.leaves_per_pod = 2;
  const model::Topology topology = *build_topology(cluster, shape);
  model::Router router(topology);
  const auto root_of = [&](std::vector<RankId> ranks) {
    const auto tree = reduction_tree(router, {.ranks = std::move(ranks)});
    EXPECT_TRUE(tree) << to_text(tree.error());
    return topology.vertex(tree->root).kind;
  };
  EXPECT_EQ(root_of({RankId{0}, RankId{1}}), model::VertexKind::Leaf);
  EXPECT_EQ(root_of({RankId{0}, RankId{2}}), model::VertexKind::Spine);
  EXPECT_EQ(root_of({RankId{0}, RankId{15}}), model::VertexKind::Core);
}

void cut_port(model::Topology& topology, const std::string& nic) {
  for (model::LinkId id; id.value < topology.num_links(); ++id.value) {
    const model::Link& link = topology.link(id);
    if (link.kind == model::LinkKind::Port && topology.vertex(link.from).name == nic) {
      return topology.cut_cable(id);
    }
  }
  FAIL() << nic;
}
void cut_above(model::Topology& topology, const std::string& leaf) {
  for (model::LinkId id; id.value < topology.num_links(); ++id.value) {
    const model::Link& link = topology.link(id);
    const bool here = topology.vertex(link.from).name == leaf;
    if (here && topology.vertex(link.to).kind == model::VertexKind::Spine) topology.cut_cable(id);
  }
}

// As in LoadsEachCableOfItsTreeOnce, with adapter 0 of machine 0 dead: its GPU 0 goes on over
// adapter 1, on rail 1, so that half a GB more crosses that and both trees go through rail1/leaf0.
// Of GPU 0's tree the leaves on rail 0 and that one meet in a spine. A tree's way was that of a
// message to the next member, which leaves by that one's rail: "n3/gpu0 sends to one switch and
// receives from another". With two GPUs a machine the other adapter is on the other socket, and
// 22 GB/s between sockets take longest.
TEST(Sharp, GoesOnOverTheAdapterBesideADeadOne) {
  model::Topology topology = rails(4);
  cut_port(topology, "n0/nic0");
  const Outcome sharp =
      run(topology, first_ranks(8), Bytes{1e9}, {.algorithm = CollectiveAlgorithm::CollNetDirect});
  std::map<std::string, double> ports, hand;
  for (const auto& [link, bytes] : sharp.bytes) {
    if (link.find("leaf") != std::string::npos) ports[link] = bytes;
  }
  put_cable(hand, "n0/nic1", "rail1/leaf0", 1e9, 1e9);
  put_cable(hand, "n1/nic0", "rail0/leaf0", 0.5e9, 0.5e9);
  put_cable(hand, "n1/nic1", "rail1/leaf0", 0.5e9, 0.5e9);
  for (const std::string m : {"n2/", "n3/"}) {
    put_cable(hand, m + "nic0", "rail0/leaf1", 0.5e9, 0.5e9);
    put_cable(hand, m + "nic1", "rail1/leaf1", 0.5e9, 0.5e9);
  }
  // Of rank 0's tree, whose root is spine 0, then of rank 1's.
  for (const std::string leaf : {"rail0/leaf0", "rail0/leaf1", "rail1/leaf0"}) {
    put_cable(hand, leaf, "spine0", 0.5e9, 0.5e9);
  }
  for (const std::string leaf : {"rail1/leaf0", "rail1/leaf1"}) {
    put_cable(hand, leaf, "spine1", 0.5e9, 0.5e9);
  }
  EXPECT_EQ(ports, hand);
  EXPECT_NEAR(sharp.time.value, 0.5e9 / 22e9 + 1.5e-6, 1e-12);
}

// The member that cannot take part is named, with the adapter that it has.
TEST(Sharp, NamesTheMemberThatIsApart) {
  const auto message = [](const model::Topology& topology) {
    model::Router router(topology);
    const auto tree = reduction_tree(router, {.ranks = {RankId{0}, RankId{2}, RankId{4}}});
    return tree ? "" : tree.error().front().message;
  };
  model::Topology topology = rails(3);
  cut_port(topology, "n1/nic0");
  EXPECT_EQ(message(topology), "");
  model::Topology torn = topology;
  cut_above(torn, "rail1/leaf0");
  EXPECT_EQ(message(torn),
            "no switch joins rail1/leaf0, where n1/gpu0 leaves by n1/nic1, and rail0/leaf1, where "
            "n2/gpu0 leaves by n2/nic0");
  cut_port(topology, "n1/nic1");
  EXPECT_EQ(message(topology),
            "n1/gpu0 does not reach the network: the port of n1/nic0 is down, and no other that "
            "it reaches is up");
}

// Any GPU of each of some machines, on like or unlike rails, some adapters dead.
model::Topology random_fabric(std::mt19937& dice, int machines) {
  const FabricKind kinds[] = {FabricKind::RailOptimizedFatTree, FabricKind::FatTree,
                              FabricKind::SingleSwitch, FabricKind::Dragonfly};
  const model::Cluster cluster = model::hopper_cluster(
      {.machines = machines, .gpus = 4, .nics = dice() % 2 == 0 ? 4 : 8}, kinds[dice() % 4]);
  model::FabricShape shape = fabric_shape(cluster);
  shape.levels = 2 + static_cast<int>(dice() % 2);
  shape.machines_per_leaf = 1 + static_cast<int>(dice() % 3);
  shape.leaves_per_pod = 2;
  model::Topology topology = *build_topology(cluster, shape);
  for (int m = 0; m < machines; ++m) {
    for (unsigned dead = dice() % 4; dead > 0; --dead) {
      cut_port(topology, "n" + std::to_string(m) + "/nic" + std::to_string(dead - 1));
    }
  }
  return topology;
}

// From every GPU its adapter, and one cable up from each switch until the root; the same cables
// down, none of them in two ways.
TEST(SharpProperty, CablesAreATreeAndCarryTheBytesOnceEachWay) {
  int unlike = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 dice(seed);
    const int machines = 2 + static_cast<int>(dice() % 9);
    const model::Topology topology = random_fabric(dice, machines);
    model::Router router(topology);
    std::vector<RankId> ranks;
    std::set<int> positions;
    for (int m = 0; m < machines; ++m) {
      if (dice() % 4 == 0) continue;
      const int position = static_cast<int>(dice() % 4);
      ranks.push_back(RankId{4 * m + position});
      positions.insert(position);
    }
    if (ranks.size() < 2) continue;
    if (positions.size() > 1) ++unlike;
    const auto tree = reduction_tree(router, {.ranks = ranks});
    ASSERT_TRUE(tree) << to_text(tree.error());
    std::map<model::VertexId, model::VertexId> up, down;  // To the end nearer to the root.
    for (const auto& ways : tree->members) {
      for (const model::LinkId id : ways.up.links) {
        const model::Link& link = topology.link(id);
        EXPECT_TRUE(link.up && up.emplace(link.from, link.to).second) << topology.link_name(id);
      }
      for (const model::LinkId id : ways.down.links) {
        const model::Link& link = topology.link(id);
        EXPECT_TRUE(link.up && down.emplace(link.to, link.from).second) << topology.link_name(id);
      }
    }
    EXPECT_EQ(up, down);
    std::set<model::VertexId> met;
    for (const RankId rank : ranks) {
      bool by_own = false;
      model::VertexId at = topology.gpu(rank);
      for (int hops = 0; at != tree->root && hops < 20; ++hops) {
        met.insert(at);
        ASSERT_TRUE(up.contains(at)) << topology.vertex(at).name;
        at = up.at(at);
        by_own = by_own || at == router.adapter_of(rank);
      }
      EXPECT_EQ(at, tree->root);
      EXPECT_TRUE(by_own);
    }
    EXPECT_EQ(met.size(), up.size());  // No cable that nobody needs.
  }
  EXPECT_GE(unlike, 100);
}

// Two machines of two GPUs, 1 GB: inside as above; of each half, a quarter GB up and down each of
// the two trees, which on two machines are one way there and one back: half a GB an adapter.
TEST(NvlsTree, LoadsEachLinkByHand) {
  const Outcome tree =
      run(rails(2), first_ranks(4), Bytes{1e9}, {.algorithm = CollectiveAlgorithm::NvlsTree});
  EXPECT_EQ(tree.bytes.at("n0/gpu1 -> n0/nvswitch0"), 1.5e9);
  EXPECT_EQ(tree.bytes.at("n1/nvswitch0 -> n1/gpu0"), 1.5e9);
  EXPECT_EQ(tree.bytes.at("n0/nic0 -> rail0/leaf0"), 0.5e9);
  EXPECT_EQ(tree.bytes.at("rail1/leaf0 -> n1/nic1"), 0.5e9);
  // Two steps over the network, 0.9 µs each.
  EXPECT_NEAR(tree.time.value, 0.5e9 / 50e9 + 2 * 0.9e-6, 1e-12);
}

// Of six ranks, three blocks go one rank further, one two, one four: 3 + 1 + 1 of 6.
TEST(Pat, SendsEachBlockOnce) {
  const model::Topology topology = *build_topology(
      model::hopper_cluster({.machines = 6, .gpus = 1, .nics = 1}, FabricKind::SingleSwitch));
  const auto pattern = collective_pattern(
      topology, first_ranks(6),
      {.kind = CollectiveKind::AllGather, .algorithm = CollectiveAlgorithm::Pat});
  ASSERT_TRUE(pattern);
  std::map<int, double> share;
  for (const Stream& stream : pattern->streams) {
    if (stream.from == RankId{2}) share[(stream.to.value - 2 + 6) % 6] += stream.share;
  }
  EXPECT_EQ(share, (std::map<int, double>{{1, 3.0 / 6}, {2, 1.0 / 6}, {4, 1.0 / 6}}));
  EXPECT_EQ(pattern->steps, 3);
  EXPECT_DOUBLE_EQ(pattern->busiest, 5.0 / 6);
}

// Every rank has every block when the blocks took their hops: played block by block.
TEST(Pat, EveryBlockArrivesEverywhere) {
  for (int n = 2; n <= 17; ++n) {
    std::map<int, int> sent;  // Blocks by distance, from one rank.
    for (int block = 0; block < n; ++block) {
      std::set<int> has = {block};
      for (int distance = 16; distance >= 1; distance /= 2) {
        std::set<int> got;
        for (const int rank : has) {
          const int offset = (rank - block + n) % n;
          if (offset % (2 * distance) == 0 && offset + distance < n) {
            got.insert((rank + distance) % n);
            if (rank == 0) ++sent[distance];
          }
        }
        has.insert(got.begin(), got.end());
      }
      EXPECT_EQ(static_cast<int>(has.size()), n);
    }
    const model::Topology topology = *build_topology(
        model::hopper_cluster({.machines = n, .gpus = 1, .nics = 1}, FabricKind::SingleSwitch));
    const auto pattern = collective_pattern(
        topology, first_ranks(n),
        {.kind = CollectiveKind::AllGather, .algorithm = CollectiveAlgorithm::Pat});
    std::map<int, int> ours;
    for (const Stream& stream : pattern->streams) {
      if (stream.from != RankId{0}) continue;
      ours[stream.to.value] += static_cast<int>(std::lround(stream.share * n));
    }
    EXPECT_EQ(ours, sent) << n;
  }
}

// Whatever the algorithm, a machine sends and receives at least its part of an all-reduce, S with
// SHARP and 2(N − 1)/N S else, over all its adapters.
TEST(Patterns, NoneBeatsItsInjectionBound) {
  for (const int machines : {2, 3, 4, 7}) {
    const model::Topology topology = rails(machines);
    const double once = 1e8 / (2 * 50e9);
    for (const CollectiveAlgorithm algorithm :
         {CollectiveAlgorithm::Ring, CollectiveAlgorithm::Tree, CollectiveAlgorithm::NvlsTree,
          CollectiveAlgorithm::CollNetDirect}) {
      const bool sharp = algorithm == CollectiveAlgorithm::CollNetDirect;
      const double bound = sharp ? once : 2.0 * (machines - 1) / machines * once;
      EXPECT_GE(
          run(topology, first_ranks(2 * machines), Bytes{1e8}, {.algorithm = algorithm}).time.value,
          bound * (1 - 1e-12))
          << name_of(algorithm) << machines;
    }
  }
}

TEST(Patterns, RefuseWhatTheyCannotDo) {
  const auto message = [](int ranks, const PatternWish& wish) {
    const auto pattern = collective_pattern(rails(2), first_ranks(ranks), wish);
    return pattern ? "" : pattern.error().front().message;
  };
  EXPECT_EQ(message(2, {.algorithm = CollectiveAlgorithm::CollNetDirect}),
            "sharp adds between machines, the ranks are on one");
  EXPECT_EQ(message(4, {.kind = CollectiveKind::AllGather, .algorithm = CollectiveAlgorithm::Pat}),
            "pat is of one rank a machine");
  EXPECT_EQ(message(4, {.kind = CollectiveKind::AllToAll, .algorithm = CollectiveAlgorithm::Tree}),
            "tree does not do this collective");
}

}  // namespace
}  // namespace megatwin::sim
