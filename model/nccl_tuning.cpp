#include "model/nccl_tuning.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace megatwin::model {
namespace {

constexpr Seconds us(double value) { return {value * 1e-6}; }
constexpr BytesPerSecond gbps(double value) { return {value * 1e9}; }

using PerProtocol = std::array<double, 3>;  // LL, LL128, Simple.

// Microseconds. Rows: tree, ring, CollNet direct, CollNet chain, NVLS, NVLS tree, PAT.
constexpr std::array<PerProtocol, 7> kBaseLatency{{{6.8, 14.0, 8.4},
                                                   {6.6, 14.0, 8.4},
                                                   {0, 0, 0},
                                                   {0, 0, 0},
                                                   {0, 0, 0},
                                                   {0, 0, 0},
                                                   {8.0, 8.0, 8.0}}};
constexpr std::array<PerProtocol, 7> kNvlinkLatency{{{0.6, 1.25, 4.0},
                                                     {0.6, 1.9, 3.4},
                                                     {0, 0, 3.7},
                                                     {0, 0, 2.8},
                                                     {0, 0, 25},
                                                     {0, 0, 25},
                                                     {0, 0, 4.0}}};
constexpr std::array<PerProtocol, 7> kPcieLatency{{{1.0, 1.9, 4.0},
                                                   {1.0, 2.5, 5.7},
                                                   {0, 0, 3.7},
                                                   {0, 0, 2.8},
                                                   {0, 0, 0},
                                                   {0, 0, 0},
                                                   {0, 0, 4.0}}};
constexpr std::array<PerProtocol, 7> kNetworkLatency{{{5.0, 8.5, 14},
                                                      {2.7, 4.0, 14.0},
                                                      {0, 0, 31},
                                                      {0, 0, 30},
                                                      {0, 0, 18},
                                                      {0, 0, 20.9},
                                                      {0, 0, 14}}};

// GB/s on 1, 2, and 4 or more nodes. Rows: Volta, Ampere, Hopper, Blackwell.
using PerNodes = std::array<double, 3>;
constexpr std::array<PerNodes, 4> kLlCap{
    {{39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {141.0, 45.0, 35.0}, {282.0, 90.0, 70.0}}};
constexpr std::array<PerNodes, 4> kTreeChannelCap{
    {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}, {70.0, 42.8, 24.0}}};
constexpr std::array<double, 4> kLl128RingChannelCap{20.0, 20.0, 36.7, 40.0};
constexpr std::array<double, 4> kNvlsEfficiency{0.85, 0.85, 0.85, 0.74};
constexpr std::array<PerNodes, 4> kNvlsTreeCap{
    {{0, 0, 0}, {0, 0, 0}, {0, 57.7, 45.5}, {0, 96.0, 80.0}}};

// Tree bandwidth by log2(bytes / 64): 64 B … 256 MB.
constexpr std::array<std::array<double, 24>, 3> kTreeCorrection{{
    {1.0, 1.0, 1.0, 1.0, .9, .8, .7, .7,  .7,  .7,  .6,  .5,
     .4,  .4,  .5,  .6,  .7, .8, .9, 1.0, 1.0, 1.0, 1.0, 1.0},
    {1.0, 1.0, 1.0, 1.0, 1.0, .9, .8, .8, .8, .7,  .6,  .6,
     .6,  .6,  .6,  .6,  .8,  .9, .9, .9, .9, 1.0, 1.0, 1.0},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
     .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
}};

std::size_t row(CollectiveAlgorithm algorithm) { return static_cast<std::size_t>(algorithm); }
std::size_t column(CollectiveProtocol protocol) { return static_cast<std::size_t>(protocol); }
std::size_t row(NcclGeneration generation) { return static_cast<std::size_t>(generation); }
std::size_t column_of_nodes(int nodes) { return nodes <= 1 ? 0 : nodes <= 3 ? 1 : 2; }

NcclLink intra_link(const NcclCommunicator& communicator) {
  return communicator.nvlink ? NcclLink::Nvlink : NcclLink::Pcie;
}

// A step over the network; Simple pays the link latency twice, for the flush of GPU-direct reads.
Seconds network_step(CollectiveAlgorithm algorithm, CollectiveProtocol protocol,
                     const NcclCommunicator& communicator) {
  const double flush = protocol == CollectiveProtocol::Simple ? 2 : 1;
  return nccl_link_latency(NcclLink::Network, algorithm, protocol) +
         flush * communicator.network_latency;
}

// Bandwidth of all channels; with more than two nodes the network's counts.
BytesPerSecond graph_bandwidth(const NcclCommunicator& communicator) {
  const BytesPerSecond channel = communicator.nodes <= 2 ? communicator.channel_bandwidth_intra
                                                         : communicator.channel_bandwidth_inter;
  return static_cast<double>(communicator.channels) * channel;
}

NcclCost ring_cost(CollectiveKind kind, CollectiveProtocol protocol,
                   const NcclCommunicator& communicator) {
  const int steps = nccl_steps(kind, communicator.ranks);
  return {nccl_ring_latency(kind, communicator, protocol),
          nccl_ring_algorithm_bandwidth(nccl_ring_bus_bandwidth(communicator, protocol),
                                        communicator.ranks, steps),
          true};
}

NcclCost nvls_cost(CollectiveKind kind, bool tree, const NcclCommunicator& communicator) {
  const std::size_t generation = row(communicator.generation);
  const double channels = communicator.channels;
  double bus = channels * communicator.channel_bandwidth_intra.value * kNvlsEfficiency[generation] *
               (channels - 1) / channels;
  const double per_node = communicator.ranks_per_node();
  bus *= kind == CollectiveKind::AllReduce ? 2 : (per_node - 1) / per_node;
  NcclCost cost{.available = true};
  if (tree) {
    bus = std::min(bus,
                   channels * kNvlsTreeCap[generation][column_of_nodes(communicator.nodes)] * 1e9);
    cost.latency =
        nccl_base_latency(CollectiveAlgorithm::NvlsTree, CollectiveProtocol::Simple) +
        nccl_link_latency(NcclLink::Nvlink, CollectiveAlgorithm::NvlsTree,
                          CollectiveProtocol::Simple) +
        2 * std::log2(communicator.nodes) *
            network_step(CollectiveAlgorithm::NvlsTree, CollectiveProtocol::Simple, communicator);
  } else {
    cost.latency =
        nccl_link_latency(NcclLink::Nvlink, CollectiveAlgorithm::Nvls, CollectiveProtocol::Simple);
  }
  const int steps = nccl_steps(kind, communicator.ranks);
  cost.algorithm_bandwidth = kind == CollectiveKind::AllReduce
                                 ? nccl_ring_algorithm_bandwidth({bus}, communicator.ranks, steps)
                                 : BytesPerSecond{bus};
  return cost;
}

}  // namespace

