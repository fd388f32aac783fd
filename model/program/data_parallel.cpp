#include "model/program/data_parallel.h"

#include <algorithm>

#include "model/collective_cost.h"
#include "model/compute_cost.h"
#include "model/layer_split.h"
#include "model/numbers.h"
#include "model/program/linear_layers.h"
#include "model/program/op_list.h"
#include "model/quantisation.h"
#include "model/state_memory.h"

namespace megatwin::model {
namespace {

bool reduces_in_16_bits(const Job& job) {
  switch (job.software.framework) {
    case Framework::Megatron2020:
    case Framework::Megatron2021:
      return state_scheme(job.plan.precision, job.software) == StateScheme::MegatronFp16;
    case Framework::MegatronDeepspeed:
    case Framework::DeepspeedZero3:
    case Framework::PytorchCompile:
      return job.plan.precision != Precision::AmpBf16;
    case Framework::Fsdp1:
      return job.plan.precision == Precision::Bf16Pure;
    case Framework::Megatwin:
    case Framework::MegatronCore:
    case Framework::Megatron2022:
    case Framework::Fsdp2:
    case Framework::Maxtext:
    case Framework::Paxml:
      return false;
  }
  return false;
}

// What ZeRO stage 3 gathers by itself of a chunk: a layer; embedding, final norm and head.
std::pair<ChunkContent, ChunkContent> layer_and_root(const ChunkContent& content) {
  ChunkContent one_layer, root;
  (content.moe_layers > 0 ? one_layer.moe_layers : one_layer.dense_layers) = 1;
  root.embedding = content.embedding;
  root.head = content.head;
  return {one_layer, root};
}

// Of a unit that is gathered tensor by tensor: eight tensors of a layer carry its weight; the small
// ones cost a latency each.
constexpr int kTensors = 12, kMatrices = 4;
std::pair<RankParameters, RankParameters> tensors_of(const RankParameters& unit) {
  RankParameters part = unit;
  part.dense /= kMatrices;
  part.expert /= kMatrices;
  return {part, {.dense = 4096}};
}

// Bytes of a parameter's states on the ranks that own them.
StateBytes state_bytes(const Job& job) {
  const StateScheme scheme = state_scheme(job.plan.precision, job.software);
  StateBytes bytes = state_bytes_per_parameter(scheme, 0, 1);
  if (job.plan.fp32_parameters) bytes.parameter = 4_B;
  return bytes;
}

}  // namespace

bool has_table_at_both_ends(const Transformer& transformer) {
  return transformer.tied_embeddings || transformer.num_mtp_layers > 0;
}

GradientReduction gradient_reduction(const Job& job) {
  const bool sharded = job.plan.zero_stage >= 1 && job.software.distributed_optimizer;
  const bool scattered = sharded || job.plan.zero_stage >= 2;
  return {scattered ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce,
          Bytes{reduces_in_16_bits(job) ? 2.0 : 4.0}};
}

StateLinks state_links(const Job& job) {
  StateLinks links{.data = group_topology(job, GroupKind::Data)};
  if (has_table_at_both_ends(job.transformer) && job.plan.pipeline > 1) {
    links.ends = hop_topology(job, StageSites(job.plan, job.cluster), {0}, job.plan.pipeline - 1);
  }
  return links;
}

// A bucket leaves as soon as its layer's gradient is there: all but the last can hide behind the
// rest of the chunk's backward pass, which they slow.
Seconds exposed_part(const OverlappedTraffic& pass) {
  if (!pass.overlapped) return pass.traffic;
  const double share = 1 - 1 / pass.layers;
  const Seconds hidden{std::min(pass.traffic.value * share, pass.compute.value * share)};
  return pass.traffic - hidden + pass.slowdown * hidden;
}

DataParallelTraffic::DataParallelTraffic(const Job& job, const PricedEffects& effects)
    : DataParallelTraffic(job, effects, state_links(job)) {}

DataParallelTraffic::DataParallelTraffic(const Job& job, const PricedEffects& effects,
                                         const StateLinks& links)
    : job_(job),
      effects_(effects),
      dense_group_(links.data),
      expert_group_(group_topology(job, GroupKind::ExpertData)),
      ends_(links.ends),
      table_at_both_ends_(has_table_at_both_ends(job.transformer)) {
  gradient_bytes_ = gradient_reduction(job).per_parameter.value;
  if (job.plan.precision == Precision::Fp32) parameter_bytes_ = 4;
  const int last = job.plan.pipeline * job.plan.model_chunks - 1;
  ends_on_one_rank_ = stage_of_virtual_stage(job.plan, last) == 0;
}

WeightSharding DataParallelTraffic::sharding() const {
  return {.tensor = job_.plan.tensor,
          .expert = job_.plan.expert,
          .expert_tensor = job_.plan.effective_expert_tensor(),
          .vocab_divisible_by = vocabulary_unit(job_.software)};
}

RankParameters DataParallelTraffic::chunk_parameters(const ChunkContent& content) const {
  const Transformer& model = job_.transformer;
  StageContents stage;
  // Layers of one kind are alike: any representative of the kind will do.
  std::int64_t dense_layer = -1, moe_layer = -1;
  for (std::int64_t layer = 0; layer < model.num_layers; ++layer) {
    (model.is_moe_layer(layer) ? moe_layer : dense_layer) = layer;
  }
  stage.layers.insert(stage.layers.end(), content.dense_layers, dense_layer);
  stage.layers.insert(stage.layers.end(), content.moe_layers, moe_layer);
  stage.has_embedding = content.embedding;
  stage.has_head = content.head;
  stage.has_mtp = content.mtp_layers > 0;
  RankParameters parameters = rank_parameters(model, stage, sharding());
  if (table_at_both_ends_ && ends_on_one_rank_ && content.head && !content.embedding) {
    // The chunk with the embedding, on the same rank, has the table.
    const std::int64_t table = token_table(model, sharding());
    parameters.embedding -= table;
    parameters.dense -= table;
  }
  if (!job_.software.shards_head && job_.plan.tensor > 1) {
    // Embedding and head are whole on every tensor rank.
    parameters.dense += (job_.plan.tensor - 1) * parameters.embedding;
    parameters.embedding *= job_.plan.tensor;
  }
  return parameters;
}

Bytes state_per_parameter(const Job& job) {
  const StateBytes bytes = state_bytes(job);
  return bytes.total();
}

RankParameters DataParallelTraffic::stage_parameters(
    const std::vector<ChunkContent>& contents) const {
  RankParameters sum;
  for (const ChunkContent& content : contents) {
    const RankParameters chunk = chunk_parameters(content);
    sum.dense += chunk.dense;
    sum.expert += chunk.expert;
    sum.embedding += chunk.embedding;
  }
  return sum;
}

Seconds DataParallelTraffic::gather_time(const RankParameters& parameters) const {
  const Bytes dense{as_double(parameters.dense) * parameter_bytes_};
  const Bytes expert{as_double(parameters.expert) * parameter_bytes_};
  constexpr auto kGather = CollectiveKind::AllGather;
  return shared_time(kGather, dense, dense_group_, shares_[GroupKind::Data]) +
         shared_time(kGather, expert, expert_group_, shares_[GroupKind::ExpertData]);
}

Seconds DataParallelTraffic::reduce_time(const RankParameters& parameters) const {
  const CollectiveKind kind = gradient_reduction(job_).kind;
  const Bytes dense{as_double(parameters.dense) * gradient_bytes_};
  const Bytes expert{as_double(parameters.expert) * gradient_bytes_};
  return shared_time(kind, dense, dense_group_, shares_[GroupKind::Data]) +
         shared_time(kind, expert, expert_group_, shares_[GroupKind::ExpertData]);
}

std::vector<std::pair<RankParameters, double>> DataParallelTraffic::units(
    const ChunkContent& content) const {
  if (job_.plan.zero_stage < 3) return {{chunk_parameters(content), 1}};
  const auto [layer, root] = layer_and_root(content);
  std::vector<std::pair<RankParameters, double>> units;
  const auto add = [&](const RankParameters& unit, double count) {
    if (!job_.software.gathers_by_tensor) return units.emplace_back(unit, count), void();
    const auto [matrix, vector] = tensors_of(unit);
    units.emplace_back(matrix, kMatrices * count);
    units.emplace_back(vector, (kTensors - kMatrices) * count);
  };
  add(chunk_parameters(layer), content.layers());
  add(chunk_parameters(root), 1);
  return units;
}

std::vector<StateCall> DataParallelTraffic::calls(const ChunkContent& content) const {
  std::vector<StateCall> calls;
  const CollectiveKind reduction = gradient_reduction(job_).kind;
  for (const auto& unit : units(content)) {
    const double count = unit.second;
    const auto add = [&](GroupKind group, std::int64_t number) {
      if (number <= 0) return;
      const double n = as_double(number);
      calls.push_back({group, reduction, Bytes{n * gradient_bytes_}, count});
      if (job_.plan.zero_stage < 1) return;
      calls.push_back({group, CollectiveKind::AllGather, Bytes{n * parameter_bytes_}, count});
    };
    add(GroupKind::Data, unit.first.dense);
    add(GroupKind::ExpertData, unit.first.expert);
  }
  return calls;
}

void DataParallelTraffic::price(const ChunkContent& content, PricedChunk& chunk) const {
  if (!effects_.data_parallel) return;
  const RankParameters parameters = chunk_parameters(content);
  const double layers = std::max(1, content.layers());
  if (job_.plan.zero_stage >= 3) {
    price_sharded(content, chunk);
    return;
  }
  chunk.reduce = reduce_time(parameters);
  if (job_.plan.zero_stage >= 1) chunk.gather = gather_time(parameters);
  const double slowdown = job_.profile.communication_sm_slowdown;
  const auto exposed = [&](Seconds pass_traffic, Seconds compute, bool overlapped) {
    return exposed_part({pass_traffic, compute, layers, slowdown, overlapped});
  };
  const Seconds reduce_exposed =
      exposed(chunk.reduce, chunk.backward.duration, job_.plan.overlap_grad_reduce);
  // ZeRO stage 2 keeps no whole gradient between micro-batches: each one reduces.
  (job_.plan.zero_stage == 2 ? chunk.sharded_backward : chunk.reduce_exposed) = reduce_exposed;
  chunk.gather_exposed =
      exposed(chunk.gather, chunk.forward.duration, job_.plan.overlap_param_gather);
}

// ZeRO stage 3: every layer is gathered before its forward and before its backward pass, its
// gradient scattered after, in each micro-batch; one layer is fetched ahead. Embedding, final norm
// and head are a unit of their own: gathered once and kept, reduced when nothing is left to hide
// it.
void DataParallelTraffic::price_sharded(const ChunkContent& content, PricedChunk& chunk) const {
  const auto [one_layer, root] = layer_and_root(content);
  const RankParameters layer = chunk_parameters(one_layer), rest = chunk_parameters(root);
  const UnitTraffic unit = unit_traffic(layer), root_unit = unit_traffic(rest);
  const double layers = content.layers();
  chunk.gather = layers * unit.gather + root_unit.gather;
  chunk.reduce = layers * unit.reduce + root_unit.reduce;
  if (job_.software.gathers_by_tensor) {
    // DeepSpeed of 2021 gathers parameter by parameter and waits for each; with recomputation a
    // layer is released after its repeated forward and gathered once more for its backward.
    const double gathers = job_.plan.recompute == RecomputeKind::Full ? 2 : 1;
    chunk.sharded_forward = layers * unit.gather + root_unit.gather;
    chunk.sharded_backward = layers * (gathers * unit.gather + unit.reduce) + root_unit.reduce;
    return;
  }
  if (job_.plan.pipeline > 1) {
    // Gathered once a step and reduced once: like replicas whose parameters are fetched first.
    chunk.gather_exposed = chunk.gather;
    chunk.reduce_exposed = chunk.reduce;
    return;
  }
  const double slowdown = job_.profile.communication_sm_slowdown;
  const double depth = std::max(1.0, layers);
  const auto stalled = [&](Seconds traffic, Seconds compute) {
    const Seconds hidden{std::min(traffic.value, compute.value)};
    return traffic - hidden + slowdown * hidden;
  };
  const Seconds forward = chunk.forward.duration / depth + unit.copy_in + unit.copy_out;
  const Seconds backward = chunk.backward.duration / depth + 2 * (unit.copy_in + unit.copy_out);
  chunk.sharded_forward = root_unit.gather + unit.gather +
                          (layers - 1) * stalled(unit.gather, forward) +
                          layers * (unit.copy_in + unit.copy_out);
  chunk.sharded_backward = root_unit.reduce + unit.reduce + unit.gather +
                           (layers - 1) * stalled(unit.gather + unit.reduce, backward) +
                           2 * layers * (unit.copy_in + unit.copy_out);
}

// Gather and reduction of one unit of parameters, and the kernels that pack and unpack its buffers.
DataParallelTraffic::UnitTraffic DataParallelTraffic::unit_traffic(
    const RankParameters& parameters) const {
  UnitTraffic traffic;
  const double total = as_double(parameters.total());
  if (job_.software.gathers_by_tensor) {
    const auto [part, vector] = tensors_of(parameters);
    traffic.gather = kMatrices * gather_time(part) + (kTensors - kMatrices) * gather_time(vector);
    traffic.reduce = kMatrices * reduce_time(part) + (kTensors - kMatrices) * reduce_time(vector);
    return traffic;
  }
  traffic.gather = gather_time(parameters);
  traffic.reduce = reduce_time(parameters);
  if (!effects_.memory_bound) return traffic;
  const BytesPerSecond stream = job_.profile.memory.stream;
  // Shards are cast and packed, gathered tensors copied out: read and written once each.
  traffic.copy_out = Bytes{2 * parameter_bytes_ * total} / stream;
  traffic.copy_in = Bytes{gradient_bytes_ * total / 2} / stream;
  return traffic;
}

// Before the optimizer the first and the last stage add up their gradients of a shared table.
// Source: Megatron-LM, core/distributed/finalize_model_grads.py: the whole gradient, after the
// data-parallel reduction, beside nothing.
void DataParallelTraffic::price_table_exchange(const std::vector<ChunkContent>& contents,
                                               PricedStage& stage) const {
  const auto any = [&](bool ChunkContent::*part) {
    return std::any_of(contents.begin(), contents.end(),
                       [&](const ChunkContent& content) { return content.*part; });
  };
  const bool at_an_end = any(&ChunkContent::embedding) || any(&ChunkContent::head);
  if (!table_at_both_ends_ || ends_on_one_rank_ || !at_an_end) return;
  const double table = as_double(token_table(job_.transformer, sharding()));
  OpList ops(1);
  ops.collective("embedding.exchange", CollectiveKind::AllReduce, GroupKind::Pipeline,
                 table * gradient_bytes_);
  append(stage.optimizer_ops, ops.take());
  if (!effects_.data_parallel) return;
  stage.table_exchange =
      collective_time(CollectiveKind::AllReduce, stage.optimizer_ops.back().bytes, ends_).time;
  stage.optimizer_exposed += stage.table_exchange;
}

void DataParallelTraffic::price_optimizer(const LoweringInput& input, const TaskPricer& pricer,
                                          const std::vector<ChunkContent>& contents,
                                          PricedStage& stage) const {
  const Plan& plan = job_.plan;
  const double replicas = plan.data * plan.context;
  const double expert_replicas = std::max(1, plan.expert_data());
  const bool sharded = plan.zero_stage >= 1;
  OptimizerShard shard;
  shard.parameters = stage.parameters.total();
  shard.owned = static_cast<std::int64_t>(
      as_double(stage.parameters.dense) / (sharded ? replicas : 1) +
      as_double(stage.parameters.expert) / (sharded ? expert_replicas : 1));
  for (const ChunkContent& content : contents) shard.linear += quantised_weights(input, content);
  stage.optimizer_ops = lower_optimizer(input, shard);
  for (const MicroOp& op : stage.optimizer_ops) stage.optimizer += op.count * pricer.time_of(op);
  if (effects_.memory_bound) {
    stage.optimizer += as_double(shard.owned) * job_.profile.adam_per_parameter;
  }
  price_table_exchange(contents, stage);
}

void DataParallelTraffic::fill_memory(const RankParameters& parameters,
                                      const std::vector<ChunkContent>& contents,
                                      StageCost& cost) const {
  const Plan& plan = job_.plan;
  const StateBytes bytes = state_bytes(job_);
  const double dense = as_double(parameters.dense), expert = as_double(parameters.expert);
  const double replicas = plan.data * plan.context,
               expert_replicas = std::max(1, plan.expert_data());
  const auto sharded = [&](int from_stage) {
    return plan.zero_stage >= from_stage ? dense / replicas + expert / expert_replicas
                                         : dense + expert;
  };
  cost.optimizer_state = sharded(1) * bytes.optimizer;
  cost.gradients = sharded(2) * bytes.gradient;
  cost.parameters = sharded(3) * bytes.parameter;
  // With one micro-batch, gradients grow while activations shrink: the peak is before them. The
  // buckets of DistributedDataParallel hold them from step to step.
  const bool buckets = plan.data > 1 && plan.zero_stage == 0;
  if (job_.software.lazy_gradients && plan.num_micro_batches() == 1 && !buckets) {
    cost.gradients = {};
  }
  // Autocast keeps its 16-bit copies of the weights for the backward pass.
  if (plan.precision == Precision::AmpBf16 && plan.zero_stage < 3) {
    cost.buffers += Bytes{2 * (dense + expert)};
  }
  // Quantised weights that live from step to step, in every direction that products read.
  const LayerSizes sizes(lowering_input(job_));
  if (const Quantisation& recipe = sizes.quantisation; recipe.on && recipe.keeps_weights) {
    std::int64_t linear = 0;
    for (const ChunkContent& content : contents) {
      linear += quantised_weights(lowering_input(job_), content);
    }
    cost.buffers += cast_traffic(recipe, as_double(linear), OperandRole::Weight).written;
  }
  // Megatron-LM of 2020 flattens all gradients into one buffer to reduce them.
  if (job_.software.framework == Framework::Megatron2020 && plan.data > 1) {
    cost.buffers += Bytes{gradient_bytes_ * (dense + expert)};
  }
  const bool last = !contents.empty() && contents.back().head;
  if (last && job_.software.keeps_pipeline_outputs && plan.pipeline > 1) {
    const double tokens = as_double(plan.micro_batch * job_.transformer.sequence_length);
    const Bytes outputs{as_double(plan.num_micro_batches()) * tokens *
                        as_double(job_.transformer.vocab_size) * 2 /
                        (job_.software.shards_head ? plan.tensor : 1) / plan.context};
    cost.buffers += outputs;
    // torch.distributed.pipelining returns them concatenated: a second copy.
    cost.step_end = outputs;
  }
  if (plan.zero_stage >= 3) {
    // Two layers gathered at a time, and one full gradient before it is scattered.
    ChunkContent one_layer;
    const bool moe = !contents.empty() && contents.front().moe_layers > 0;
    (moe ? one_layer.moe_layers : one_layer.dense_layers) = 1;
    const double layer = as_double(chunk_parameters(one_layer).total());
    double root = 0;
    for (const ChunkContent& content : contents) {
      root +=
          as_double(chunk_parameters({.embedding = content.embedding, .head = content.head}).dense);
    }
    cost.buffers +=
        Bytes{layer * (2 * parameter_bytes_ + gradient_bytes_) + root * parameter_bytes_};
    // Under a pipeline the gathered parameters and whole gradients stay until the last micro-batch,
    // or every micro-batch would gather and scatter again.
    if (plan.pipeline > 1)
      cost.buffers += Bytes{(dense + expert) * (parameter_bytes_ + gradient_bytes_)};
  }
}

}  // namespace megatwin::model
