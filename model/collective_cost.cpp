#include "model/collective_cost.h"

#include <algorithm>
#include <cmath>

#include "model/assert.h"

namespace megatwin::model {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

// Measured behaviour of one link generation. `step` is the time that one pipelined step over n ranks
// costs: the half size of a multicast or network ramp is n · step · bandwidth.
struct GenerationRamps {
  BandwidthRamp ring, multicast, gather, all_to_all, send;
  double latency_factor;       // Measured small-message latency over the tuner's tables.
  double ll128_factor;         // Measured LL128 bandwidth over the tuner's cap.
  Seconds multicast_latency;
};

// Fits of docs/constants.md, section "Collectives". Ring of Volta and Ampere: all-reduce of 2 to 8
// GPUs (vTrain's tables, 154 rows); Hopper: h200_micro.jsonl, 2 GPUs, and 8x H200; Blackwell: 8x
// B200 and GB200 NVL72.
constexpr GenerationRamps kVolta{.ring = {0.90, {0.3 * kMiB}, 1.0},
                                 .multicast = {},
                                 .gather = {0.90, {0.3 * kMiB}, 1.0},
                                 .all_to_all = {0.80, {1 * kMiB}, 1.0},
                                 .send = {0.90, {0.3 * kMiB}, 1.0},
                                 .latency_factor = 1.8,
                                 .ll128_factor = 0.55,
                                 .multicast_latency = {}};
constexpr GenerationRamps kAmpere{.ring = {0.815, {0.15 * kMiB}, 0.30},
                                  .multicast = {},
                                  .gather = {0.815, {0.3 * kMiB}, 0.30},
                                  .all_to_all = {0.80, {4 * kMiB}, 0.45},
                                  .send = {0.85, {1 * kMiB}, 0.45},
                                  .latency_factor = 1.8,
                                  .ll128_factor = 0.55,
                                  .multicast_latency = {}};
constexpr GenerationRamps kHopper{.ring = {0.945, {16 * kMiB}, 0.30},
                                  .multicast = {1.084, {2.0 * kMiB}, 0.75},
                                  .gather = {0.878, {83 * kMiB}, 0.30},
                                  .all_to_all = {0.943, {68 * kMiB}, 0.45},
                                  .send = {0.859, {1.9 * kMiB}, 0.45},
                                  .latency_factor = 1.0,
                                  .ll128_factor = 1.0,
                                  .multicast_latency = {12e-6}};
constexpr GenerationRamps kBlackwell{.ring = {0.86, {16 * kMiB}, 0.30},
                                     .multicast = {0.975, {2.2 * kMiB}, 0.75},
                                     .gather = {0.80, {83 * kMiB}, 0.30},
                                     .all_to_all = {0.80, {68 * kMiB}, 0.45},
                                     .send = {0.86, {4 * kMiB}, 0.45},
                                     .latency_factor = 1.0,
                                     .ll128_factor = 1.0,
                                     .multicast_latency = {12e-6}};

const GenerationRamps& generation_ramps(NcclGeneration generation) {
  switch (generation) {
    case NcclGeneration::Volta:
      return kVolta;
    case NcclGeneration::Ampere:
      return kAmpere;
    case NcclGeneration::Hopper:
      return kHopper;
    case NcclGeneration::Blackwell:
      return kBlackwell;
  }
  return kAmpere;
}

const BandwidthRamp& measured_or(const BandwidthRamp& measured, const BandwidthRamp& fallback) {
  return measured.efficiency > 0 ? measured : fallback;
}

// One pipelined step over the network, IB and RoCE: B200 on 4 nodes, GB200 on 2 racks. A slow NIC
// adds a twelfth of its latency (2x p5).
constexpr double kNetworkStep = 6.0e-6;
constexpr double kNetworkStepOfLatency = 0.08;
constexpr double kNetworkExponent = 0.75;
// Beyond this many ranks trees keep the ramp from growing in proportion (GB200 on 20 racks).
constexpr double kRanksOfLinearRamp = 144;
// All-to-all reaches this share of what the NICs carry (DeepEP on H800: 43 to 47 of 50 GB/s).
constexpr double kNetworkAllToAllEfficiency = 0.88;
// PCIe without NVLink, over one direction of the slot (A100 PCIe: 20.8 of 30 up to 4 GPUs, 12.5 at
// 8).
constexpr double kPcieEfficiencySmall = 0.67, kPcieEfficiencyLarge = 0.41;
// Rings that NCCL finds on the hybrid cube mesh of DGX-1, by GPUs in the group, and the bandwidth
// of one (vTrain's V100 table).
constexpr double kMeshRings[] = {0, 0, 1, 2, 3.85, 1.65, 2.03, 3.87, 6};
constexpr double kMeshRingBandwidth = 22.6e9;

double effective_ranks(int ranks) {
  const double n = ranks;
  return n <= kRanksOfLinearRamp ? n : std::sqrt(n * kRanksOfLinearRamp);
}

bool has_nvlink(const GroupTopology& topology) {
  return topology.nvlink_per_direction.value > 0 &&
         (topology.nvlink_topology == NvlinkTopology::Switch ||
          topology.nvlink_topology == NvlinkTopology::HybridCubeMesh);
}

// Link bandwidth of one rank inside its node, one direction; efficiencies refer to it.
double intra_link_bandwidth(const GroupTopology& topology, int ranks_in_node) {
  if (!has_nvlink(topology)) {
    const double efficiency = ranks_in_node <= 4 ? kPcieEfficiencySmall : kPcieEfficiencyLarge;
    return topology.pcie_per_direction.value * efficiency;
  }
  if (topology.nvlink_topology == NvlinkTopology::HybridCubeMesh && ranks_in_node <= 8 &&
      topology.gpus_per_node == 8) {
    // As a share of the whole GPU's links; the ramp's efficiency is divided out.
    return kMeshRings[ranks_in_node] * kMeshRingBandwidth / kVolta.ring.efficiency;
  }
  return topology.nvlink_per_direction.value;
}

// What one group may push out of a node.
double node_injection_bandwidth(const GroupTopology& topology) {
  const double nics = topology.num_nics * topology.nic_per_direction.value;
  return nics / std::max(topology.groups_sharing_nics, 1) /
         std::max(topology.oversubscription, 1.0);
}

// limit · 1/(1 + (half/S)^exponent), as a time of `moved` bytes.
double ramp_seconds(double moved, double size, double limit, double half, double exponent) {
  return moved / limit * (1 + std::pow(half / std::max(size, 1.0), exponent));
}

NcclCommunicator communicator_of(const GroupTopology& topology, const NcclSettings& settings) {
  NcclCommunicator communicator;
  communicator.ranks = topology.ranks;
  communicator.nodes = topology.nodes;
  communicator.generation = nccl_generation(topology.architecture);
  communicator.nvlink = has_nvlink(topology);
  communicator.channels = std::max(topology.channels, 1);
  const double intra = intra_link_bandwidth(topology, topology.ranks_per_node());
  communicator.channel_bandwidth_intra = {intra / communicator.channels};
  communicator.channel_bandwidth_inter = {
      std::min(intra, node_injection_bandwidth(topology)) / communicator.channels};
  communicator.network_latency =
      topology.nic_latency + static_cast<double>(topology.switch_hops) * topology.switch_latency;
  communicator.nvls = topology.nvls && settings.nvls_enabled && topology.ranks_per_node() > 4;
  communicator.collnet = topology.sharp;
  return communicator;
}

// Step of a network ramp.
double network_step(const GroupTopology& topology) {
  return kNetworkStep + kNetworkStepOfLatency * topology.nic_latency.value;
}

// Bandwidth term of the Simple protocol on one node.
double intra_seconds(CollectiveKind kind, CollectiveAlgorithm algorithm, double bytes, int ranks,
                     const GroupTopology& topology) {
  const GenerationRamps& ramps = generation_ramps(nccl_generation(topology.architecture));
  const double link = intra_link_bandwidth(topology, ranks);
  const double moved = bytes * busbw_factor(kind, ranks);
  const bool nvlink = has_nvlink(topology);
  if (algorithm == CollectiveAlgorithm::Nvls || algorithm == CollectiveAlgorithm::NvlsTree) {
    const BandwidthRamp& ramp = measured_or(topology.multicast, ramps.multicast);
    return ramp_seconds(moved, bytes, link * ramp.efficiency,
                        ramp.half_size.value * effective_ranks(ranks), ramp.exponent);
  }
  if (!nvlink) return ramp_seconds(moved, bytes, link, 1 * kMiB, 1.0);
  const bool gathers =
      kind == CollectiveKind::AllGather || kind == CollectiveKind::ReduceScatter;
  const BandwidthRamp& ramp = gathers ? measured_or(topology.gather, ramps.gather)
                                      : measured_or(topology.ring, ramps.ring);
  // Each rank's share of a gather is S/n: the more ranks, the more transfers are in flight.
  const double half = gathers ? ramp.half_size.value / std::max(ranks - 1, 1)
                              : ramp.half_size.value;
  return ramp_seconds(moved, bytes, link * ramp.efficiency, half, ramp.exponent);
}

// Bandwidth term of the network part: what leaves a node, over its NICs.
double inter_seconds(CollectiveKind kind, CollectiveAlgorithm algorithm, double bytes,
                     const GroupTopology& topology) {
  const double injection = node_injection_bandwidth(topology) * topology.nic_efficiency;
  double moved = bytes * busbw_factor(kind, topology.ranks);
  // Two nodes reduce and broadcast with one crossing each way; more form a double tree or a ring.
  const bool tree = algorithm == CollectiveAlgorithm::Tree ||
                    algorithm == CollectiveAlgorithm::NvlsTree ||
                    algorithm == CollectiveAlgorithm::CollNetDirect;
  if (tree && topology.nodes == 2) moved = bytes;
  if (algorithm == CollectiveAlgorithm::CollNetDirect) moved = bytes;
  const double half =
      effective_ranks(topology.ranks) * network_step(topology) *
      std::min(injection, intra_link_bandwidth(topology, topology.ranks_per_node()));
  return ramp_seconds(moved, bytes, injection, half, kNetworkExponent);
}

// A tree over more than two nodes passes every byte twice through an inner node.
double tree_factor(CollectiveAlgorithm algorithm, int nodes) {
  return algorithm == CollectiveAlgorithm::NvlsTree && nodes > 2 ? 2 : 1;
}

double candidate_seconds(CollectiveKind kind, CollectiveAlgorithm algorithm,
                         CollectiveProtocol protocol, double bytes, const GroupTopology& topology,
                         const NcclCommunicator& communicator) {
  const GenerationRamps& ramps = generation_ramps(communicator.generation);
  const NcclCost cost = nccl_cost(kind, algorithm, protocol, communicator);
  double latency = cost.latency.value * ramps.latency_factor;
  if (algorithm == CollectiveAlgorithm::Nvls) latency = ramps.multicast_latency.value;
  if (protocol != CollectiveProtocol::Simple) {
    const double factor = protocol == CollectiveProtocol::Ll128 ? ramps.ll128_factor : 1;
    const double streamed = bytes / (cost.algorithm_bandwidth.value * factor);
    const double bound =
        topology.nodes > 1 ? inter_seconds(kind, algorithm, bytes, topology) : 0;
    return latency + std::max(streamed, bound);
  }
  if (topology.nodes == 1) {
    return latency + intra_seconds(kind, algorithm, bytes, topology.ranks, topology);
  }
  const int local = topology.ranks_per_node();
  double intra = 0;
  if (local > 1) {
    // Rings cross every link with the whole group's share; trees only reduce inside the node.
    const double share = algorithm == CollectiveAlgorithm::Ring
                             ? busbw_factor(kind, topology.ranks) / busbw_factor(kind, local)
                             : 1;
    intra = share * tree_factor(algorithm, topology.nodes) *
            intra_seconds(kind, algorithm, bytes, local, topology);
  }
  return latency + std::max(intra, inter_seconds(kind, algorithm, bytes, topology));
}

bool allowed(const NcclSettings& settings, CollectiveAlgorithm algorithm,
             CollectiveProtocol protocol) {
  return (!settings.algorithm || *settings.algorithm == algorithm) &&
         (!settings.protocol || *settings.protocol == protocol);
}

CollectiveTime fastest(CollectiveKind kind, Bytes bytes, const GroupTopology& topology,
                       const NcclSettings& settings) {
  const NcclCommunicator communicator = communicator_of(topology, settings);
  CollectiveTime best{.time = {1e30}};
  // A forced choice that NCCL does not offer falls back to its own, as NCCL warns and does.
  for (const bool forced : {true, false}) {
    for (int a = 0; a <= static_cast<int>(CollectiveAlgorithm::Pat); ++a) {
      for (int p = 0; p <= static_cast<int>(CollectiveProtocol::Simple); ++p) {
        const auto algorithm = static_cast<CollectiveAlgorithm>(a);
        const auto protocol = static_cast<CollectiveProtocol>(p);
        if (forced && !allowed(settings, algorithm, protocol)) continue;
        if (!nccl_cost(kind, algorithm, protocol, communicator).available) continue;
        const Seconds time{candidate_seconds(kind, algorithm, protocol, bytes.value, topology,
                                             communicator)};
        if (time < best.time) best = {time, algorithm, protocol, {}};
      }
    }
    if (best.time.value < 1e30) break;
  }
  return best;
}

CollectiveTime all_to_all(Bytes bytes, const GroupTopology& topology) {
  const GenerationRamps& ramps = generation_ramps(nccl_generation(topology.architecture));
  const BandwidthRamp& ramp = measured_or(topology.all_to_all, ramps.all_to_all);
  const int n = topology.ranks, local = topology.ranks_per_node();
  const double size = bytes.value;
  const double inside = size * (local - 1) / n;
  // Bytes that leave a node through the NICs of its ranks of this group.
  const double outside = size * (n - local) / n * local;
  double seconds = 0;
  if (inside > 0) {
    const double link = intra_link_bandwidth(topology, local);
    const double efficiency = has_nvlink(topology) ? ramp.efficiency : 1;
    seconds = ramp_seconds(inside, size, link * efficiency, ramp.half_size.value, ramp.exponent);
  }
  double latency = 10e-6;
  if (outside > 0) {
    const double injection = node_injection_bandwidth(topology) * topology.nic_efficiency *
                             kNetworkAllToAllEfficiency;
    const double half = effective_ranks(n) * network_step(topology) * injection / local;
    seconds = std::max(seconds,
                       ramp_seconds(outside, size, injection, half, kNetworkExponent));
    // Peers are served in turn; each message starts with a network latency.
    latency += nccl_link_latency(NcclLink::Network, CollectiveAlgorithm::Ring,
                                 CollectiveProtocol::Simple)
                   .value +
               topology.nic_latency.value + 0.4e-6 * (n - local);
  }
  return {{latency + seconds}, CollectiveAlgorithm::Direct, CollectiveProtocol::Simple, {}};
}

}  // namespace

