#include "model/program/task_price.h"

#include <algorithm>

#include "model/compute_cost.h"
#include "model/derived_profile.h"
#include "model/program/group_topology.h"
#include "model/stragglers.h"

namespace megatwin::model {
namespace {

bool taken(const MicroOp& op, TaskPart part) {
  switch (part) {
    case TaskPart::All:
      return true;
    case TaskPart::WithoutWeightGradient:
      return !op.weight_gradient;
    case TaskPart::WeightGradientOnly:
      return op.weight_gradient;
  }
  return true;
}

bool is_cast(const MicroOp& op) {
  return op.kind == MicroOpKind::MemoryBound && op.name.find("cast") != std::string_view::npos;
}

Seconds& exposed_of(TaskPrice& price, GroupKind group) {
  switch (group) {
    case GroupKind::Context:
      return price.exposed_cp;
    case GroupKind::Expert:
    case GroupKind::ExpertTensor:
    case GroupKind::ExpertData:
      return price.exposed_ep;
    case GroupKind::Tensor:
    case GroupKind::Data:
    case GroupKind::Pipeline:
      return price.exposed_tp;
  }
  return price.exposed_tp;
}

Seconds& compute_of(TaskPrice& price, const MicroOp& op) {
  if (op.recompute) return price.recompute;
  switch (op.kind) {
    case MicroOpKind::Gemm:
      return price.gemm;
    case MicroOpKind::Attention:
      return price.attention;
    case MicroOpKind::MemoryBound:
    case MicroOpKind::Collective:
      return price.memory_bound;
  }
  return price.memory_bound;
}

}  // namespace

TaskPrice operator+(const TaskPrice& a, const TaskPrice& b) {
  return {.duration = a.duration + b.duration,
          .gemm = a.gemm + b.gemm,
          .attention = a.attention + b.attention,
          .memory_bound = a.memory_bound + b.memory_bound,
          .recompute = a.recompute + b.recompute,
          .exposed_tp = a.exposed_tp + b.exposed_tp,
          .exposed_ep = a.exposed_ep + b.exposed_ep,
          .exposed_cp = a.exposed_cp + b.exposed_cp,
          .exposed_expert_tensor = a.exposed_expert_tensor + b.exposed_expert_tensor,
          .contention = a.contention + b.contention,
          .host_bound = a.host_bound + b.host_bound,
          .flop = a.flop + b.flop};
}

TaskPricer::TaskPricer(const Job& job, const PricedEffects& effects)
    : job_(job), effects_(effects), profile_(job.profile) {
  profile_.wave_quantisation = effects.wave;
  if (!effects.launch) {
    profile_.kernel_gap = {};
    profile_.host_launch = {};
  }
  for (const GroupKind kind : {GroupKind::Tensor, GroupKind::Context, GroupKind::Expert,
                               GroupKind::ExpertTensor, GroupKind::Data, GroupKind::ExpertData}) {
    groups_[kind] = group_topology(job, kind);
  }
  if (effects.spread) {
    // Every step waits for the slowest GPU: the expected maximum of n normal speeds.
    slowest_of_all_ =
        expected_max_normal({Seconds{1}, Seconds{profile_.silicon_spread}}, job.plan.gpus()).value;
  }
}

Seconds TaskPricer::collective(const MicroOp& op) const {
  const bool on = (op.group == GroupKind::Tensor && effects_.tensor_traffic) ||
                  ((op.group == GroupKind::Expert || op.group == GroupKind::ExpertTensor) &&
                   effects_.expert_traffic) ||
                  (op.group == GroupKind::Context && effects_.context_traffic);
  if (!on) return {};
  return shared_time(op.collective, op.bytes, groups_.at(op.group), shares_[op.group]);
}

Seconds TaskPricer::time_of(const MicroOp& op) const {
  const double slowest = op.kind == MicroOpKind::Collective ? 1.0 : slowest_of_all_;
  return slowest * on_mean_part(op);
}

Seconds TaskPricer::on_mean_part(const MicroOp& op) const {
  if (op.recompute && !effects_.recompute) return {};
  if (op.kind == MicroOpKind::Collective) return collective(op);
  if (op.kind == MicroOpKind::MemoryBound && !effects_.memory_bound) return {};
  if (is_cast(op) && !effects_.quantisation) return {};
  MicroOp priced = op;
  priced.gemm.accumulate_fp32 = false;  // Priced by accumulation().
  const Seconds alone = compute_time(priced, job_.cluster.groups.front().gpu, profile_);
  if (op.kind == MicroOpKind::Gemm && !effects_.wave) {
    return gemm_flop(op.gemm) / gemm_rate(profile_, op.gemm.type).sustained;
  }
  switch (op.kind) {
    case MicroOpKind::Gemm:
      return profile_.gemm_in_step * alone + accumulation(op.gemm);
    case MicroOpKind::Attention: {
      // No fused kernel computes in fp32: at the rate of its products instead.
      const Gpu& gpu = job_.cluster.groups.front().gpu;
      const double slower = op.attention.type == DataType::Fp32
                                ? ratio(attention_peak(gpu) / gpu.peak_of(DataType::Fp32))
                                : 1.0;
      return slower * profile_.attention_in_step * alone;
    }
    case MicroOpKind::MemoryBound:
    case MicroOpKind::Collective:
      break;
  }
  return alone;
}

// The fp32 result is read and written instead of written in 16 bits: 6 more bytes an element, of
// which a deep product hides a part.
Seconds TaskPricer::accumulation(const GemmShape& shape) const {
  if (!shape.accumulate_fp32 || !effects_.memory_bound) return {};
  const double elements = static_cast<double>(shape.batch) * static_cast<double>(shape.m) *
                          static_cast<double>(shape.n);
  const double shown = 1 / (1 + static_cast<double>(shape.k) / profile_.accumulate_hidden_depth);
  return shown * (Bytes{6 * elements} / profile_.memory.stream);
}

TaskPrice TaskPricer::price(const MicroOps& ops, TaskPart part) const {
  std::vector<const MicroOp*> run;
  run.reserve(ops.size());
  for (const MicroOp& op : ops) {
    if (taken(op, part)) run.push_back(&op);
  }
  std::vector<Seconds> time(run.size());
  for (std::size_t i = 0; i < run.size(); ++i) time[i] = time_of(*run[i]);

  TaskPrice price;
  double kernels = 0;
  Seconds hidden_expert;
  const double slowdown = profile_.communication_sm_slowdown;
  for (std::size_t i = 0; i < run.size(); ++i) {
    const MicroOp& op = *run[i];
    const double count = op.count;
    kernels += count * (op.host_launches > 0 ? op.host_launches : op.kernels);
    if (op.kind != MicroOpKind::Collective) {
      compute_of(price, op) += count * time[i];
      price.flop += count * op.flop;
      continue;
    }
    // The products that this collective runs beside.
    Seconds beside;
    double exposed_share = 1;
    if (op.chunked_overlap) {
      const bool gathers = op.collective == CollectiveKind::AllGather;
      // A cast may stand between a gather and its product.
      const bool cast_between = gathers && i + 1 < run.size() && is_cast(*run[i + 1]);
      const std::size_t neighbour = gathers ? i + (cast_between ? 2 : 1) : i - 1;
      if (neighbour < run.size() && run[neighbour]->kind == MicroOpKind::Gemm) {
        beside = time[neighbour];
      }
      exposed_share = 1.0 / job_.plan.tensor;  // The first chunk has nothing to hide behind.
    } else if (op.overlap_ops > 0) {
      for (std::size_t j = i + 1; j < run.size() && j <= i + op.overlap_ops; ++j) beside += time[j];
      exposed_share = 0;
    }
    if (op.group == GroupKind::Expert && job_.software.overlap_expert_parallel) {
      hidden_expert += count * time[i];
      continue;
    }
    const Seconds hideable = (1 - exposed_share) * time[i];
    const Seconds hidden{std::min(hideable.value, beside.value)};
    price.contention += count * slowdown * hidden;
    exposed_of(price, op.group) += count * (time[i] - hidden);
    if (op.group == GroupKind::ExpertTensor) {
      price.exposed_expert_tensor += count * (time[i] - hidden);
    }
  }
  // Dispatch and combine of one micro-batch run beside the compute of another.
  price.exposed_ep += Seconds{std::max(0.0, (hidden_expert - price.compute()).value)};
  const Seconds device = price.compute() + price.exposed_tp + price.exposed_ep + price.exposed_cp;
  if (job_.software.python_launch && !job_.software.cuda_graphs) {
    const Seconds host = kernels * job_.software.host_factor * profile_.host_launch;
    if (host > device) price.host_bound = host - device;
  }
  price.duration = device + price.host_bound;
  return price;
}

}  // namespace megatwin::model
