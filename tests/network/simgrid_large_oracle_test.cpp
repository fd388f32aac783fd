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

// Part of the flows that others delay.
double delayed(const FlowSet& flows) {
  const auto alone = make_analytic_net()->finish_times(flows);
  const auto shared = make_max_min_net()->finish_times(flows);
  int later = 0;
  for (std::size_t i = 0; i < alone->size(); ++i) {
    later += (*shared)[i] > (1 + 1e-6) * (*alone)[i] ? 1 : 0;
  }
  return later / static_cast<double>(alone->size());
}

// Four rings of different strides and four permutations at once, as of jobs and dimensions that
// overlap: a lone ring shares hardly anything, and a lone permutation shares without delay.
TEST_F(SimgridLargeOracle, AgreesAt1024Gpus) {
  for (const Pattern pattern :
       {Pattern::Ring, Pattern::Permutation, Pattern::Incast, Pattern::Tree, Pattern::Random}) {
    const RandomFlows what{.pattern = pattern, .count = 1024, .stagger = 1e-3, .layers = 4};
    const FlowSet flows = flows_of(128, what, false);
    SCOPED_TRACE(static_cast<int>(pattern));
    EXPECT_GE(sharing(flows), 0.3);
    EXPECT_GE(delayed(flows), 0.3);
    expect_equal(flows);
  }
}

TEST_F(SimgridLargeOracle, AgreesOnAllToAllOf64) {
  expect_equal(flows_of(8, {.pattern = Pattern::AllToAll, .stagger = 1e-3}, true));
}

}  // namespace
}  // namespace megatwin::sim
