// NCCL's own cost model, by which it chooses an algorithm and a protocol: a latency in microseconds
// and a bandwidth for each pair, as its tuner computes them. Small named functions, tables as
// labelled constants. It is a means of choosing, not a prediction: collective_cost.h replaces its
// bandwidths by measured ones. Arithmetic only.
// Source: NVIDIA/nccl v2.30.7, src/graph/tuning.cc, src/graph/topo.h, src/graph/search.cc.
#ifndef MEGATWIN_MODEL_NCCL_TUNING_H_
#define MEGATWIN_MODEL_NCCL_TUNING_H_

#include <array>
#include <string_view>

#include "model/hardware.h"
#include "model/micro_op.h"
#include "model/units.h"

namespace megatwin::model {

enum class CollectiveAlgorithm {
  Tree,
  Ring,
  CollNetDirect,
  CollNetChain,
  Nvls,
  NvlsTree,
  Pat,
  Direct
};
enum class CollectiveProtocol { Ll, Ll128, Simple };
// What a ring or tree step crosses.
enum class NcclLink { Nvlink, Pcie, Network };
// Row of the tuner's bandwidth caps.
enum class NcclGeneration { Volta, Ampere, Hopper, Blackwell };

std::string_view name_of(CollectiveAlgorithm algorithm);
std::string_view name_of(CollectiveProtocol protocol);

// One communicator as the tuner sees it.
struct NcclCommunicator {
  int ranks = 2;
  int nodes = 1;
  NcclGeneration generation = NcclGeneration::Hopper;
  bool nvlink = true;  // Inside a node; false: PCIe.
  int channels = 16;
  BytesPerSecond channel_bandwidth_intra, channel_bandwidth_inter;
  Seconds network_latency;          // Of the NIC and switches, added to every network step.
  Seconds network_overhead = 1_us;  // Host CPU: 1 µs Intel, 2 µs AMD.
  bool nvls = false;
  bool collnet = false;  // In-network reduction (SHARP) enabled.

  int ranks_per_node() const { return (ranks + nodes - 1) / nodes; }
};

struct NcclCost {
  Seconds latency;
  BytesPerSecond algorithm_bandwidth;
  bool available = false;
};

NcclGeneration nccl_generation(GpuArchitecture architecture);

// Steps of one collective: all-reduce 2(n−1), all-gather and reduce-scatter n−1, broadcast n.
int nccl_steps(CollectiveKind kind, int ranks);

// Base latency of an algorithm and protocol, and hardware latency of one step over a link.
Seconds nccl_base_latency(CollectiveAlgorithm algorithm, CollectiveProtocol protocol);
Seconds nccl_link_latency(NcclLink link, CollectiveAlgorithm algorithm,
                          CollectiveProtocol protocol);

// base + (steps − inter steps) · max(intra, overhead) + inter steps · inter. On one node without
// network: base + steps · intra.
Seconds nccl_ring_latency(CollectiveKind kind, const NcclCommunicator& communicator,
                          CollectiveProtocol protocol);
// base + 2((n/N − 1) · intra + log2(N) · inter).
Seconds nccl_tree_latency(const NcclCommunicator& communicator, CollectiveProtocol protocol);

// Caps of the LL protocol, of one tree channel and of one LL128 ring channel, by nodes.
BytesPerSecond nccl_ll_cap(NcclGeneration generation, int nodes);
BytesPerSecond nccl_tree_channel_cap(NcclGeneration generation, int nodes);
BytesPerSecond nccl_ll128_ring_channel_cap(NcclGeneration generation);

// Bus bandwidth of a ring: channels · bandwidth, capped by protocol.
BytesPerSecond nccl_ring_bus_bandwidth(const NcclCommunicator& communicator,
                                       CollectiveProtocol protocol);
BytesPerSecond nccl_tree_bus_bandwidth(const NcclCommunicator& communicator,
                                       CollectiveProtocol protocol);

// bus · n / steps: what a ring's bus bandwidth is worth to the caller.
BytesPerSecond nccl_ring_algorithm_bandwidth(BytesPerSecond bus, int ranks, int steps);

// Factor on a tree's bandwidth at a message size, 64 B to 256 MB; 1 beyond.
double nccl_tree_correction(CollectiveProtocol protocol, Bytes bytes);

// Latency and bandwidth of one choice; `available` false where NCCL does not offer it.
NcclCost nccl_cost(CollectiveKind kind, CollectiveAlgorithm algorithm, CollectiveProtocol protocol,
                   const NcclCommunicator& communicator);

// latency · operations + bytes / bandwidth, with the tuner's refinements by size.
Seconds nccl_time(CollectiveKind kind, CollectiveAlgorithm algorithm, CollectiveProtocol protocol,
                  const NcclCommunicator& communicator, Bytes bytes);

struct NcclChoice {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::Ring;
  CollectiveProtocol protocol = CollectiveProtocol::Simple;
  Seconds time;
};

// The pair of minimum time, as NCCL picks it.
NcclChoice nccl_choice(CollectiveKind kind, const NcclCommunicator& communicator, Bytes bytes);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_NCCL_TUNING_H_
