// A parallel plan: how one training job is cut over ranks and time. Plain data; whether it is legal
// for a model and cluster is answered by plan_check.h with every reason at once.
#ifndef MEGATWIN_MODEL_PLAN_H_
#define MEGATWIN_MODEL_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/data_type.h"

namespace megatwin::model {

enum class RecomputeKind {
  None,
  Selective,  // Core attention only (Korthikanti et al., arXiv:2205.05198, section 5).
  Full,       // Whole layers from their input.
  PerOp,      // torchtitan's selective op: every other matrix product is kept.
};

enum class ScheduleKind {
  GPipe,
  OneForwardOneBackward,
  Interleaved,
  ZeroBubbleH1,
  ZeroBubbleV,
  OrderFile,
  // Decided while the step runs.
  DynamicAdaptive,
  DynamicDepthFirst,
  DynamicBreadthFirst,
  UserPolicy,  // Of a shared library.
  Decoupled,   // Forwards and backwards on ranks of their own.
};

constexpr bool is_dynamic(ScheduleKind kind) {
  return kind == ScheduleKind::DynamicAdaptive || kind == ScheduleKind::DynamicDepthFirst ||
         kind == ScheduleKind::DynamicBreadthFirst || kind == ScheduleKind::UserPolicy;
}

constexpr std::string_view name_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::GPipe:
      return "gpipe";
    case ScheduleKind::OneForwardOneBackward:
      return "1f1b";
    case ScheduleKind::Interleaved:
      return "interleaved";
    case ScheduleKind::ZeroBubbleH1:
      return "zb-h1";
    case ScheduleKind::ZeroBubbleV:
      return "zb-v";
    case ScheduleKind::OrderFile:
      return "order-file";
    case ScheduleKind::DynamicAdaptive:
      return "dpp";
    case ScheduleKind::DynamicDepthFirst:
      return "dpp-depth";
    case ScheduleKind::DynamicBreadthFirst:
      return "dpp-breadth";
    case ScheduleKind::UserPolicy:
      return "user";
    case ScheduleKind::Decoupled:
      return "fbd";
  }
  return "1f1b";
}

constexpr std::string_view name_of(RecomputeKind kind) {
  switch (kind) {
    case RecomputeKind::None:
      return "none";
    case RecomputeKind::Selective:
      return "selective";
    case RecomputeKind::Full:
      return "full";
    case RecomputeKind::PerOp:
      return "per-op";
  }
  return "none";
}

// ScheduleKind::Decoupled: the ranks that run forwards, or those that run backwards.
struct DecoupledSide {
  int tensor = 0;     // Tensor-parallel size; 0: that of the plan.
  int instances = 1;  // Pipelines of this side; each takes its share of the micro-batches in turn.
  int group = 0;      // Of the cluster's machines.
};
struct DecoupledPlan {
  DecoupledSide forward, backward;
  // A backward rank gets all that the forward keeps; else the stage's input, and runs it again.
  bool ship_activations = false;
  // Share of the micro-batches whose weight gradients the forward ranks work out.
  double weight_share = 0;
  bool balance_weights = false;  // Finds the share with the shortest step that fits.
};

enum class ExpertDispatcher { AllToAll, AllGather, DeepEp };

struct Plan {
  int tensor = 1;
  int pipeline = 1;
  int model_chunks = 1;  // v: chunks a rank.
  int context = 1;
  int expert = 1;
  int expert_tensor = 0;  // 0: same as `tensor` for Megatron, 1 otherwise (see resolved_…).
  int data = 1;           // Attention data-parallel size = GPUs / (t·p·c).
  std::int64_t micro_batch = 1;   // Sequences.
  std::int64_t global_batch = 1;  // Sequences.
  bool sequence_parallel = false;
  int zero_stage = 0;
  RecomputeKind recompute = RecomputeKind::None;
  int recompute_layers = 0;  // Full: first n layers of a stage; 0 = all.
  Precision precision = Precision::Bf16;
  ScheduleKind schedule = ScheduleKind::OneForwardOneBackward;
  int issue_depth = 2;
  int receive_slots = 0;  // Of a channel to a rank, see model::Message; 0: no limit.
  // What a rank holds at once where its policy decides: activations, one a (micro-batch, chunk),
  // the same number in every world; 0: as many as memory allows.
  int live_activations = 0;
  std::string order_file;
  std::vector<std::vector<std::string>> orders;  // What the order file holds, by rank.
  std::string policy_library;                    // UserPolicy: path of the shared library.
  DecoupledPlan decoupled;                       // Decoupled only.
  ExpertDispatcher dispatcher = ExpertDispatcher::AllToAll;
  double expert_capacity_imbalance = 1.0;  // Heaviest rank's tokens over the mean.

  // Layers of every virtual stage in model order (p·v entries), empty for even. Embedding and head
  // can be placed as if they were layers: see the flags.
  std::vector<int> layers_per_virtual_stage;
  bool embedding_as_layer = false;
  bool head_as_layer = false;
  // Found by cost before the plan is used: see sim/mixed/auto_split.h.
  bool layers_by_cost = false;
  bool micro_batches_by_cost = false;

  // Clusters of several kinds of machines. Empty: the same everywhere.
  std::vector<int> tensor_per_stage;                    // p entries; `tensor` is the largest.
  std::vector<std::int64_t> micro_batches_per_replica;  // `data` entries.
  std::vector<Precision> precision_per_group;           // One a group of the cluster's machines.

  // Overlap switches as resolved from the software stack and the user.
  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;
  bool overlap_tensor_parallel = false;
  bool overlap_p2p = false;
  bool fp32_parameters = false;  // Params in fp32 (report 8 of the cases).
  std::string rank_order = "tp-cp-ep-dp-pp";

  int stage_tensor(int stage) const {
    return tensor_per_stage.empty() ? tensor : tensor_per_stage[static_cast<std::size_t>(stage)];
  }
  int gpus() const {
    if (schedule == ScheduleKind::Decoupled) {
      return pipeline * context * data *
             (side_ranks(decoupled.forward) + side_ranks(decoupled.backward));
    }
    int tensor_ranks = tensor * pipeline;
    if (!tensor_per_stage.empty()) {
      tensor_ranks = 0;
      for (const int t : tensor_per_stage) tensor_ranks += t;
    }
    return tensor_ranks * context * data;
  }
  int side_tensor(const DecoupledSide& side) const {
    return side.tensor > 0 ? side.tensor : tensor;
  }
  int side_ranks(const DecoupledSide& side) const { return side_tensor(side) * side.instances; }
  int effective_expert_tensor() const { return expert_tensor > 0 ? expert_tensor : tensor; }
  // Replicas of one expert shard: world / (etp · ep · pp).
  int expert_data() const { return gpus() / (effective_expert_tensor() * expert * pipeline); }
  // Of a replica when all have the same.
  std::int64_t num_micro_batches() const { return global_batch / (micro_batch * data); }
  std::int64_t replica_micro_batches(int replica) const {
    return micro_batches_per_replica.empty()
               ? num_micro_batches()
               : micro_batches_per_replica[static_cast<std::size_t>(replica)];
  }
  Precision group_precision(int group) const {
    return precision_per_group.empty() ? precision
                                       : precision_per_group[static_cast<std::size_t>(group)];
  }
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PLAN_H_
