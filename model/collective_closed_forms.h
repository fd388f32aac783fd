// Latency-bandwidth forms of collectives and the volumes that a layer moves. Textbook bounds and
// oracles; predicted times are collective_cost.h's, whose bandwidth terms are used here.
#ifndef MEGATWIN_MODEL_COLLECTIVE_CLOSED_FORMS_H_
#define MEGATWIN_MODEL_COLLECTIVE_CLOSED_FORMS_H_

#include "model/micro_op.h"
#include "model/units.h"

namespace megatwin::model {

struct LinkModel {
  Seconds latency;  // Of one step.
  BytesPerSecond bandwidth;
};

// latency + S/B: one message.
Seconds message_time(Bytes size, const LinkModel& link);

// Steps · latency + busbw factor · S/B: 2(n−1) steps of an all-reduce, n−1 of an all-gather,
// reduce-scatter or direct all-to-all. S is the total size as nccl-tests prints it.
Seconds ring_time(CollectiveKind kind, Bytes size, int ranks, const LinkModel& link);

// Double binary tree, pipelined: 2·log2(n) latencies + 2·S/B.
Seconds tree_all_reduce_time(Bytes size, int ranks, const LinkModel& link);

// All-reduce over N machines of g GPUs, one NIC a GPU, all bandwidths of one GPU:
// 2S(g−1)/g over the inner links, then 2(S/g)(N−1)/N over the NIC.
struct TwoLevelGroup {
  int gpus_per_node = 1;
  int nodes = 1;
  BytesPerSecond inner, nic;
};
Seconds hierarchical_all_reduce_time(Bytes size, const TwoLevelGroup& group);

// Bytes that a GPU sends per micro-batch and layer under tensor parallelism, forward and backward:
// four all-reduces of bsh elements. Source: SC21, arXiv:2104.04473, section 3.2.
struct ActivationExtent {
  double micro_batch = 1, sequence = 0, hidden = 0;
  Bytes element = 2_B;
};
Bytes tensor_parallel_volume(const ActivationExtent& extent, int tensor);
// A pipeline boundary, one way: bsh elements, ÷ t when scattered over the tensor group.
Bytes pipeline_volume(const ActivationExtent& extent, int scatter_over);
// Once a step: 2(d−1)/d of the gradients; with ZeRO-3 half as much again.
Bytes data_parallel_volume(Bytes parameters, int data, bool gathers_for_backward);
// Two dispatches and two combines: 4·b·s·k·h·(1 − 1/e) elements.
Bytes expert_parallel_volume(const ActivationExtent& extent, int experts_per_token, int expert);
// (c−1) steps of keys and values of s/c tokens.
Bytes context_parallel_volume(const ActivationExtent& key_value_extent, int context);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_COLLECTIVE_CLOSED_FORMS_H_
