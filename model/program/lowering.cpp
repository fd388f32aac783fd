#include "model/program/lowering.h"

#include <algorithm>

#include "model/numbers.h"
#include "model/program/op_list.h"

namespace megatwin::model {
namespace {

// What the backward pass runs again of a layer's forward pass, before that layer's gradients.
MicroOps recomputed_ops(const LoweringInput& input, const MicroOps& forward) {
  switch (input.plan.recompute) {
    case RecomputeKind::None:
    case RecomputeKind::Selective:  // Placed beside the core attention by lower_attention().
      return {};
    case RecomputeKind::Full:
      return as_recompute(forward);
    case RecomputeKind::PerOp:
      break;
  }
  MicroOps again;
  for (MicroOp op : forward) {
    // torchtitan keeps attention, reduced outputs and every other matrix product.
    if (op.kind == MicroOpKind::Attention || op.name == kRingMerge) continue;
    if (op.kind == MicroOpKind::Collective && op.collective != CollectiveKind::AllGather) continue;
    if (op.kind == MicroOpKind::Gemm) {
      op.gemm.m = std::max<std::int64_t>(1, op.gemm.m / 2);
      op.flop = op.flop / 2;
      op.read = op.read / 2;
      op.written = op.written / 2;
    }
    again.push_back(op);
  }
  return as_recompute(again);
}

// Appends the layers of one kind, the first `recomputed` of which run forward again.
void lower_layers(const LoweringInput& input, const LayerSizes& sizes, int count, int recomputed,
                  bool moe, TaskOps& ops) {
  if (count == 0) return;
  OpList forward(count), backward(count), ffn_backward(count);
  lower_attention(input, sizes, forward, backward);
  if (moe) {
    lower_moe_ffn(input, sizes, forward, ffn_backward);
  } else {
    lower_dense_ffn(input, sizes, sizes.ffn, forward, ffn_backward);
  }
  MicroOps again = recomputed_ops(input, forward.ops());
  for (MicroOp& op : again) op.count = op.count / count * recomputed;
  append(ops.forward, forward.take());
  if (recomputed > 0) append(ops.backward, again);
  append(ops.backward, ffn_backward.take());
  append(ops.backward, backward.take());
}

void lower_embedding(const LoweringInput& input, const LayerSizes& sizes, TaskOps& ops) {
  OpList forward(1), backward(1);
  const double x = as_double(sizes.tokens * sizes.hidden) * sizes.element;
  forward.memory("embedding", x, x, sizes.tensor > 1 ? 4 : 1);
  if (input.transformer.position == PositionKind::Learned) {
    forward.memory("embedding.position", 2 * x, x, 2);
  }
  if (sizes.tensor > 1 && input.software.shards_head) {
    forward.collective(
        "embedding.reduce",
        sizes.sequence_parallel ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce,
        GroupKind::Tensor, x);
    if (sizes.sequence_parallel) {
      backward.collective("embedding.gather.backward", CollectiveKind::AllGather, GroupKind::Tensor,
                          x);
    }
  }
  if (input.software.dropout) forward.memory("embedding.dropout", x, 1.5 * x);
  // Sorted scatter-add of token gradients into the table.
  backward.memory("embedding.backward", 2 * x, 2 * x, 4);
  backward.mark_weight_gradient();
  append(ops.forward, forward.take());
  append(ops.backward, backward.take());
}

// Bytes a logit costs: cast to fp32, maximum, exponent, sum, gradient.
struct LossTraffic {
  double forward_read, forward_written, backward_read, backward_written;
  int kernels;
};
LossTraffic loss_traffic(const SoftwareStack& software) {
  if (software.fused_cross_entropy) return {6, 2, 2, 2, 4};
  const bool megatron = software.framework != Framework::Fsdp1 &&
                        software.framework != Framework::Fsdp2 &&
                        software.framework != Framework::PytorchCompile;
  if (megatron) return {22, 20, 8, 6, 12};
  return {10, 8, 10, 8, 5};
}

MicroOps loss_head_forward(const LoweringInput& input, const LayerSizes& sizes) {
  const std::int64_t T = sizes.tokens, h = sizes.hidden, V = sizes.vocab;
  const double x = as_double(sizes.tokens_sp * h) * sizes.element;
  const double logits = as_double(T * V);
  const LossTraffic traffic = loss_traffic(input.software);
  OpList ops(1);
  if (sizes.tensor > 1 && sizes.sequence_parallel && input.software.shards_head) {
    ops.collective("logits.gather", CollectiveKind::AllGather, GroupKind::Tensor,
                   as_double(T * h) * sizes.element);
  }
  ops.memory("final_norm", x, x);
  ops.gemm("logits", {.m = T, .n = V, .k = h, .type = base_type(input.plan.precision)});
  ops.memory("loss", traffic.forward_read * logits, traffic.forward_written * logits,
             traffic.kernels);
  if (sizes.tensor > 1 && input.software.shards_head) {
    ops.collective("loss.reduce", CollectiveKind::AllReduce, GroupKind::Tensor, 12 * as_double(T));
  }
  return ops.take();
}

MicroOps loss_head_backward(const LoweringInput& input, const LayerSizes& sizes) {
  const std::int64_t T = sizes.tokens, h = sizes.hidden, V = sizes.vocab;
  const double x = as_double(sizes.tokens_sp * h) * sizes.element;
  const double logits = as_double(T * V);
  const LossTraffic traffic = loss_traffic(input.software);
  const DataType type = base_type(input.plan.precision);
  OpList ops(1);
  ops.memory("loss.backward", traffic.backward_read * logits, traffic.backward_written * logits, 3);
  if (sizes.tensor > 1 && sizes.sequence_parallel && input.software.shards_head) {
    // The weight gradient needs the whole input again.
    ops.collective("logits.gather.backward", CollectiveKind::AllGather, GroupKind::Tensor,
                   as_double(T * h) * sizes.element);
    if (input.software.overlap_tp_backward_wgrad) ops.overlap_next(1);
  }
  ops.gemm("logits.dgrad",
           {.m = T, .n = h, .k = V, .type = type, .layout = GemmLayout::DataGradient});
  if (sizes.tensor > 1 && input.software.shards_head) {
    ops.collective(
        "logits.reduce.backward",
        sizes.sequence_parallel ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce,
        GroupKind::Tensor, as_double(T * h) * sizes.element);
    if (input.software.overlap_tp_backward_wgrad) ops.overlap_next(1);
  }
  ops.gemm("logits.wgrad", {.m = V,
                            .n = h,
                            .k = T,
                            .accumulate_fp32 = input.software.gradient_accumulation_fusion,
                            .type = type,
                            .layout = GemmLayout::WeightGradient});
  ops.memory("final_norm.backward", 2 * x, x, 2);
  return ops.take();
}

// A multi-token-prediction layer: norm both inputs, project 2h → h, one layer, its own logits.
void lower_mtp(const LoweringInput& input, const LayerSizes& sizes, int count, int recomputed,
               TaskOps& ops) {
  if (count == 0) return;
  OpList forward(count), backward(count);
  const DataType type = base_type(input.plan.precision);
  const std::int64_t T = sizes.tokens_sp, h = sizes.hidden;
  const double x = as_double(T * h) * sizes.element;
  forward.memory("mtp.norms", 3 * x, 4 * x, 3);
  forward.gemm("mtp.proj", {.m = T, .n = h, .k = 2 * h, .type = type});
  backward.gemm("mtp.proj.dgrad",
                {.m = T, .n = 2 * h, .k = h, .type = type, .layout = GemmLayout::DataGradient});
  backward.gemm("mtp.proj.wgrad",
                {.m = h, .n = 2 * h, .k = T, .type = type, .layout = GemmLayout::WeightGradient});
  backward.memory("mtp.norms.backward", 5 * x, 3 * x, 5);
  append(ops.forward, forward.take());
  lower_layers(input, sizes, count, recomputed, input.transformer.experts.has_value(), ops);
  for (int i = 0; i < count; ++i) append(ops.forward, loss_head_forward(input, sizes));
  for (int i = 0; i < count; ++i) append(ops.backward, loss_head_backward(input, sizes));
  append(ops.backward, backward.take());
}

}  // namespace

RecomputedLayers recomputed_layers(const Plan& plan, const ChunkContent& content) {
  if (plan.recompute != RecomputeKind::Full || plan.recompute_layers == 0) {
    return {content.dense_layers, content.moe_layers, content.mtp_layers};
  }
  int left = plan.recompute_layers;
  const auto take = [&left](int layers) {
    const int taken = std::min(layers, left);
    left -= taken;
    return taken;
  };
  RecomputedLayers layers;
  layers.dense = take(content.dense_layers);
  layers.moe = take(content.moe_layers);
  layers.mtp = take(content.mtp_layers);
  return layers;
}

std::int64_t tokens_per_rank(const LoweringInput& input) { return LayerSizes(input).tokens; }

Bytes pipeline_message(const LoweringInput& input) {
  const LayerSizes sizes(input);
  double elements = as_double(sizes.tokens_sp * sizes.hidden);
  if (!sizes.sequence_parallel && sizes.tensor > 1 && input.software.scatter_gather_p2p) {
    elements /= sizes.tensor;
  }
  return {elements * sizes.element};
}

LoweringInput lowering_input(const Job& job) {
  const GpuArchitecture architecture = job.cluster.groups.front().gpu.architecture;
  return {job.transformer, job.plan, job.software, architecture == GpuArchitecture::Blackwell};
}

TaskOps lower_chunk(const LoweringInput& input, const ChunkContent& content) {
  const LayerSizes sizes(input);
  TaskOps ops, embedding, head, dense, moe, mtp;
  if (content.embedding) lower_embedding(input, sizes, embedding);
  const RecomputedLayers recomputed = recomputed_layers(input.plan, content);
  lower_layers(input, sizes, content.dense_layers, recomputed.dense, false, dense);
  lower_layers(input, sizes, content.moe_layers, recomputed.moe, true, moe);
  lower_mtp(input, sizes, content.mtp_layers, recomputed.mtp, mtp);
  if (content.head) {
    head.forward = loss_head_forward(input, sizes);
    head.backward = loss_head_backward(input, sizes);
  }
  for (const TaskOps* part : {&embedding, &dense, &moe, &head, &mtp})
    append(ops.forward, part->forward);
  for (const TaskOps* part : {&mtp, &head, &moe, &dense, &embedding}) {
    append(ops.backward, part->backward);
  }
  return ops;
}

MicroOps lower_optimizer(const LoweringInput& input, const OptimizerShard& shard) {
  OpList ops(1);
  const double all = as_double(shard.parameters), owned = as_double(shard.owned);
  const bool pure = input.plan.precision == Precision::Bf16Pure;
  const bool old_megatron = input.software.framework == Framework::Megatron2020 ||
                            input.software.framework == Framework::Megatron2021 ||
                            input.software.framework == Framework::Megatron2022 ||
                            input.software.framework == Framework::MegatronDeepspeed ||
                            input.software.framework == Framework::DeepspeedZero3;
  if (pure) {
    ops.memory("adam", 8 * owned, 6 * owned, 4);
    return ops.take();
  }
  if (old_megatron) {
    // Zero the gradient buffer, copy gradients to fp32, look for overflow, norm, clip.
    ops.memory("gradients.zero", 0, 2 * all, 8);
    ops.memory("gradients.to_fp32", 2 * owned, 4 * owned, 8);
    ops.memory("gradients.check", 8 * owned, 4 * owned, 16);
  } else {
    ops.memory("gradients.zero", 0, 4 * (input.plan.zero_stage >= 2 ? owned : all), 2);
  }
  ops.memory("gradients.norm", 4 * owned, 0, 4);
  ops.memory("gradients.clip", 4 * owned, 4 * owned, 4);
  ops.memory("adam", 16 * owned, 12 * owned, 8);
  ops.memory("parameters.to_16_bit", 4 * owned, 2 * owned, 4);
  const Quantisation recipe = LayerSizes(input).quantisation;
  if (recipe.on && recipe.keeps_weights) {
    const CastTraffic cast = cast_traffic(recipe, as_double(shard.linear), OperandRole::Weight);
    ops.memory("weights.cast", cast.read.value, cast.written.value, cast.kernels);
  }
  return ops.take();
}

}  // namespace megatwin::model
