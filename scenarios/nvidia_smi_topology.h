// The matrix that `nvidia-smi topo -m` prints, as it is copied into reports: with tabs or spaces,
// colours, a prompt, a legend; NICs with or without.
#ifndef MEGATWIN_SCENARIOS_NVIDIA_SMI_TOPOLOGY_H_
#define MEGATWIN_SCENARIOS_NVIDIA_SMI_TOPOLOGY_H_

#include <string>
#include <string_view>
#include <vector>

#include "model/result.h"
#include "model/topology/topology.h"

namespace megatwin::scenarios {

struct NvidiaSmiTopology {
  std::vector<std::string> gpus, nics;          // In the order of the header.
  std::vector<std::string> columns;             // Those, and the affinities that there are.
  std::vector<std::vector<std::string>> cells;  // Rows of GPUs, columns of devices: "NV12", "X".
  std::vector<std::string> cpu_affinity;        // By GPU; empty where there is none.
  bool nvswitch = false;                        // Every pair shows all of a GPU's links.
  model::Topology topology;
  model::Diagnostics warnings;

  int num_nvlinks(std::size_t gpu) const;  // Sum of the row as printed.
  // That the GPU has: behind switches all of them lead to every peer, so the row is no sum.
  int own_nvlinks(std::size_t gpu) const;
};

// Links count 25 GB/s one way, PCIe as generation 3 × 16, which the matrix does not tell.
// Errors: no matrix; the peer-to-peer matrix of `topo -p2p`; a cell that is no relation.
model::Result<NvidiaSmiTopology> parse_nvidia_smi_topology(const std::string& file,
                                                           std::string_view text);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_NVIDIA_SMI_TOPOLOGY_H_
