#include "model/nccl_tuning.h"

#include <gtest/gtest.h>

#include "model/collective_cost.h"
#include "model/nccl_launch.h"

namespace megatwin::model {
namespace {

NcclCommunicator one_node(int ranks) {
  return {.ranks = ranks,
          .nodes = 1,
          .generation = NcclGeneration::Ampere,
          .channels = 12,
          .channel_bandwidth_intra = {20e9},
          .channel_bandwidth_inter = {20e9}};
}

// base 14 + 2·(8 − 1) steps of 1.9 µs = 40.6 µs; Simple 8.4 + 14·3.4 = 56 µs.
TEST(NcclTuning, RingLatencyOnOneNode) {
  const NcclCommunicator communicator = one_node(8);
  EXPECT_NEAR(
      nccl_ring_latency(CollectiveKind::AllReduce, communicator, CollectiveProtocol::Ll128).value,
      40.6e-6, 1e-12);
  EXPECT_NEAR(
      nccl_ring_latency(CollectiveKind::AllReduce, communicator, CollectiveProtocol::Simple).value,
      56e-6, 1e-12);
}

// One node: 8.4 + 2·7·4.0 = 64.4 µs. 16 nodes of 8: 8.4 + 2·(7·4.0 + 4·14) = 176.4 µs.
TEST(NcclTuning, TreeLatency) {
  NcclCommunicator communicator = one_node(8);
  EXPECT_NEAR(nccl_tree_latency(communicator, CollectiveProtocol::Simple).value, 64.4e-6, 1e-12);
  communicator.ranks = 128;
  communicator.nodes = 16;
  EXPECT_NEAR(nccl_tree_latency(communicator, CollectiveProtocol::Simple).value, 176.4e-6, 1e-12);
}

// 12 channels of 20 GB/s, 8 ranks, 14 steps: 240 · 8/14 = 137.142857 GB/s.
TEST(NcclTuning, RingBandwidth) {
  const NcclCommunicator communicator = one_node(8);
  const BytesPerSecond bus = nccl_ring_bus_bandwidth(communicator, CollectiveProtocol::Simple);
  EXPECT_NEAR(nccl_ring_algorithm_bandwidth(bus, 8, 14).value, 137.14285714285714e9, 1);
  // LL: min(87.7, 0.5 · 240) = 87.7 GB/s.
  EXPECT_NEAR(nccl_ring_bus_bandwidth(communicator, CollectiveProtocol::Ll).value, 87.7e9, 1);
  // LL128: min(0.92 · 240, 12 · 20) = 220.8 GB/s.
  EXPECT_NEAR(nccl_ring_bus_bandwidth(communicator, CollectiveProtocol::Ll128).value, 220.8e9, 1);
}

// 1 MiB / 64 = 2^14: entry 14 of the Simple row is 0.5; below 64 B and from 2^23 on it is 1.
TEST(NcclTuning, TreeCorrection) {
  EXPECT_EQ(nccl_tree_correction(CollectiveProtocol::Simple, 1_MiB), 0.5);
  EXPECT_EQ(nccl_tree_correction(CollectiveProtocol::Simple, {32}), 1);
  EXPECT_EQ(nccl_tree_correction(CollectiveProtocol::Ll, {64.0 * (1 << 23)}), 1);
  EXPECT_EQ(nccl_tree_correction(CollectiveProtocol::Ll, {64.0 * (1 << 12)}), 0.4);
}

// Eight ranks open a channel every 512 · 8 · 8 B = 32 KiB, to the 24 that NCCL executes.
TEST(NcclLaunch, ChannelsGrowWithTheMessage) {
  const NcclLaunch launch{.ranks = 8, .gpus_per_process = 8};
  EXPECT_EQ(nccl_ring_channels({4}, launch), 1);
  EXPECT_EQ(nccl_ring_channels({65535}, launch), 1);
  EXPECT_EQ(nccl_ring_channels({65536}, launch), 2);
  EXPECT_EQ(nccl_ring_channels({512 * 1024}, launch), 16);
  EXPECT_EQ(nccl_ring_channels(1_GiB, launch), 24);
  EXPECT_EQ(nccl_ring_channels({65536}, {.ranks = 2}), 8);
}

// One thread launches eight kernels in turn: 8 · (4.1 + 0.2) µs, with 24 channels 8 · (4.1 + 4.8).
// An all-to-all of eight makes 16 calls a GPU: 8 · (4.1 + 16 · 0.41). Threads contend for the
// driver: 8 · (5.85 + 0.2). A GPU a process launches ahead.
TEST(NcclLaunch, OneProcessLaunchesItsGpusInTurn) {
  NcclLaunch launch{.ranks = 8, .gpus_per_process = 8};
  const auto time = [&](CollectiveKind kind, Bytes bytes) {
    return nccl_launch_time(kind, bytes, launch).value;
  };
  EXPECT_NEAR(time(CollectiveKind::AllReduce, {1024}), 34.4e-6, 1e-12);
  EXPECT_NEAR(time(CollectiveKind::AllGather, 1_GiB), 71.2e-6, 1e-12);
  EXPECT_NEAR(time(CollectiveKind::AllToAll, {1024}), 85.28e-6, 1e-12);
  launch.threads_per_process = 8;
  EXPECT_NEAR(time(CollectiveKind::AllReduce, {1024}), 48.4e-6, 1e-12);
  launch.gpus_per_process = 1;
  EXPECT_EQ(time(CollectiveKind::AllReduce, {1024}), 0);
}

TEST(NcclTuning, Buffers) {
  EXPECT_EQ(nccl_buffer_size(CollectiveProtocol::Ll).value, 524288);
  EXPECT_EQ(nccl_buffer_size(CollectiveProtocol::Ll128).value, 4915200);
  EXPECT_EQ(nccl_buffer_size(CollectiveProtocol::Simple).value, 4194304);
}

// 8 H200: LL while small, NVLS when large; NVLS never without NVSwitch multicast.
TEST(NcclTuning, ChoosesByTime) {
  NcclCommunicator communicator = one_node(8);
  communicator.generation = NcclGeneration::Hopper;
  communicator.channels = 16;
  communicator.channel_bandwidth_intra = {370e9 / 16};
  communicator.nvls = true;
  EXPECT_EQ(nccl_choice(CollectiveKind::AllReduce, communicator, {65536}).protocol,
            CollectiveProtocol::Ll);
  EXPECT_EQ(nccl_choice(CollectiveKind::AllReduce, communicator, 256_MiB).algorithm,
            CollectiveAlgorithm::Nvls);
  communicator.nvls = false;
  EXPECT_NE(nccl_choice(CollectiveKind::AllReduce, communicator, 256_MiB).algorithm,
            CollectiveAlgorithm::Nvls);
}

}  // namespace
}  // namespace megatwin::model
