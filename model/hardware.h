// GPUs, nodes and fabrics as data sheets and measurements describe them: rates, sizes, links. What
// a kernel reaches on them is in gpu_profile.h. Read from scenarios/hardware/*.yaml; users add
// theirs.
#ifndef MEGATWIN_MODEL_HARDWARE_H_
#define MEGATWIN_MODEL_HARDWARE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/data_type.h"
#include "model/units.h"

namespace megatwin::model {

class Topology;      // model/topology/topology.h
struct SwitchGraph;  // model/topology/switch_graph.h

enum class GpuArchitecture { Volta, Ampere, Ada, Hopper, Blackwell, Cdna3, Other };

// Dense rates, without 2:4 sparsity. Zero means that the part does not support the format.
struct GpuPeak {
  FlopPerSecond fp32, tf32, fp16, bf16, fp8, fp4;
};

struct Gpu {
  std::string name;
  GpuArchitecture architecture = GpuArchitecture::Other;
  std::string architecture_name;
  int num_sms = 0;
  Hertz boost_clock;
  GpuPeak peak;
  Bytes memory;         // Device memory, decimal as sold (80 GB = 80e9 … see usable).
  Bytes memory_usable;  // What a process can allocate at most.
  BytesPerSecond memory_bandwidth;
  Bytes l2_cache;
  int nvlink_generation = 0;  // 0: no NVLink.
  int nvlink_links = 0;
  BytesPerSecond nvlink_per_direction;  // Whole GPU, one direction.
  BytesPerSecond pcie_per_direction;
  Watts power_max;
  std::map<std::string, std::string>
      sources;  // Field → source ids of hardware.yaml, for --explain.
  std::string note;

  FlopPerSecond peak_of(DataType type) const;
};

enum class NvlinkTopology { None, Switch, HybridCubeMesh, PcieOnly };

struct Node {
  std::string name;
  std::string gpu_name;
  int num_gpus = 8;  // GPUs in one NVLink domain's machine or rack.
  NvlinkTopology nvlink_topology = NvlinkTopology::Switch;
  // Links between GPU i and j of a machine without NVLink switches; empty with them.
  std::vector<std::vector<int>> nvlink_matrix;
  int num_nics = 8;
  BytesPerSecond nic_per_direction;  // Of one NIC.
  std::string nic_type;              // "HDR IB", "EFA v2", …
  // The network routes each destination one fixed way, so that flows collide above the leaves.
  bool static_routes = false;
  Seconds nic_latency;
  Watts power_max;
  Usd price_per_hour;  // 0: not known.
  std::map<std::string, std::string> sources;
  // The inside of the machine as a file describes it, with num_gpus GPUs and num_nics adapters;
  // none: as the fields above build it. Flows run on it; closed forms go by the fields.
  std::shared_ptr<const Topology> inside;
};

// How one of several equal ways is taken: a hash of the flow, or every packet its own way.
enum class FabricRouting { Ecmp, Spray };
enum class FabricKind { FatTree, RailOptimizedFatTree, SingleSwitch, Dragonfly, Torus, Ideal };

struct Fabric {
  // Whether the scenario says anything of it. Where it does not, the number of switches on a way is
  // not read off the shape below, see group_topology.h.
  bool is_given = false;
  FabricKind kind = FabricKind::RailOptimizedFatTree;
  double oversubscription = 1;       // ≥ 1; bandwidth above the leaf is divided by it.
  Seconds switch_latency = 0.33_us;  // Per hop.
  bool sharp = false;                // In-network reduction available.
  int nodes_per_leaf = 16;           // Machines whose traffic stays below one level of switches.
  // Of the topology graph, see fabric_topology.h. Zero and empty: as the cluster needs.
  int levels = 2;
  int spines = 0;
  int leaves_per_pod = 0;
  int cores_per_spine = 0;
  std::vector<int> torus;
  std::optional<FabricRouting> routing;  // Not given: see routing_of().
  // Part of the cards' bandwidth that is left when groups cross the spine. 0: half where equal ways
  // are hashed, all of it when packets are sprayed, see routing_of(). Source:
  // Korthikanti et al., arXiv:2205.05198, section 6.3: 8-way data parallelism over HDR costs 1.32 s
  // a step for 530B on 2,240 GPUs, twice what the cards allow.
  double spine_efficiency = 0;
  // Switches and cables as a file describes them; none: as the fields above build them.
  std::shared_ptr<const SwitchGraph> graph;
};

// Machines of one kind in a cluster.
struct NodeGroup {
  Node node;
  Gpu gpu;
  int count = 1;  // Machines.
};

struct Cluster {
  std::vector<NodeGroup> groups;  // At least one; Predict uses the first kind only.
  Fabric fabric;

  int num_gpus() const {
    int total = 0;
    for (const NodeGroup& group : groups) total += group.count * group.node.num_gpus;
    return total;
  }
};

// What the scenario says of its fabric; else a hash where the network of these machines has static
// routes (Node::static_routes), and spraying where it has not: adaptive routing spreads as evenly.
FabricRouting routing_of(const Fabric& fabric, const Node& node);
// Of a graph that machines of several kinds share: a hash as soon as the network of one needs it.
FabricRouting routing_of(const Cluster& cluster);

// The whole catalogue: shipped files plus what the user added.
struct HardwareCatalogue {
  std::map<std::string, Gpu> gpus;
  std::map<std::string, Node> nodes;  // Keyed by the scenario's names: dgx-h100, …
  std::map<std::string, std::string> gpu_aliases;
  std::map<std::string, std::string> source_texts;  // Source id → what it is.
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_HARDWARE_H_