GroupTopology group_topology(const GroupPlacement& placement, const Node& node, const Gpu& gpu,
                             const Fabric& fabric, const GpuProfile& profile) {
  GroupTopology topology;
  topology.ranks = std::max(placement.ranks, 1);
  const int per_node = std::clamp(placement.ranks_per_node, 1, topology.ranks);
  topology.nodes = (topology.ranks + per_node - 1) / per_node;
  topology.gpus_per_node = node.num_gpus;
  topology.groups_sharing_nics = std::max(placement.groups_sharing_nics, 1);
  topology.architecture = gpu.architecture;
  topology.nvlink_topology = node.nvlink_topology;
  topology.nvlink_per_direction = gpu.nvlink_per_direction;
  topology.pcie_per_direction =
      gpu.pcie_per_direction.value > 0 ? gpu.pcie_per_direction : BytesPerSecond{16e9};
  topology.num_nics = std::max(node.num_nics, 1);
  topology.nic_per_direction =
      node.nic_per_direction.value > 0 ? node.nic_per_direction : BytesPerSecond{25e9};
  // The tuner's network latencies hold an InfiniBand adapter; only what is beyond counts.
  topology.nic_latency = {std::max(node.nic_latency.value - 2e-6, 0.0)};
  topology.switch_latency = fabric.switch_latency;
  topology.switch_hops = topology.nodes > 32 ? 3 : 1;
  topology.oversubscription = topology.nodes > 32 ? fabric.oversubscription : 1;
  topology.sharp = fabric.sharp;
  const NcclGeneration generation = nccl_generation(gpu.architecture);
  topology.nvls = generation >= NcclGeneration::Hopper &&
                  gpu.architecture != GpuArchitecture::Cdna3 &&
                  node.nvlink_topology == NvlinkTopology::Switch;
  topology.channels = generation >= NcclGeneration::Hopper ? 16 : 12;
  topology.nic_efficiency = profile.nic_efficiency > 0 ? profile.nic_efficiency : 0.97;
  topology.ring = profile.nvlink_ring;
  topology.multicast = profile.nvlink_nvls;
  topology.gather = profile.nvlink_gather;
  topology.all_to_all = profile.nvlink_all_to_all;
  topology.send = profile.nvlink_send;
  return topology;
}

