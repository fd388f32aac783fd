// Small clusters of round numbers for the tests of the network, so that hand calculations stay
// short: NVLink 450 GB/s, PCIe 64 GB/s, adapters 50 GB/s, 0.6 µs a pair of adapters, 0.3 µs a
// switch.
#ifndef MEGATWIN_TESTS_NETWORK_CLUSTERS_H_
#define MEGATWIN_TESTS_NETWORK_CLUSTERS_H_

#include <string>
#include <vector>

#include "model/topology/fabric_topology.h"
#include "model/topology/router.h"

namespace megatwin::model {

struct ClusterSize {
  int machines = 2;
  int gpus = 8;  // Of one machine.
  int nics = 8;
};

inline Cluster hopper_cluster(ClusterSize size, FabricKind kind) {
  NodeGroup group;
  group.count = size.machines;
  group.gpu.architecture = GpuArchitecture::Hopper;
  group.gpu.nvlink_per_direction = 450_GBps;
  group.gpu.pcie_per_direction = 64_GBps;
  group.node.num_gpus = size.gpus;
  group.node.num_nics = size.nics;
  group.node.nic_per_direction = 50_GBps;
  group.node.nic_latency = 0.6_us;
  group.node.nvlink_topology = NvlinkTopology::Switch;
  Cluster cluster;
  cluster.groups = {group};
  cluster.fabric.kind = kind;
  cluster.fabric.routing = FabricRouting::Ecmp;
  cluster.fabric.switch_latency = 0.3_us;
  return cluster;
}

// DGX-1V: links between GPU i and j, six of 25 GB/s a GPU.
inline Cluster cube_mesh_cluster() {
  Cluster cluster = hopper_cluster({.machines = 1, .gpus = 8, .nics = 4}, FabricKind::Ideal);
  Gpu& gpu = cluster.groups[0].gpu;
  gpu.architecture = GpuArchitecture::Volta;
  gpu.nvlink_links = 6;
  gpu.nvlink_per_direction = 150_GBps;
  gpu.pcie_per_direction = 16_GBps;
  Node& node = cluster.groups[0].node;
  node.nvlink_topology = NvlinkTopology::HybridCubeMesh;
  node.nic_per_direction = 12.5_GBps;
  node.nvlink_matrix = {{0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0},
                        {1, 2, 0, 2, 0, 0, 1, 0}, {2, 1, 2, 0, 0, 0, 0, 1},
                        {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1},
                        {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0}};
  return cluster;
}

inline std::string way(Router& router, int from, int to, int channel = 0) {
  const auto route = router.route({.from = RankId{from}, .to = RankId{to}, .channel = channel});
  return route ? to_text(router.topology(), *route) : to_text(route.error());
}

}  // namespace megatwin::model

#endif  // MEGATWIN_TESTS_NETWORK_CLUSTERS_H_