std::string_view name_of(CollectiveAlgorithm algorithm) {
  constexpr std::array<std::string_view, 8> kNames{
      "tree", "ring", "collnet-direct", "collnet-chain", "nvls", "nvls-tree", "pat", "direct"};
  return kNames[row(algorithm)];
}

std::string_view name_of(CollectiveProtocol protocol) {
  constexpr std::array<std::string_view, 3> kNames{"LL", "LL128", "Simple"};
  return kNames[column(protocol)];
}

NcclGeneration nccl_generation(GpuArchitecture architecture) {
  switch (architecture) {
    case GpuArchitecture::Volta:
      return NcclGeneration::Volta;
    case GpuArchitecture::Ampere:
    case GpuArchitecture::Ada:
    case GpuArchitecture::Other:
      return NcclGeneration::Ampere;
    case GpuArchitecture::Hopper:
    case GpuArchitecture::Cdna3:
      return NcclGeneration::Hopper;
    case GpuArchitecture::Blackwell:
      return NcclGeneration::Blackwell;
  }
  return NcclGeneration::Ampere;
}

int nccl_steps(CollectiveKind kind, int ranks) {
  switch (kind) {
    case CollectiveKind::AllReduce:
      return 2 * (ranks - 1);
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::AllToAll:
      return ranks - 1;
    case CollectiveKind::Broadcast:
      return ranks;
    case CollectiveKind::SendReceive:
      return 1;
  }
  return 1;
}

Seconds nccl_base_latency(CollectiveAlgorithm algorithm, CollectiveProtocol protocol) {
  if (algorithm == CollectiveAlgorithm::Direct) return us(0);
  return us(kBaseLatency[row(algorithm)][column(protocol)]);
}