CollectiveTime collective_time(CollectiveKind kind, Bytes bytes, const GroupTopology& topology,
                               const NcclSettings& settings) {
  MEGATWIN_ASSERT(topology.ranks >= 1 && topology.nodes >= 1, topology.ranks, " ", topology.nodes);
  MEGATWIN_ASSERT(topology.nodes <= topology.ranks, topology.ranks, " ", topology.nodes);
  CollectiveTime result;
  if (topology.ranks == 1 || bytes.value <= 0) return result;
  switch (kind) {
    case CollectiveKind::AllReduce:
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::Broadcast:
      result = fastest(kind, bytes, topology, settings);
      break;
    case CollectiveKind::AllToAll:
      result = all_to_all(bytes, topology);
      break;
    case CollectiveKind::SendReceive:
      result = {send_time(bytes, topology), CollectiveAlgorithm::Direct,
                CollectiveProtocol::Simple,
                {}};
      break;
  }
  if (topology.nodes > 1 && topology.ranks_per_node() > 1 &&
      kind != CollectiveKind::SendReceive) {
    // A group on more nodes does all that its part on one node does: never faster.
    GroupTopology part = topology;
    part.ranks = topology.ranks_per_node();
    part.nodes = 1;
    const double factor = kind == CollectiveKind::AllToAll
                              ? static_cast<double>(part.ranks) / topology.ranks
                              : 1;
    const CollectiveTime inside = collective_time(kind, factor * bytes, part, settings);
    result.time = std::max(result.time, inside.time);
  }
  result.time = std::max(result.time, injection_bound(kind, bytes, topology));
  result.busbw = busbw_from_time(kind, topology.ranks, bytes, result.time);
  return result;
}

