#include "model/compute_cost.h"

#include <algorithm>
#include <cmath>

#include "model/assert.h"
#include "model/correction.h"

namespace megatwin::model {
namespace {

// A measured product shorter than this many host floors tells nothing of the device.
constexpr double kFloorsToTrust = 1.35;

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
  if (peak.value <= 0) peak = gpu.peak.fp16;
  const double tensor = peak.value > 0 ? flop.value / peak.value : 0;
  const double memory =
      gpu.memory_bandwidth.value > 0 ? bytes.value / gpu.memory_bandwidth.value : 0;
  return {std::max(tensor, memory)};
}

// (a^6 + b^6)^(1/6): the host launches ahead of the device except where both are close.
Seconds smooth_max(Seconds device, Seconds host) {
  const double a = device.value * device.value * device.value;
  const double b = host.value * host.value * host.value;
  return {std::cbrt(std::sqrt(a * a + b * b))};
}

Seconds host_floor(const MicroOp& op, const GpuProfile& profile) {
  switch (op.kind) {
    case MicroOpKind::Gemm:
      return op.gemm.grouped ? profile.eager.grouped_gemm + static_cast<double>(op.gemm.batch) *
                                                                profile.eager.grouped_gemm_per_group
                             : profile.eager.gemm;
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

}  // namespace

Seconds memory_bound_time(Bytes bytes, const GpuProfile& profile) {
  const MemoryRate& memory = profile.memory;
  double rate = memory.stream.value;
  if (bytes.value < memory.cache_resident.value) rate *= memory.cache_factor;
  return {bytes.value / rate + memory.ramp.value};
}

OpCost explain_compute(const MicroOp& op, const Gpu& gpu, const GpuProfile& profile) {
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
  if (cost.time.value > 0) cost.efficiency = lower_bound(op, gpu).value / cost.time.value;
  return cost;
}

Seconds compute_time(const MicroOp& op, const Gpu& gpu, const GpuProfile& profile) {
  return explain_compute(op, gpu, profile).time;
}

Seconds benchmark_time(const MicroOp& op, const Gpu& gpu, const GpuProfile& profile) {
  return smooth_max(compute_time(op, gpu, profile), host_floor(op, profile));
}

void prepare(GpuProfile& profile, const Gpu& gpu) {
  profile.gemm_corrections.clear();
  profile.attention_forward_corrections = {};
  profile.attention_backward_corrections = {};
  for (const MeasuredGemm& row : profile.measured_gemms) {
    if (row.time.value < kFloorsToTrust * profile.eager.gemm.value) continue;
    const double formula =
        gemm_formula(row.shape, gpu, profile).time.value + profile.kernel_gap.value;
    add_row(profile.gemm_corrections[row.shape.type],
            {.x = std::log(static_cast<float>(row.shape.m)),
             .y = std::log(static_cast<float>(row.shape.n)),
             .z = std::log(static_cast<float>(row.shape.k)),
             .family = static_cast<int>(row.shape.layout)},
            std::log(row.time.value / formula));
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
      add_row(backward ? profile.attention_backward_corrections
                       : profile.attention_forward_corrections,
              point, std::log(measured.value / formula));
    }
  }
}

}  // namespace megatwin::model
