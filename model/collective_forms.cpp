#include "model/collective_forms.h"

namespace megatwin::model {

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
