// Time of one collective over a group of ranks. NCCL's tuner model (nccl_tuning.h) gives the
// latencies and what is available; bandwidths are the measured ones of each link generation, as a
// ramp bus(S) = limit / (1 + (half/S)^exponent), bounded by what the NICs of a node can inject. The
// fastest available algorithm and protocol is taken. Grows with bytes and with nodes. Arithmetic
// only; callable from any thread.
#ifndef MEGATWIN_MODEL_COLLECTIVE_COST_H_
#define MEGATWIN_MODEL_COLLECTIVE_COST_H_

#include <optional>

#include "model/all_to_all_load.h"
#include "model/collective_forms.h"
#include "model/gpu_profile.h"
#include "model/hardware.h"
#include "model/micro_op.h"
#include "model/nccl_tuning.h"
#include "model/units.h"

namespace megatwin::model {

// The ranks of one communicator and the links between them.
struct GroupTopology {
  int ranks = 1;
  int nodes = 1;                // NVLink domains the group touches.
  int gpus_per_node = 8;        // Of the machine, in the group or not.
  int groups_sharing_nics = 1;  // Groups of the same kind that use a node's NICs at once.
  GpuArchitecture architecture = GpuArchitecture::Hopper;
  NvlinkTopology nvlink_topology = NvlinkTopology::Switch;
  BytesPerSecond nvlink_per_direction;  // Whole GPU.
  BytesPerSecond pcie_per_direction;
  int num_nics = 8;                  // Of one node.
  BytesPerSecond nic_per_direction;  // Of one NIC.
  Seconds nic_latency;     // Beyond an InfiniBand adapter's, which the tuner's tables hold.
  Seconds switch_latency;  // Of one hop.
  int switch_hops = 1;
  double oversubscription = 1;     // Above the leaf switches.
  bool sharp = false;              // In-network reduction.
  bool nvls = false;               // NVSwitch multicast, Hopper and later.
  bool ll128_over_network = true;  // Not where the NIC may tear 128-byte lines (EFA v1).
  int channels = 16;
  double nic_efficiency = 0.97;
  // Measured ramps of the GPU's profile; an efficiency of 0 takes the generation's.
  BandwidthRamp ring, multicast, gather, all_to_all, send;
  // Adapters of a node that the group's members have as their own, each as wide as all of its GPU;
  // 0: one a member.
  double adapters = 0;
  // All-to-all by a table; nothing: every rank sends as much to every other.
  std::optional<AllToAllLoad> exchange;

  int ranks_per_node() const { return (ranks + nodes - 1) / nodes; }
};

// Whether messages to another node leave by the adapter beside their destination's, over NVLink.
bool forwards_to_rails(const GroupTopology& topology);

struct GroupPlacement {
  int ranks = 1;
  int ranks_per_node = 1;  // Ranks of one group inside one NVLink domain.
  int groups_sharing_nics = 1;
  // On the farthest way between neighbours; 0: one up to 32 machines, three beyond.
  int switch_hops = 0;
};

// The group's links, from the catalogue's machine and the profile's measured ramps.
GroupTopology group_topology(const GroupPlacement& placement, const Node& node, const Gpu& gpu,
                             const Fabric& fabric, const GpuProfile& profile);

struct NcclSettings {
  std::optional<CollectiveAlgorithm> algorithm;  // Forced, as NCCL_ALGO does.
  std::optional<CollectiveProtocol> protocol;    // NCCL_PROTO.
  bool nvls_enabled = true;                      // NCCL_NVLS_ENABLE.
};

struct CollectiveTime {
  Seconds time;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::Ring;
  CollectiveProtocol protocol = CollectiveProtocol::Simple;
  BytesPerSecond busbw;
};

// The group as NCCL's tuner sees it, with the bandwidths of its links.
NcclCommunicator nccl_communicator(const GroupTopology& topology,
                                   const NcclSettings& settings = {});

// `bytes` as nccl-tests prints it (see MicroOp::bytes). A group of one costs nothing.
CollectiveTime collective_time(CollectiveKind kind, Bytes bytes, const GroupTopology& topology,
                               const NcclSettings& settings = {});

// One message from a rank to another, as a pipeline sends it: alone on its links.
Seconds send_time(Bytes bytes, const GroupTopology& topology);

// What the ranks of one node must at least send through its NICs, over what those can take.
Seconds injection_bound(CollectiveKind kind, Bytes bytes, const GroupTopology& topology);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_COLLECTIVE_COST_H_