Seconds send_time(Bytes bytes, const GroupTopology& topology) {
  const GenerationRamps& ramps = generation_ramps(nccl_generation(topology.architecture));
  if (topology.nodes <= 1) {
    const BandwidthRamp& ramp = measured_or(topology.send, ramps.send);
    const bool nvlink = has_nvlink(topology);
    const double link = intra_link_bandwidth(topology, 2) * (nvlink ? ramp.efficiency : 1);
    const double base = 8e-6;
    return {base + ramp_seconds(bytes.value, bytes.value, link, ramp.half_size.value,
                                ramp.exponent)};
  }
  // One rank uses its own NIC, or its share when there are fewer NICs than senders.
  const double share =
      std::min(topology.nic_per_direction.value * std::max(1, topology.num_nics /
                                                                  std::max(topology.gpus_per_node, 1)),
               node_injection_bandwidth(topology));
  const double limit = share * topology.nic_efficiency;
  const double base = 14e-6 + topology.nic_latency.value +
                      topology.switch_hops * topology.switch_latency.value;
  return {base + ramp_seconds(bytes.value, bytes.value, limit, network_step(topology) * limit,
                              kNetworkExponent)};
}

double busbw_factor(CollectiveKind kind, int ranks) {
  const double n = ranks;
  switch (kind) {
    case CollectiveKind::AllReduce:
      return 2 * (n - 1) / n;
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::AllToAll:
      return (n - 1) / n;
    case CollectiveKind::Broadcast:
    case CollectiveKind::SendReceive:
      return 1;
  }
  return 1;
}

