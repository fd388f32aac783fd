// The switches that closed forms count between the members of a group are those of the printed
// routes: of every fabric, the largest number on a way between neighbours of a ring.
#include "model/topology/fabric_hops.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/numbers.h"
#include "model/program/group_topology.h"
#include "model/topology/router.h"
#include "sim/flow/collective_flows.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

using model::GroupKind;
using model::RankId;
using model::RankLayout;
using model::Topology;

model::Job job_on(const std::string& fabric, int machines, const std::string& plan) {
  return job_from(
      "model: {name: llama-3-8b, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100, count: " +
      std::to_string(machines) + "}]" + (fabric.empty() ? "" : ", fabric: " + fabric) +
      "}\nplan: {micro_batch: 1, global_batch: 96, " + plan + "}\n");
}

int switches_on(const Topology& topology, const model::Route& route) {
  int switches = 0;
  for (const model::LinkId link : route.links) {
    switches += is_fabric(topology.vertex(topology.link(link).to).kind) ? 1 : 0;
  }
  return switches;
}

class Routes {
 public:
  explicit Routes(const model::Job& job)
      : topology_(*build_topology(job.cluster)), router_(topology_) {}

  int between(RankId from, RankId to, int channel = 0) {
    const auto route = router_.route({from, to, channel});
    EXPECT_TRUE(route) << (route ? "" : to_text(route.error()));
    return route ? switches_on(topology_, *route) : -1;
  }
  // Over every ring of every group of the kind.
  int most_of_rings(const model::Job& job, GroupKind kind) {
    const RankLayout layout(job.plan);
    int most = 0;
    for (int r = 0; r < layout.num_ranks(); ++r) {
      if (layout.leader(kind, {r}).value != r) continue;
      const auto rings = sim::rings_of(topology_, {.ranks = layout.members(kind, {r})});
      for (const sim::RingEdge& edge : rings.edges) {
        most = std::max(most, between(edge.from, edge.to, edge.channel));
      }
    }
    return most;
  }
  int most_of_hops(const model::Job& job, int boundary) {
    const RankLayout layout(job.plan);
    int most = 0;
    for (int r = 0; r < layout.num_ranks(); ++r) {
      if (layout.coordinates({r}).pipeline != boundary) continue;
      most = std::max(most, between({r}, layout.next_stage_rank({r})));
    }
    return most;
  }

 private:
  Topology topology_;
  model::Router router_;
};

const std::vector<std::string> kFabrics{
    "{type: single-switch}",
    "{type: ideal}",
    "{type: fat-tree, nodes_per_leaf: 4, routing: ecmp}",
    "{type: fat-tree, nodes_per_leaf: 4, routing: spray}",
    "{type: fat-tree, nodes_per_leaf: 3, routing: ecmp}",
    "{type: fat-tree, nodes_per_leaf: 100}",
    "{type: fat-tree, levels: 3, nodes_per_leaf: 2, leaves_per_pod: 3, routing: ecmp}",
    "{type: fat-tree, levels: 3, nodes_per_leaf: 1, leaves_per_pod: 5, routing: spray}",
    "{type: rail-optimized-fat-tree, nodes_per_leaf: 4, routing: ecmp}",
    "{type: rail-optimized-fat-tree, nodes_per_leaf: 5}",
    // NOLINTNEXTLINE(bugprone-suspicious-missing-comma): one text
    "{type: rail-optimized-fat-tree, levels: 3, nodes_per_leaf: 2, leaves_per_pod: 16, "
    "routing: ecmp}",
    "{type: rail-optimized-fat-tree, levels: 3, nodes_per_leaf: 2, leaves_per_pod: 8}",
    "{type: rail-optimized-fat-tree, levels: 3, nodes_per_leaf: 2, leaves_per_pod: 20}",
    "{type: rail-optimized-fat-tree, levels: 3, nodes_per_leaf: 2, leaves_per_pod: 3}",
    "{type: dragonfly+, nodes_per_leaf: 2, leaves_per_pod: 2, routing: ecmp}",
    "{type: dragonfly+, nodes_per_leaf: 1, leaves_per_pod: 7, spines: 2, routing: ecmp}",
    "{type: torus, torus: [4, 3, 2]}",
    "{type: torus, torus: [24]}",
    "{type: torus, torus: [2, 12]}",
};

// 24 machines. Tensor groups of two, three and four machines, some of which lie across leaves;
// strided context groups; rings of all replicas.
TEST(FabricHops, ClosedFormsCountTheSwitchesOfTheRoutes) {
  const std::vector<std::string> plans{
      "tensor: 8, data: 24",
      "tensor: 8, pipeline: 4, data: 6",
      "tensor: 16, pipeline: 2, data: 6, sequence_parallel: true",
      "tensor: 32, data: 6",
      "tensor: 8, context: 3, pipeline: 2, data: 4",
      "tensor: 4, context: 6, data: 8",
  };
  std::set<int> seen;
  for (const std::string& fabric : kFabrics) {
    for (const std::string& plan : plans) {
      SCOPED_TRACE(fabric + " " + plan);
      const model::Job job = job_on(fabric, 24, plan);
      Routes routes(job);
      for (const GroupKind kind : {GroupKind::Tensor, GroupKind::Context, GroupKind::Data}) {
        const model::GroupTopology closed = group_topology(job, kind);
        if (closed.nodes == 1) continue;
        EXPECT_EQ(closed.switch_hops, routes.most_of_rings(job, kind)) << static_cast<int>(kind);
        seen.insert(closed.switch_hops);
      }
      if (job.plan.pipeline == 1) continue;
      const model::StageSites sites(job.plan, job.cluster);
      std::vector<int> replicas(model::as_index(job.plan.data));
      std::iota(replicas.begin(), replicas.end(), 0);
      for (int boundary = 0; boundary < job.plan.pipeline; ++boundary) {
        EXPECT_EQ(hop_topology(job, sites, replicas, boundary).switch_hops,
                  routes.most_of_hops(job, boundary))
            << boundary;
      }
    }
  }
  for (const int hops : {1, 2, 3, 4, 5}) EXPECT_TRUE(seen.contains(hops)) << hops;
}

