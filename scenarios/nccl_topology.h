// What NCCL and RCCL write and read about a machine: the topology XML (NCCL_TOPO_DUMP_FILE,
// NCCL_TOPO_FILE) as a graph of one machine, and the graph XML (NCCL_GRAPH_DUMP_FILE) as the rings
// and trees that were chosen.
#ifndef MEGATWIN_SCENARIOS_NCCL_TOPOLOGY_H_
#define MEGATWIN_SCENARIOS_NCCL_TOPOLOGY_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/result.h"
#include "model/topology/topology.h"

namespace megatwin::scenarios {

struct NcclTopology {
  std::string version;  // "1"; RCCL: "2".
  struct Cpu {
    std::string numa_id, arch, vendor, family, model;
  };
  std::vector<Cpu> cpus;
  struct Net {
    std::string name;
    long megabits_per_second = 0;
    model::BytesPerSecond rate;  // Where no speed is told what NCCL takes, 10 Gbit/s.
  };
  std::vector<Net> nets;
  int num_gpu_elements = 0;                 // <gpu>; files of vendors hold only the PCI devices.
  int num_gpu_devices = 0;                  // PCI devices of a GPU's class.
  std::map<std::string, int> pci_by_class;  // First six hex digits; "null" without.
  std::map<std::string, int> lanes_by_gpu;  // NVLink or xGMI, by the element's dev.
  std::vector<std::optional<long>> gpu_devices;  // By GPU of `topology`: its dev.
  std::set<std::string> sms;
  int max_pci_nesting = 0;
  model::Topology topology;  // Of one machine; without a GPU when the file tells of none.
  model::Diagnostics warnings;
};

// Errors: not XML, another root (what it is then), integers that are none, numbers of links that
// no GPU has. Warnings: slots too slow to be real, speeds and widths that are none, adapters
// without a speed, bus addresses, devices and adapters that are there twice.
model::Result<NcclTopology> parse_nccl_topology(const std::string& file, std::string_view text);

struct NcclGraph {
  int id = 0, pattern = 0, num_channels = 0;
  std::string speed_intra, speed_inter, type_intra, type_inter;
  std::vector<std::vector<std::string>> channels;  // "gpu:0", "net:1", in order.
};
model::Result<std::vector<NcclGraph>> parse_nccl_graphs(const std::string& file,
                                                        std::string_view text);

// Of a PCI link, one way, as NCCL reckons: "16 GT/s PCIe" of 16 lanes is 24 GB/s. What is unknown
// or empty counts as generation 3, a width of 0 as 16.
// Source: NVIDIA/nccl v2.30.7, src/graph/topo.cc, kvDictPciGen: 100 Mbit/s a lane, over 80.
model::BytesPerSecond pci_bandwidth(std::string_view link_speed, int link_width);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_NCCL_TOPOLOGY_H_
