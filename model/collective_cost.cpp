#include "model/collective_cost.h"

#include <algorithm>
#include <cmath>

#include "model/assert.h"
#include "model/link_ramps.h"

namespace megatwin::model {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
// Of a fabric of which nothing is said.
constexpr int kMachinesUnderOneSwitch = 32;

const BandwidthRamp& measured_or(const BandwidthRamp& measured, const BandwidthRamp& fallback) {
  return measured.efficiency > 0 ? measured : fallback;
}

// A hop between nodes of a tree, with its chunks in flight: 40 µs over InfiniBand (4 nodes of B200,
// 2 and 20 racks of GB200) and more over a slow NIC (2x p5, 2x p4de).
constexpr double kTreeHop = 40e-6;
constexpr double kTreeHopOfLatency = 2.2;
constexpr double kNetworkExponent = 0.75;
// Simple messages between two nodes reach half their bandwidth at this time's worth of bytes.
constexpr double kSendStep = 6e-6;
// All-to-all reaches this share of what the NICs carry (DeepEP on H800: 43 to 47 of 50 GB/s).
constexpr double kNetworkAllToAllEfficiency = 0.88;
constexpr double kEfaEfficiency = 0.92;
// PCIe without NVLink, over one direction of the slot (A100 PCIe: 20.8 of 30 up to 4 GPUs, 12.5 at
// 8).
constexpr double kPcieEfficiencySmall = 0.67, kPcieEfficiencyLarge = 0.41;
// Rings that NCCL finds on the hybrid cube mesh of DGX-1, by GPUs in the group, and the bandwidth
// of one (vTrain's V100 table).
constexpr double kMeshRings[] = {0, 0, 1, 2, 3.81, 1.63, 2.03, 3.92, 6.06};
constexpr double kMeshRingBandwidth = 22.6e9;
constexpr double kMeshHalfMiB[] = {0, 0, 0.5, 0.8, 1.8, 0.9, 0.8, 3.8, 7.3};
// A ring over nodes loses this much per step of its chunks beside the tuner's latency (20 racks of
// GB200, 4 nodes of H100).
constexpr double kRingStep = 7e-6;
// LL128 keeps smaller chunks in flight than Simple: its share of a tree's half size (2x p5).
constexpr double kLl128HalfShare = 0.3;
// Gathers by multicast: the tuner's 0.85 · 15/16 · 7/8 of the 370 GB/s that it takes for Hopper,
// over the link. Ring gathers were measured faster.
constexpr double kMulticastGatherEfficiency = 0.57;
// Time of a multicast all-reduce beside its ramp (8x H200).
constexpr double kMulticastLatency = 12e-6;
// Least time of a point-to-point call on the device.
constexpr double kSendLatency = 8e-6;

bool is_cube_mesh(const GroupTopology& topology, int ranks_in_node) {
  return topology.nvlink_topology == NvlinkTopology::HybridCubeMesh && ranks_in_node <= 8 &&
         topology.gpus_per_node == 8;
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
  if (is_cube_mesh(topology, ranks_in_node)) {
    // As a share of the whole GPU's links; the ramp's efficiency is divided out.
    return kMeshRings[ranks_in_node] * kMeshRingBandwidth /
           generation_ramps(NcclGeneration::Volta).ring.efficiency;
  }
  return topology.nvlink_per_direction.value;
}

// Adapters that a GPU has to itself; one where several share it.
double adapters_of_gpu(const GroupTopology& topology) {
  return std::max(1.0,
                  static_cast<double>(topology.num_nics) / std::max(topology.gpus_per_node, 1));
}

// Adapters that its members have as their own, in single ones: what others of the machine have is
// not the group's.
double adapters_of_members(const GroupTopology& topology) {
  const double members = topology.adapters > 0 ? topology.adapters : topology.ranks_per_node();
  return members * adapters_of_gpu(topology);
}

// What one group may push out of a node.
double node_injection_bandwidth(const GroupTopology& topology) {
  const double share =
      static_cast<double>(topology.num_nics) / std::max(topology.groups_sharing_nics, 1);
  return std::min(share, adapters_of_members(topology)) * topology.nic_per_direction.value /
         std::max(topology.oversubscription, 1.0);
}

// What an all-to-all moves, of `bytes` a rank: the busiest GPU inside its machine, and all of a
// node through its adapters, as many bytes by each as by the busiest.
struct Exchanged {
  double inside = 0, leaves_node = 0;
  int peers = 0;  // On other nodes.
};
Exchanged exchanged(double bytes, const GroupTopology& topology) {
  if (topology.exchange) {
    const AllToAllLoad& load = *topology.exchange;
    const double adapters = topology.adapters > 0 ? topology.adapters : topology.ranks_per_node();
    return {bytes * load.inside, bytes * load.adapter * adapters, load.peers};
  }
  const int n = topology.ranks, local = topology.ranks_per_node();
  return {bytes * (local - 1) / n, bytes * (n - local) / n * local, n - local};
}

// 1 + (half/S)^exponent: what small messages cost over large ones.
double ramp_factor(double size, double half, double exponent) {
  return 1 + std::pow(half / std::max(size, 1.0), exponent);
}

// Bandwidth term on the links of one node, and the ramp that multiplies it.
struct LinkTerm {
  double seconds = 0;  // Large messages.
  double half = 0, exponent = 1;