Seconds nccl_link_latency(NcclLink link, CollectiveAlgorithm algorithm,
                          CollectiveProtocol protocol) {
  if (algorithm == CollectiveAlgorithm::Direct) algorithm = CollectiveAlgorithm::Ring;
  switch (link) {
    case NcclLink::Nvlink:
      return us(kNvlinkLatency[row(algorithm)][column(protocol)]);
    case NcclLink::Pcie:
      return us(kPcieLatency[row(algorithm)][column(protocol)]);
    case NcclLink::Network:
      return us(kNetworkLatency[row(algorithm)][column(protocol)]);
  }
  return us(0);
}

Seconds nccl_ring_latency(CollectiveKind kind, const NcclCommunicator& communicator,
                          CollectiveProtocol protocol) {
  constexpr auto kRing = CollectiveAlgorithm::Ring;
  const int steps = nccl_steps(kind, communicator.ranks);
  Seconds intra = nccl_link_latency(intra_link(communicator), kRing, protocol);
  int inter_steps = 0;
  if (communicator.nodes > 1) {
    const double overhead_factor = protocol == CollectiveProtocol::Simple ? 3 : 1;
    intra = std::max(intra, overhead_factor * communicator.network_overhead);
    inter_steps =
        kind == CollectiveKind::AllReduce ? 2 * (communicator.nodes - 1) : communicator.nodes - 1;
  }
  const Seconds inter = network_step(kRing, protocol, communicator);
  return nccl_base_latency(kRing, protocol) + static_cast<double>(steps - inter_steps) * intra +
         static_cast<double>(inter_steps) * inter;
}

Seconds nccl_tree_latency(const NcclCommunicator& communicator, CollectiveProtocol protocol) {
  constexpr auto kTree = CollectiveAlgorithm::Tree;
  const double hops_intra = static_cast<double>(communicator.ranks) / communicator.nodes - 1;
  const double hops_inter = std::log2(communicator.nodes);
  return nccl_base_latency(kTree, protocol) +
         2 * (hops_intra * nccl_link_latency(intra_link(communicator), kTree, protocol) +
              hops_inter * network_step(kTree, protocol, communicator));
}

BytesPerSecond nccl_ll_cap(NcclGeneration generation, int nodes) {
  return gbps(kLlCap[row(generation)][column_of_nodes(nodes)]);
}

BytesPerSecond nccl_tree_channel_cap(NcclGeneration generation, int nodes) {
  return gbps(kTreeChannelCap[row(generation)][column_of_nodes(nodes)]);
}

BytesPerSecond nccl_ll128_ring_channel_cap(NcclGeneration generation) {
  return gbps(kLl128RingChannelCap[row(generation)]);
}

BytesPerSecond nccl_ring_bus_bandwidth(const NcclCommunicator& communicator,
                                       CollectiveProtocol protocol) {
  const BytesPerSecond bus = graph_bandwidth(communicator);
  switch (protocol) {
    case CollectiveProtocol::Ll:
      return std::min(nccl_ll_cap(communicator.generation, communicator.nodes), 0.5 * bus);
    case CollectiveProtocol::Ll128:
      return std::min(0.92 * bus, static_cast<double>(communicator.channels) *
                                      nccl_ll128_ring_channel_cap(communicator.generation));
    case CollectiveProtocol::Simple:
      return bus;
  }
  return bus;
}

BytesPerSecond nccl_tree_bus_bandwidth(const NcclCommunicator& communicator,
                                       CollectiveProtocol protocol) {
  const double channels = communicator.channels;
  const BytesPerSecond cap =
      channels * nccl_tree_channel_cap(communicator.generation, communicator.nodes);
  const BytesPerSecond bus = std::min(0.92 * graph_bandwidth(communicator), cap);
  switch (protocol) {
    case CollectiveProtocol::Ll:
      return std::min(bus / 3.8, nccl_ll_cap(communicator.generation, communicator.nodes));
    case CollectiveProtocol::Ll128:
      return std::min((communicator.nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0) * bus, cap);
    case CollectiveProtocol::Simple:
      return bus;
  }
  return bus;
}

BytesPerSecond nccl_ring_algorithm_bandwidth(BytesPerSecond bus, int ranks, int steps) {
  return {bus.value * ranks / steps};
}

double nccl_tree_correction(CollectiveProtocol protocol, Bytes bytes) {
  constexpr int kCorrectedSizes = 23;
  const double quotient = std::floor(bytes.value / 64);
  if (quotient < 1) return 1;
  const int index = static_cast<int>(std::floor(std::log2(quotient)));
  if (index >= kCorrectedSizes) return 1;
  return kTreeCorrection[column(protocol)][static_cast<std::size_t>(index)];
}

