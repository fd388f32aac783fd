// The inside of one machine as a graph: its GPUs with NVLink or NVSwitch, PCIe switches, sockets
// and adapters, from the catalogue's Node and Gpu. Adapter i serves the GPUs of its share:
// GPU g uses adapter ⌊g · adapters / GPUs⌋.
#ifndef MEGATWIN_MODEL_TOPOLOGY_MACHINE_TOPOLOGY_H_
#define MEGATWIN_MODEL_TOPOLOGY_MACHINE_TOPOLOGY_H_

#include "model/hardware.h"
#include "model/topology/topology.h"

namespace megatwin::model {

// Adds machine number `machine`, its parts named "n<machine>/…", without anything outside it.
//   Switch: every GPU to one NVSwitch at its whole NVLink rate. All switches of a machine are one
//     vertex, because NVIDIA wires them without blocking; the two boards of a DGX-2 are two, joined
//     by a trunk of eight GPUs' rate.
//   HybridCubeMesh: GPU to GPU by Node::nvlink_matrix, links of equal rate.
//   PCIe: two GPUs a switch before Hopper, one since; adapters on the switches of their GPUs.
// Where Node::inside is given, a copy of that.
void add_machine(Topology& topology, const Node& node, const Gpu& gpu, int machine);

// The NVLinks of the catalogue's machine alone, for GPUs that are there already.
void add_nvlinks(Topology& topology, const Node& node, const Gpu& gpu, int machine);

// Of the link between sockets, by the processors that the machine's generation came with.
// Source: NVIDIA/nccl v2.30.7, src/graph/topo.h: Broadwell 6, Skylake 10, AMD 16, Sapphire Rapids
// 22 GB/s.
BytesPerSecond socket_link_bandwidth(const Node& node, const Gpu& gpu);

// Which adapter of its machine a GPU uses.
int nic_of_gpu(int gpu, int num_gpus, int num_nics);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_TOPOLOGY_MACHINE_TOPOLOGY_H_
