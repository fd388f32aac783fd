// What one micro-op costs on the device: products and fused attention by their own models, every
// other kernel by the bytes it moves. Pure functions of plain data; callable from any thread.
// Collectives are priced by collective_cost.h.
#ifndef MEGATWIN_MODEL_COMPUTE_COST_H_
#define MEGATWIN_MODEL_COMPUTE_COST_H_

#include "model/attention_cost.h"
#include "model/gemm_cost.h"
#include "model/gpu_profile.h"
#include "model/hardware.h"
#include "model/micro_op.h"
#include "model/units.h"

namespace megatwin::model {

struct OpCost {
  Seconds time;                         // With the gaps between its kernels.
  CostBound bound = CostBound::Tensor;  // What decided.
  double efficiency = 0;                // Lower bound by FLOP and bytes over `time`, at the data
                                        // sheet's rates.
};

// Device time of one repetition (op.count is ignored), without the host's launch cost, with the gap
// that each of its kernels leaves. Requires: op.kind is not Collective.
Seconds compute_time(const MicroOp& op, const Gpu& gpu, const GpuProfile& profile);
OpCost explain_compute(const MicroOp& op, const Gpu& gpu, const GpuProfile& profile);

// Time of a memory-bound kernel that moves `bytes`, without a gap.
Seconds memory_bound_time(Bytes bytes, const GpuProfile& profile);

// What a benchmark prints that launches the operation back to back from Python: the larger of
// device and host time. `host_slowdown`: launch cost of that host over the profile's.
Seconds benchmark_time(const MicroOp& op, const Gpu& gpu, const GpuProfile& profile,
                       double host_slowdown = 1);

// The host's part of it: what launching the operation from Python costs.
Seconds host_time(const MicroOp& op, const Gpu& gpu, const GpuProfile& profile);

// Fills the correction tables from the measured rows. Call once after the constants are set.
void prepare(GpuProfile& profile, const Gpu& gpu);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_COMPUTE_COST_H_