NcclCost nccl_cost(CollectiveKind kind, CollectiveAlgorithm algorithm, CollectiveProtocol protocol,
                   const NcclCommunicator& communicator) {
  const bool reduces = kind == CollectiveKind::AllReduce;
  const bool gathers = kind == CollectiveKind::AllGather || kind == CollectiveKind::ReduceScatter;
  const bool simple = protocol == CollectiveProtocol::Simple;
  switch (algorithm) {
    case CollectiveAlgorithm::Ring:
      if (!reduces && !gathers && kind != CollectiveKind::Broadcast) return {};
      return ring_cost(kind, protocol, communicator);
    case CollectiveAlgorithm::Tree: {
      if (!reduces) return {};
      const BytesPerSecond bus = nccl_tree_bus_bandwidth(communicator, protocol);
      return {nccl_tree_latency(communicator, protocol), 0.5 * bus, true};
    }
    case CollectiveAlgorithm::Nvls:
      // NVLS needs NVSwitch of Hopper or later, and more than four GPUs to pay.
      if (!communicator.nvls || !simple || communicator.nodes > 1 || (!reduces && !gathers)) {
        return {};
      }
      return nvls_cost(kind, false, communicator);
    case CollectiveAlgorithm::NvlsTree:
      if (!communicator.nvls || !simple || communicator.nodes < 2 || !reduces) return {};
      return nvls_cost(kind, true, communicator);
    case CollectiveAlgorithm::CollNetDirect: {
      if (!communicator.collnet || !simple || communicator.nodes < 2 || !reduces) return {};
      const double peers = communicator.ranks_per_node() - 1;
      const Seconds latency =
          2 * (nccl_link_latency(intra_link(communicator), algorithm, protocol) + us(0.4 * peers)) +
          nccl_link_latency(NcclLink::Network, algorithm, protocol);
      const double hopper = communicator.generation >= NcclGeneration::Hopper ? 0.85 : 1;
      return {latency, 0.5 * hopper * graph_bandwidth(communicator), true};
    }
    case CollectiveAlgorithm::Pat: {
      if (!gathers || !simple || communicator.ranks_per_node() != 1) return {};
      const Seconds latency =
          nccl_base_latency(algorithm, protocol) +
          std::log2(communicator.nodes) * network_step(algorithm, protocol, communicator);
      return {latency, 0.75 * graph_bandwidth(communicator), communicator.nodes > 1};
    }
    case CollectiveAlgorithm::CollNetChain:
    case CollectiveAlgorithm::Direct:
      return {};
  }
  return {};
}

Seconds nccl_time(CollectiveKind kind, CollectiveAlgorithm algorithm, CollectiveProtocol protocol,
                  const NcclCommunicator& communicator, Bytes bytes) {
  NcclCost cost = nccl_cost(kind, algorithm, protocol, communicator);
  if (algorithm == CollectiveAlgorithm::Tree) {
    cost.algorithm_bandwidth = nccl_tree_correction(protocol, bytes) * cost.algorithm_bandwidth;
  }
  const double bytes_per_step =
      bytes.value / (static_cast<double>(communicator.channels) * communicator.ranks);
  if (algorithm == CollectiveAlgorithm::Ring && protocol == CollectiveProtocol::Simple &&
      communicator.nodes > 1 && kind == CollectiveKind::AllReduce && bytes_per_step >= 64) {
    const double factor = communicator.generation == NcclGeneration::Volta ? 1.9 : 1.4;
    cost.latency = factor * cost.latency;
  }
  return cost.latency + bytes / cost.algorithm_bandwidth;
}

NcclChoice nccl_choice(CollectiveKind kind, const NcclCommunicator& communicator, Bytes bytes) {
  NcclChoice best{.time = {1e30}};
  for (int a = 0; a <= static_cast<int>(CollectiveAlgorithm::Pat); ++a) {
    for (int p = 0; p <= static_cast<int>(CollectiveProtocol::Simple); ++p) {
      const auto algorithm = static_cast<CollectiveAlgorithm>(a);
      const auto protocol = static_cast<CollectiveProtocol>(p);
      if (!nccl_cost(kind, algorithm, protocol, communicator).available) continue;
      const Seconds time = nccl_time(kind, algorithm, protocol, communicator, bytes);
      if (time < best.time) best = {algorithm, protocol, time};
    }
  }
  return best;
}

}  // namespace megatwin::model
