// The same comparison at 1,024 GPUs, and all-to-all at 64.
#include "tests/network/against_simgrid.h"

namespace megatwin::sim {
namespace {

class SimgridLargeOracle : public AgainstSimgrid {
 protected:
  FlowSet flows_of(int machines, const RandomFlows& what, bool pxn) {
    const model::Cluster cluster =
        model::hopper_cluster({.machines = machines}, model::FabricKind::RailOptimizedFatTree);
    model::FabricShape shape = fabric_shape(cluster);
    shape.machines_per_leaf = 32;
    shape.spines = 8;
    topology_ = *build_topology(cluster, shape);
    model::Router router(topology_, {.pxn = pxn});
    return random_flows(router, what);
  }
  model::Topology topology_;
};

TEST_F(SimgridLargeOracle, AgreesAt1024Gpus) {
  for (const Pattern pattern :
       {Pattern::Ring, Pattern::Permutation, Pattern::Incast, Pattern::Tree, Pattern::Random}) {
    expect_equal(flows_of(128, {.pattern = pattern, .count = 1024, .stagger = 1e-3}, false));
  }
}

TEST_F(SimgridLargeOracle, AgreesOnAllToAllOf64) {
  expect_equal(flows_of(8, {.pattern = Pattern::AllToAll, .stagger = 1e-3}, true));
}

}  // namespace
}  // namespace megatwin::sim