BytesPerSecond busbw_from_algbw(CollectiveKind kind, int ranks, BytesPerSecond algbw) {
  return busbw_factor(kind, ranks) * algbw;
}

BytesPerSecond algbw_from_busbw(CollectiveKind kind, int ranks, BytesPerSecond busbw) {
  return busbw / busbw_factor(kind, ranks);
}

BytesPerSecond busbw_from_time(CollectiveKind kind, int ranks, Bytes bytes, Seconds time) {
  if (time.value <= 0) return {};
  return busbw_from_algbw(kind, ranks, bytes / time);
}

Seconds ring_all_reduce_bandwidth_term(Bytes size, int ranks, BytesPerSecond busbw) {
  return busbw_factor(CollectiveKind::AllReduce, ranks) * (size / busbw);
}

double sharp_send_ratio(int ranks) { return 2.0 * ranks / (ranks + 1.0); }

Seconds injection_bound(CollectiveKind kind, Bytes bytes, const GroupTopology& topology) {
  if (topology.nodes <= 1) return {};
  const double local = topology.ranks_per_node(), n = topology.ranks, nodes = topology.nodes;
  double leaves_node = 0;
  switch (kind) {
    case CollectiveKind::AllReduce:
      // A node's partial sum must leave it at least once, and with N nodes 2(N−1)/N of it without
      // reduction in the network.
      leaves_node = bytes.value * (topology.sharp ? 1 : 2 * (nodes - 1) / nodes);
      break;
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter:
      leaves_node = bytes.value * (nodes - 1) / nodes;
      break;
    case CollectiveKind::AllToAll:
      leaves_node = bytes.value * (n - local) / n * local;
      break;
    case CollectiveKind::Broadcast:
    case CollectiveKind::SendReceive:
      leaves_node = bytes.value;
      break;
  }
  return {leaves_node / node_injection_bandwidth(topology)};
}

Bytes nccl_buffer_size(CollectiveProtocol protocol) {
  constexpr double kSteps = 8, kThreads = 512, kLlLines = 8, kLlLineBytes = 16;
  constexpr double kLl128Threads = 640, kLl128Elements = 120, kLl128ElementBytes = 8;
  switch (protocol) {
    case CollectiveProtocol::Ll:
      return {kSteps * kThreads * kLlLines * kLlLineBytes};
    case CollectiveProtocol::Ll128:
      return {kSteps * kLl128Threads * kLl128Elements * kLl128ElementBytes};
    case CollectiveProtocol::Simple:
      return 4_MiB;
  }
  return {};
}

}  // namespace megatwin::model
