#include "model/collective_closed_forms.h"

#include <cmath>

#include "model/collective_cost.h"
#include "model/nccl_tuning.h"

namespace megatwin::model {
namespace {

Bytes activation(const ActivationExtent& extent) {
  return extent.micro_batch * extent.sequence * extent.hidden * extent.element;
}

}  // namespace

Seconds message_time(Bytes size, const LinkModel& link) {
  return link.latency + size / link.bandwidth;
}

Seconds ring_time(CollectiveKind kind, Bytes size, int ranks, const LinkModel& link) {
  const int steps = kind == CollectiveKind::AllToAll ? ranks - 1 : nccl_steps(kind, ranks);
  return steps * link.latency + busbw_factor(kind, ranks) * (size / link.bandwidth);
}

Seconds tree_all_reduce_time(Bytes size, int ranks, const LinkModel& link) {
  return 2 * std::log2(ranks) * link.latency + 2.0 * (size / link.bandwidth);
}

Seconds hierarchical_all_reduce_time(Bytes size, const TwoLevelGroup& group) {
  return ring_all_reduce_bandwidth_term(size, group.gpus_per_node, group.inner) +
         ring_all_reduce_bandwidth_term(size / group.gpus_per_node, group.nodes, group.nic);
}

Bytes tensor_parallel_volume(const ActivationExtent& extent, int tensor) {
  return 4 * busbw_factor(CollectiveKind::AllReduce, tensor) * activation(extent);
}

Bytes pipeline_volume(const ActivationExtent& extent, int scatter_over) {
  return activation(extent) / scatter_over;
}

Bytes data_parallel_volume(Bytes parameters, int data, bool gathers_for_backward) {
  const double rounds = gathers_for_backward ? 1.5 : 1;
  return rounds * busbw_factor(CollectiveKind::AllReduce, data) * parameters;
}

Bytes expert_parallel_volume(const ActivationExtent& extent, int experts_per_token, int expert) {
  return 4.0 * experts_per_token * busbw_factor(CollectiveKind::AllToAll, expert) *
         activation(extent);
}

Bytes context_parallel_volume(const ActivationExtent& key_value_extent, int context) {
  return (context - 1) * (2.0 * activation(key_value_extent) / context);
}

}  // namespace megatwin::model