// Any two machines, by hand and on the graph. Leaves of two machines, pods of three leaves: machine
// 0 meets 1 on its leaf; 2 to 5 over a spine (leaf, spine, leaf); 6 over a core besides (leaf,
// spine, core, spine, leaf). On a 4 × 3 × 2 torus machine 23 is at (3, 2, 1), one step from (0, 0,
// 0) each way round: four routers.
TEST(FabricHops, AreTheGraphsBetweenAnyTwoMachines) {
  const model::Job tree = job_on(kFabrics[6], 24, "tensor: 8, data: 24");
  const model::FabricHops hops(tree.cluster);
  EXPECT_EQ(hops.between(0, 0), 0);
  EXPECT_EQ(hops.between(0, 1), 1);
  EXPECT_EQ(hops.between(5, 0), 3);
  EXPECT_EQ(hops.between(0, 6), 5);
  EXPECT_EQ(
      model::FabricHops(job_on(kFabrics[16], 24, "tensor: 8, data: 24").cluster).between(0, 23), 4);
  for (const std::string& fabric : kFabrics) {
    const model::Job job = job_on(fabric, 24, "tensor: 8, data: 24");
    const model::FabricHops closed(job.cluster);
    Routes routes(job);
    for (int a = 0; a < 24; ++a) {
      for (int b = 0; b < 24; ++b) {
        if (a == b) continue;
        int most = 0;
        for (int rail = 0; rail < 8; ++rail) {
          most = std::max(most, routes.between({8 * a + rail}, {8 * b + rail}));
        }
        ASSERT_EQ(closed.between(a, b), most) << fabric << " " << a << " " << b;
      }
    }
  }
}

// Blocks of any size, against each group's members one by one.
TEST(FabricHops, GroupsCrossWhereTheirMembersDo) {
  for (const auto& [tensor, context, data] :
       {std::array{3, 1, 8}, std::array{5, 2, 3}, std::array{1, 4, 6}, std::array{2, 3, 4}}) {
    model::Plan plan;
    plan.tensor = tensor;
    plan.context = context;
    plan.data = data;
    plan.pipeline = 2;
    const RankLayout layout(plan);
    for (const GroupKind kind : {GroupKind::Tensor, GroupKind::Context, GroupKind::Data}) {
      for (int block = 1; block < layout.num_ranks(); ++block) {
        bool any = false;
        for (int r = 0; r < layout.num_ranks(); ++r) {
          for (const RankId member : layout.members(kind, {r})) {
            any = any || member.value / block != r / block;
          }
        }
        EXPECT_EQ(layout.crosses(kind, block), any) << tensor << " " << block;
      }
    }
  }
}

// Where nothing is said of the fabric: one switch up to 32 machines of a group, three beyond.
TEST(FabricHops, WithoutAFabricGoByTheSizeOfTheGroup) {
  const auto hops = [](const std::string& fabric, int machines) {
    return group_topology(job_on(fabric, machines, "tensor: 8, data: " + std::to_string(machines)),
                          GroupKind::Data)
        .switch_hops;
  };
  EXPECT_EQ(hops("", 32), 1);
  EXPECT_EQ(hops("", 48), 3);
  // A leaf of 16 where it is given.
  EXPECT_EQ(hops("{type: rail-optimized-fat-tree}", 32), 3);
  EXPECT_EQ(hops("{type: single-switch}", 48), 1);
}

// Each switch is paid for in every step of a ring: 2·(n − 1) of them between machines in NCCL's
// ring of an all-reduce of n machines.
TEST(FabricHops, AreLatencyOfCollectives) {
  model::GroupTopology one = group_topology(
      job_on("{type: single-switch}", 4, "tensor: 8, data: 4, zero: 0"), GroupKind::Data);
  model::GroupTopology five = one;
  five.switch_hops = 5;
  const model::NcclSettings ring{.algorithm = model::CollectiveAlgorithm::Ring,
                                 .protocol = model::CollectiveProtocol::Ll};
  const auto time = [&](const model::GroupTopology& group) {
    return collective_time(model::CollectiveKind::AllReduce, model::Bytes{1024}, group, ring).time;
  };
  EXPECT_NEAR((time(five) - time(one)).value, 2 * 3 * 4 * one.switch_latency.value, 1e-9);
}

}  // namespace
}  // namespace megatwin::tests
