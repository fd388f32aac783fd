#include "model/compute_cost.h"

#include <algorithm>
#include <cmath>

#include "model/assert.h"
#include "model/correction.h"

namespace megatwin::model {
namespace {

// A measured time shorter than this many host floors tells nothing of the device: the host's cost
// itself drifts by half over a run.
constexpr double kFloorsToTrust = 1.6;
// Residuals beyond this are clock states of one measurement, not a property of the shape.
constexpr double kResidualMax = 0.10;

void add_residual(CorrectionTable& table, const CorrectionPoint& point, double measured,
                  double formula) {
  add_row(table, point, std::clamp(std::log(measured / formula), -kResidualMax, kResidualMax));
}

OpCost product(const MicroOp& op, const Gpu& gpu, const GpuProfile& profile) {
  const GemmCost cost = gemm_cost(op.gemm, gpu, profile);
  return {cost.time, cost.bound, 0};
}

OpCost attention(const MicroOp& op, const Gpu& gpu, const GpuProfile& profile) {
  const AttentionCost cost = attention_cost(op.attention, gpu, profile);
  return {cost.time, cost.bound, 0};
}

OpCost streamed(const MicroOp& op, const GpuProfile& profile) {
  const Bytes bytes = op.read + op.written;
  const int kernels = std::max(op.kernels, 1);
  // Each kernel moves its share and fills the machine anew.
  const Seconds one = memory_bound_time(bytes / kernels, profile);
  return {kernels * one,
          one.value > 2 * profile.memory.ramp.value ? CostBound::Memory : CostBound::Launch, 0};
}

// Cost in a benchmark, with the gaps; efficiency not filled.
OpCost device_cost(const MicroOp& op, const Gpu& gpu, const GpuProfile& profile) {
  MEGATWIN_ASSERT(op.kind != MicroOpKind::Collective, "not a compute operation: ", op.name);
  OpCost cost;
  switch (op.kind) {
    case MicroOpKind::Gemm:
      cost = product(op, gpu, profile);
      break;
    case MicroOpKind::Attention:
      cost = attention(op, gpu, profile);
      break;
    case MicroOpKind::MemoryBound:
    case MicroOpKind::Collective:
      cost = streamed(op, profile);
      break;
  }
  cost.time += static_cast<double>(std::max(op.kernels, 0)) * profile.kernel_gap;
  return cost;
}

// Data-sheet lower bound of the operation.
Seconds lower_bound(const MicroOp& op, const Gpu& gpu) {
  Flop flop = op.flop;
  DataType type = DataType::Bf16;
  Bytes bytes = op.read + op.written;
  if (op.kind == MicroOpKind::Gemm) {
    flop = gemm_flop(op.gemm);
    type = op.gemm.type;
    bytes = gemm_bytes(op.gemm);
  } else if (op.kind == MicroOpKind::Attention) {
    flop = attention_flop(op.attention);
    type = op.attention.type;
    bytes = attention_bytes(op.attention);
  } else {
    type = DataType::Fp32;
  }
  FlopPerSecond peak = gpu.peak_of(type);
  if (peak.value <= 0) peak = gpu.peak.fp16.value > 0 ? gpu.peak.fp16 : gpu.peak.fp32;
  const double tensor = peak.value > 0 ? flop.value / peak.value : 0;
  const double memory =
      gpu.memory_bandwidth.value > 0 ? bytes.value / gpu.memory_bandwidth.value : 0;
  return {std::max(tensor, memory)};
}

// (a^8 + b^8)^(1/8): the host launches ahead of the device except where both are close.
Seconds smooth_max(Seconds device, Seconds host) {
  const double larger = std::max(device.value, host.value);
  if (larger <= 0) return {};
  const double share = std::min(device.value, host.value) / larger;
  const double fourth = share * share * share * share;
  return {larger * std::sqrt(std::sqrt(std::sqrt(1 + fourth * fourth)))};
}

Seconds gemm_floor(const GemmShape& shape, const Gpu& gpu, const GpuProfile& profile) {
  if (shape.grouped) return profile.eager.grouped_gemm;
  if (shape.type == DataType::Fp8 || shape.type == DataType::Fp4) return profile.eager.gemm_fp8;
  const bool split = gemm_formula(shape, gpu, profile).split > 1;
  return (split ? profile.eager.split_factor : 1) * profile.eager.gemm;
}

}  // namespace

Seconds memory_bound_time(Bytes bytes, const GpuProfile& profile) {
  const MemoryRate& memory = profile.memory;
  return bytes / (memory.fused_share * memory.stream) + memory.ramp;
}

OpCost explain_compute(const MicroOp& op, const Gpu& gpu, const GpuProfile& profile) {
  OpCost cost = device_cost(op, gpu, profile);
  if (op.kind == MicroOpKind::Gemm && cost.bound != CostBound::Memory) {
    cost.time = cost.time / profile.long_run_share;
  }
  if (cost.time.value > 0) cost.efficiency = lower_bound(op, gpu).value / cost.time.value;
  return cost;
}

Seconds compute_time(const MicroOp& op, const Gpu& gpu, const GpuProfile& profile) {
  return explain_compute(op, gpu, profile).time;
}

Seconds host_time(const MicroOp& op, const Gpu& gpu, const GpuProfile& profile) {
  switch (op.kind) {
    case MicroOpKind::Gemm:
      return gemm_floor(op.gemm, gpu, profile);
    case MicroOpKind::Attention:
      return op.attention.backward ? profile.eager.attention_backward
                                   : profile.eager.attention_forward;
    case MicroOpKind::MemoryBound:
      return static_cast<double>(std::max(op.kernels, 1)) * profile.eager.element_wise;
    case MicroOpKind::Collective:
      break;
  }
  MEGATWIN_ASSERT(false, "collectives are priced by collective_cost.h");
  return {};
}

Seconds benchmark_time(const MicroOp& op, const Gpu& gpu, const GpuProfile& profile,
                       double host_slowdown) {
  return smooth_max(device_cost(op, gpu, profile).time,
                    host_slowdown * host_time(op, gpu, profile));
}

void prepare(GpuProfile& profile, const Gpu& gpu) {
  profile.gemm_corrections.clear();
  profile.attention_forward_corrections = {};
  profile.attention_backward_corrections = {};
  for (const MeasuredGemm& row : profile.measured_gemms) {
    const Seconds floor =
        row.shape.type == DataType::Fp8 ? profile.eager.gemm_fp8 : profile.eager.gemm;
    if (row.time.value < kFloorsToTrust * floor.value) continue;
    const double formula =
        gemm_formula(row.shape, gpu, profile).time.value + profile.kernel_gap.value;
    add_residual(profile.gemm_corrections[row.shape.type],
                 {.x = std::log(static_cast<float>(row.shape.m)),
                  .y = std::log(static_cast<float>(row.shape.n)),
                  .z = std::log(static_cast<float>(row.shape.k)),
                  .family = static_cast<int>(row.shape.layout)},
                 row.time.value, formula);
  }
  for (const MeasuredAttention& row : profile.measured_attentions) {
    const CorrectionPoint point{
        .x = std::log(static_cast<float>(row.shape.batch * row.shape.heads)),
        .y = std::log(static_cast<float>(row.shape.key_length)),
        .z = 3 * std::log(static_cast<float>(row.shape.qk_dim + row.shape.v_dim) / 2),
        .family = row.shape.causal ? 1 : 0};
    AttentionShape shape = row.shape;
    for (const bool backward : {false, true}) {
      shape.backward = backward;
      const Seconds measured = backward ? row.backward : row.forward;
      const Seconds floor =
          backward ? profile.eager.attention_backward : profile.eager.attention_forward;
      if (measured.value < kFloorsToTrust * floor.value) continue;
      const double formula =
          attention_formula(shape, gpu, profile).time.value + profile.kernel_gap.value;
      add_residual(
          backward ? profile.attention_backward_corrections : profile.attention_forward_corrections,
          point, measured.value, formula);
    }
  }
}

}  // namespace megatwin::model
