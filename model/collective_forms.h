// Closed forms about collectives that need no topology: bus and algorithm bandwidth, counts of
// sends, NCCL's buffers. Arithmetic only.
#ifndef MEGATWIN_MODEL_COLLECTIVE_FORMS_H_
#define MEGATWIN_MODEL_COLLECTIVE_FORMS_H_

#include "model/micro_op.h"
#include "model/nccl_tuning.h"
#include "model/units.h"

namespace megatwin::model {

// busbw = algbw · factor: 2(n−1)/n for all-reduce, (n−1)/n for all-gather, reduce-scatter and
// all-to-all, 1 for the rest. Source: nccl-tests, doc/PERFORMANCE.md.
double busbw_factor(CollectiveKind kind, int ranks);
BytesPerSecond busbw_from_algbw(CollectiveKind kind, int ranks, BytesPerSecond algbw);
BytesPerSecond algbw_from_busbw(CollectiveKind kind, int ranks, BytesPerSecond busbw);
BytesPerSecond busbw_from_time(CollectiveKind kind, int ranks, Bytes bytes, Seconds time);

// Time for a ring all-reduce of `size` bytes over `ranks` ranks, all links at `busbw`; no latency.
// Requires: ranks >= 1. Source: t = (S/B) · 2(n−1)/n, nccl-tests, doc/PERFORMANCE.md.
Seconds ring_all_reduce_bandwidth_term(Bytes size, int ranks, BytesPerSecond busbw);

// Sends of a ring over sends of in-network reduction: 2N/(N + 1).
double sharp_send_ratio(int ranks);

// Buffers that NCCL allocates per connection and channel: 8 steps of 8 lines of 16 B over 512
// threads (LL), 120/128 of … 4,915,200 B (LL128), 4 MiB (Simple). Source: nccl src/init.cc.
Bytes nccl_buffer_size(CollectiveProtocol protocol);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_COLLECTIVE_FORMS_H_