  double at(double size) const { return seconds * ramp_factor(size, half, exponent); }
};

LinkTerm intra_term(CollectiveKind kind, CollectiveAlgorithm algorithm, double bytes, int ranks,
                    const GroupTopology& topology) {
  const GenerationRamps& ramps = generation_ramps(nccl_generation(topology.architecture));
  const double link = intra_link_bandwidth(topology, ranks);
  const double moved = bytes * busbw_factor(kind, ranks);
  if (!has_nvlink(topology)) return {moved / link, 1 * kMiB, 1.0};
  const bool gathers = kind == CollectiveKind::AllGather || kind == CollectiveKind::ReduceScatter;
  if (algorithm == CollectiveAlgorithm::Nvls || algorithm == CollectiveAlgorithm::NvlsTree ||
      (algorithm == CollectiveAlgorithm::CollNetDirect && topology.nvls)) {
    const BandwidthRamp& ramp = measured_or(topology.multicast, ramps.multicast);
    const double half = ramp.half_size.value * ranks;
    if (gathers) return {bytes / (link * kMulticastGatherEfficiency), half, ramp.exponent};
    return {moved / (link * ramp.efficiency), half, ramp.exponent};
  }
  if (gathers) {
    const BandwidthRamp& ramp = measured_or(topology.gather, ramps.gather);
    const double peers = ramps.gather_half_by_peers ? std::max(ranks - 1, 1) : 1;
    return {moved / (link * ramp.efficiency), ramp.half_size.value / peers, ramp.exponent};
  }
  const BandwidthRamp& ramp = kind == CollectiveKind::Broadcast
                                  ? measured_or(topology.send, ramps.broadcast)
                                  : measured_or(topology.ring, ramps.ring);
  // A tree moves every byte up and down again, at the tuner's 0.92 of a ring's rate.
  const double crossed = algorithm == CollectiveAlgorithm::Tree ? 2 * bytes / 0.92 : moved;
  const double pair = ranks == 2 && !is_cube_mesh(topology, ranks) ? ramps.pair_factor : 1;
  const double half =
      is_cube_mesh(topology, ranks) ? kMeshHalfMiB[ranks] * kMiB : ramp.half_size.value;
  return {crossed / (link * ramp.efficiency * pair), half, ramp.exponent};
}

bool is_tree(CollectiveAlgorithm algorithm) {
  return algorithm == CollectiveAlgorithm::Tree || algorithm == CollectiveAlgorithm::NvlsTree ||
         algorithm == CollectiveAlgorithm::CollNetDirect;
}

// Bandwidth term of what leaves a node, over its NICs. Two nodes reduce and broadcast with one
// crossing each way; more form a double tree or a ring.
double inter_node_term(CollectiveKind kind, CollectiveAlgorithm algorithm, double bytes,
                       const GroupTopology& topology) {
  const double injection = node_injection_bandwidth(topology) * topology.nic_efficiency;
  const double moved = is_tree(algorithm) && topology.nodes == 2
                           ? bytes
                           : bytes * busbw_factor(kind, topology.ranks);
  return moved / injection;
}

// What a pipeline over nodes carries at most.
double network_bandwidth(const GroupTopology& topology) {
  return std::min(node_injection_bandwidth(topology) * topology.nic_efficiency,
                  intra_link_bandwidth(topology, std::max(topology.ranks_per_node(), 2)));
}

// Bytes that the hops of a tree over nodes hold in flight.
double tree_half(CollectiveAlgorithm algorithm, const GroupTopology& topology) {
  const double hop = kTreeHop + kTreeHopOfLatency * topology.nic_latency.value;
  const double hops = algorithm == CollectiveAlgorithm::CollNetDirect
                          ? 1
                          : 2 * std::log2(static_cast<double>(topology.nodes));
  return hops * hop * network_bandwidth(topology);
}

// Simple protocol over several nodes, without the latency.
double multi_node_term(CollectiveKind kind, CollectiveAlgorithm algorithm, double bytes,
                       const GroupTopology& topology, const NcclCost& cost) {
  const int local = topology.ranks_per_node();
  LinkTerm intra;
  if (local > 1) {
    intra = intra_term(kind, algorithm, bytes, local, topology);
    if (algorithm == CollectiveAlgorithm::Ring || algorithm == CollectiveAlgorithm::Pat) {
      // A ring crosses every link with the whole group's share.
      intra.seconds *= busbw_factor(kind, topology.ranks) / busbw_factor(kind, local);
    } else if (algorithm == CollectiveAlgorithm::NvlsTree && topology.nodes > 2) {
      intra.seconds *= 2;  // Inner nodes of the tree pass every byte twice.
    } else if (algorithm == CollectiveAlgorithm::Tree) {
      // The tuner's cap of a tree channel: 20 racks of GB200 reach it.
      intra.seconds = std::max(intra.seconds, bytes / cost.algorithm_bandwidth.value);
    }
  }
  const double inter = inter_node_term(kind, algorithm, bytes, topology);
  if (!is_tree(algorithm)) {
    const double half = kRingStep * topology.ranks * network_bandwidth(topology);
    return std::max(intra.at(bytes), inter) * ramp_factor(bytes, half, kNetworkExponent);
  }
  const double half = intra.half + tree_half(algorithm, topology);
  return std::max(intra.seconds, inter) * ramp_factor(bytes, half, kNetworkExponent);
}

// `latency` and `cost` are the tuner's, the former scaled to what was measured.
double candidate_term(CollectiveKind kind, CollectiveAlgorithm algorithm,
                      CollectiveProtocol protocol, double bytes, const GroupTopology& topology,
                      const NcclCost& cost, double latency) {
  const GenerationRamps& ramps = generation_ramps(nccl_generation(topology.architecture));
  if (protocol != CollectiveProtocol::Simple) {
    const bool ll128 = protocol == CollectiveProtocol::Ll128;
    const double factor = ll128 ? ramps.ll128_factor : ramps.ll_factor;
    double streamed = bytes / (cost.algorithm_bandwidth.value * factor);
    // LL128 moves 120 of 128 bytes over the same links: never faster than what these were seen to
    // do.
    if (ll128 && topology.nodes == 1) {
      streamed = std::max(streamed,
                          intra_term(kind, algorithm, bytes, topology.ranks, topology).at(bytes));
    }
    if (topology.nodes > 1) {
      streamed = std::max(streamed, inter_node_term(kind, algorithm, bytes, topology));
      const double half = is_tree(algorithm)
                              ? kLl128HalfShare * tree_half(algorithm, topology)
                              : kRingStep * topology.ranks * network_bandwidth(topology);
      if (ll128) streamed *= ramp_factor(bytes, half, kNetworkExponent);
    }
    return latency + streamed;
  }
  if (topology.nodes > 1) {
    return latency + multi_node_term(kind, algorithm, bytes, topology, cost);
  }
  const double streamed = intra_term(kind, algorithm, bytes, topology.ranks, topology).at(bytes);
  if (algorithm == CollectiveAlgorithm::Nvls) return kMulticastLatency + streamed;
  // Rings and trees on one node: the measured ramp holds the latency of their steps.
  return std::max(latency, streamed);
}

// Whether NCCL takes a tree over two nodes for a message. That two nodes are a case of their own is
// NCCL's rule: ncclTopoTuneModel() (src/graph/tuning.cc) prices every graph by its bandwidth inside
// a node where there are at most two, by that across else, and the last step of ncclTopoCompute()
// (src/graph/search.cc) lets the former rise to twice the latter for all graphs but rings. The
// tuner caps each channel of a tree (perChMaxTreeBws), of which there is one an adapter: slow
// adapters make it a tree (2x p4de), fast ones a ring (NVIDIA/nccl issue 1048).
// Left out: ncclTopoCompute() doubles the channels of a graph that move 25 GB/s or more, which
// would lift that cap for trees over adapters of 200 Gbit/s and make issue 1048 a tree, where a
// ring's bandwidth was measured; and ncclTopoGetAlgoTime()'s factors by size, since the times of
// both candidates are measured ones here.
bool takes_tree_over_two_nodes(CollectiveKind kind, CollectiveProtocol protocol, double bytes,
                               const GroupTopology& topology,
                               const NcclCommunicator& communicator) {
  constexpr double kTreeEfficiency = 0.92;
  const double inside = communicator.channels * communicator.channel_bandwidth_intra.value;
  const double across = communicator.channels * communicator.channel_bandwidth_inter.value;
  const double cap = std::min(topology.num_nics, communicator.channels) *
                     nccl_tree_channel_cap(communicator.generation, communicator.nodes).value;
  const double tree = 0.5 * std::min(kTreeEfficiency * std::min(inside, 2 * across), cap);
  const double ring = across * topology.ranks / nccl_steps(kind, topology.ranks);
  return nccl_tree_latency(communicator, protocol).value + bytes / tree <=
         nccl_ring_latency(kind, communicator, protocol).value + bytes / ring;
}

bool allowed(const NcclSettings& settings, CollectiveAlgorithm algorithm,
             CollectiveProtocol protocol) {
  return (!settings.algorithm || *settings.algorithm == algorithm) &&
         (!settings.protocol || *settings.protocol == protocol);
}

CollectiveTime fastest(CollectiveKind kind, Bytes bytes, const GroupTopology& topology,
                       const NcclSettings& settings) {
  const NcclCommunicator communicator = nccl_communicator(topology, settings);
  const double latency_factor =
      topology.nodes == 1 ? generation_ramps(communicator.generation).latency_factor : 1;
  CollectiveTime best{.time = {1e30}};
  // A forced choice that NCCL does not offer falls back to its own, as NCCL warns and does.
  for (const bool forced : {true, false}) {
    for (int a = 0; a <= static_cast<int>(CollectiveAlgorithm::Pat); ++a) {
      for (int p = 0; p <= static_cast<int>(CollectiveProtocol::Simple); ++p) {
        const auto algorithm = static_cast<CollectiveAlgorithm>(a);
        const auto protocol = static_cast<CollectiveProtocol>(p);
        if (forced && !allowed(settings, algorithm, protocol)) continue;
        const NcclCost cost = nccl_cost(kind, algorithm, protocol, communicator);
        const double latency = cost.latency.value * latency_factor;
        if (!cost.available || latency >= best.time.value) continue;
        const bool choice_is_ours = settings.algorithm && *settings.algorithm == algorithm;
        if (algorithm == CollectiveAlgorithm::Tree && topology.nodes == 2 && !choice_is_ours &&
            !takes_tree_over_two_nodes(kind, protocol, bytes.value, topology, communicator)) {
          continue;
        }
        if (protocol == CollectiveProtocol::Ll128 && topology.nodes > 1 &&
            !topology.ll128_over_network) {
          continue;
        }
        const Seconds time{
            candidate_term(kind, algorithm, protocol, bytes.value, topology, cost, latency)};
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
  const int local = topology.ranks_per_node();
  const double size = bytes.value;
  const auto [inside, outside, others] = exchanged(size, topology);
  double seconds = kSendLatency;
  if (inside > 0) {
    const double link = intra_link_bandwidth(topology, local);
    const double moved = inside / (link * (has_nvlink(topology) ? ramp.efficiency : 1));
    seconds = std::max(seconds, moved * ramp_factor(size, ramp.half_size.value, ramp.exponent));
  }
  if (outside > 0) {
    const double injection =
        node_injection_bandwidth(topology) * topology.nic_efficiency * kNetworkAllToAllEfficiency;
    // Peers are served in turn; each message starts anew, at a few at once.
    const Seconds start = nccl_link_latency(NcclLink::Network, CollectiveAlgorithm::Ring,
                                            CollectiveProtocol::Simple) +
                          topology.nic_latency;
    const double peers = 0.4e-6 * others;
    seconds = std::max(seconds, start.value + peers + outside / injection);
  }
  return {{seconds}, CollectiveAlgorithm::Direct, CollectiveProtocol::Simple, {}};
}

// Both ways at once between two ranks, or one way.
Seconds point_to_point(Bytes bytes, const GroupTopology& topology, bool both_ways) {
  const GenerationRamps& ramps = generation_ramps(nccl_generation(topology.architecture));
  if (topology.nodes <= 1) {
    const BandwidthRamp& ramp = both_ways ? ramps.exchange : measured_or(topology.send, ramps.send);
    const double link =
        intra_link_bandwidth(topology, 2) * (has_nvlink(topology) ? ramp.efficiency : 1);
    const double moved =
        bytes.value / link * ramp_factor(bytes.value, ramp.half_size.value, ramp.exponent);
    return {std::max(kSendLatency, moved)};
  }
  // A rank uses its own NICs, or its share when there are fewer NICs than GPUs.
  const double own = topology.nic_per_direction.value *
                     std::max(1, topology.num_nics / std::max(topology.gpus_per_node, 1));
  const double limit = std::min(own, node_injection_bandwidth(topology)) * topology.nic_efficiency;
  const Seconds start =
      nccl_link_latency(NcclLink::Network, CollectiveAlgorithm::Ring, CollectiveProtocol::Simple) +
      topology.nic_latency + static_cast<double>(topology.switch_hops) * topology.switch_latency;
  const double moved =
      bytes.value / limit * ramp_factor(bytes.value, kSendStep * limit, kNetworkExponent);
  return {start.value + moved};
}

}  // namespace

bool forwards_to_rails(const GroupTopology& topology) { return has_nvlink(topology); }

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
  topology.switch_hops = placement.switch_hops > 0                  ? placement.switch_hops
                         : topology.nodes > kMachinesUnderOneSwitch ? 3
                                                                    : 1;
  topology.sharp = fabric.sharp;
  const NcclGeneration generation = nccl_generation(gpu.architecture);
  topology.nvls = generation >= NcclGeneration::Hopper &&
                  gpu.architecture != GpuArchitecture::Cdna3 &&
                  node.nvlink_topology == NvlinkTopology::Switch;
  topology.channels = generation >= NcclGeneration::Hopper ? 16 : 12;
  topology.nic_efficiency = profile.nic_efficiency > 0 ? profile.nic_efficiency : 0.97;
  if (node.nic_type.starts_with("EFA")) {
    topology.nic_efficiency = std::min(topology.nic_efficiency, kEfaEfficiency);
    topology.ll128_over_network = node.nic_type != "EFA v1";
  }
  topology.ring = profile.nvlink_ring;
  topology.multicast = profile.nvlink_nvls;
  topology.gather = profile.nvlink_gather;
  topology.all_to_all = profile.nvlink_all_to_all;
  topology.send = profile.nvlink_send;
  return topology;
}

NcclCommunicator nccl_communicator(const GroupTopology& topology, const NcclSettings& settings) {
  NcclCommunicator communicator;
  communicator.ranks = topology.ranks;
  communicator.nodes = topology.nodes;
  communicator.generation = nccl_generation(topology.architecture);
  communicator.nvlink = has_nvlink(topology);
  communicator.channels = std::max(topology.channels, 1);
  const double intra = intra_link_bandwidth(topology, topology.ranks_per_node());
  communicator.channel_bandwidth_intra = {intra / communicator.channels};
  communicator.channel_bandwidth_inter = {std::min(intra, node_injection_bandwidth(topology)) /
                                          communicator.channels};
  communicator.network_latency =
      topology.nic_latency + static_cast<double>(topology.switch_hops) * topology.switch_latency;
  communicator.nvls = topology.nvls && settings.nvls_enabled && topology.ranks_per_node() > 4;
  communicator.collnet = topology.sharp;
  return communicator;
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
      result = {point_to_point(bytes, topology, true),
                CollectiveAlgorithm::Direct,
                CollectiveProtocol::Simple,
                {}};
      break;
  }
  if (topology.nodes > 1 && topology.ranks_per_node() > 1 && kind != CollectiveKind::SendReceive) {
    // A group on more nodes does all that its part on one node does: never faster.
    GroupTopology part = topology;
    part.ranks = topology.ranks_per_node();
    part.nodes = 1;
    double factor = 1;
    if (kind == CollectiveKind::AllToAll) {
      // Of as many bytes as its busiest GPU sends there.
      factor = topology.exchange ? topology.exchange->inside * part.ranks / (part.ranks - 1.0)
                                 : static_cast<double>(part.ranks) / topology.ranks;
      part.exchange.reset();
    }
    const CollectiveTime inside = collective_time(kind, factor * bytes, part, settings);
    result.time = std::max(result.time, inside.time);
  }
  result.time = std::max(result.time, injection_bound(kind, bytes, topology));
  result.busbw = busbw_from_time(kind, topology.ranks, bytes, result.time);
  return result;
}

Seconds send_time(Bytes bytes, const GroupTopology& topology) {
  return point_to_point(bytes, topology, false);
}

Seconds injection_bound(CollectiveKind kind, Bytes bytes, const GroupTopology& topology) {
  if (topology.nodes <= 1) return {};
  const double nodes = topology.nodes;
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
      leaves_node = exchanged(bytes.value, topology).leaves_node;
      break;
    case CollectiveKind::Broadcast:
    case CollectiveKind::SendReceive:
      leaves_node = bytes.value;
      break;
  }
  return {leaves_node / node_injection_bandwidth(topology)};
}

}  // namespace megatwin::model
