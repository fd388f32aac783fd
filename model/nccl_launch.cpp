#include "model/nccl_launch.h"

#include <algorithm>

#include "model/assert.h"

namespace megatwin::model {
namespace {

// Threads of a channel, and bytes a thread takes for each rank before another channel opens (LL).
constexpr double kChannelThreads = 512, kThreadBytesPerRank = 8;

// A kernel launch on one GPU, when one thread drives them in turn and when threads of one process
// contend for its driver; and what each channel of a ring and each send or receive adds.
constexpr Seconds kLaunchInTurn = 4.1_us, kLaunchOfThreads = 5.85_us;
constexpr Seconds kChannel = 0.2_us, kPointToPointCall = 0.41_us;

}  // namespace

int nccl_ring_channels(Bytes bytes, const NcclLaunch& launch) {
  MEGATWIN_ASSERT(launch.ranks >= 1 && launch.channels >= 1, launch.ranks, " ", launch.channels);
  const double wanted = bytes.value / (kChannelThreads * kThreadBytesPerRank * launch.ranks);
  return static_cast<int>(std::clamp(wanted, 1.0, static_cast<double>(launch.channels)));
}

Seconds nccl_launch_time(CollectiveKind kind, Bytes bytes, const NcclLaunch& launch) {
  if (launch.gpus_per_process <= 1) return {};
  Seconds gpu = launch.threads_per_process > 1 ? kLaunchOfThreads : kLaunchInTurn;
  switch (kind) {
    case CollectiveKind::AllReduce:
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::Broadcast:
      gpu = gpu + static_cast<double>(nccl_ring_channels(bytes, launch)) * kChannel;
      break;
    case CollectiveKind::AllToAll:
      gpu = gpu + 2.0 * launch.ranks * kPointToPointCall;
      break;
    case CollectiveKind::SendReceive:
      gpu = gpu + 2.0 * kPointToPointCall;
      break;
  }
  return static_cast<double>(launch.gpus_per_process) * gpu;
}

}  // namespace megatwin::model
