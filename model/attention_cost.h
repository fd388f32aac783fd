// Device time of one fused attention call. The formula: each thread block owns a tile of query rows
// of one head and walks its keys; blocks run in waves over the multiprocessors at a rate that rises
// with the number of keys, s/(s + half); causal masks halve the work but lengthen the ramp. Near
// measured shapes a smooth correction is applied as for products. Arithmetic only.
#ifndef MEGATWIN_MODEL_ATTENTION_COST_H_
#define MEGATWIN_MODEL_ATTENTION_COST_H_

#include "model/gemm_cost.h"
#include "model/gpu_profile.h"
#include "model/hardware.h"
#include "model/micro_op.h"
#include "model/units.h"

namespace megatwin::model {

struct AttentionCost {
  Seconds time;
  Seconds tensor_time;  // Executed FLOP at the rate of long sequences.
  Seconds memory_time;  // Q, K, V, O (and their gradients) once.
  CostBound bound = CostBound::Tensor;
};

// Keys that a query sees on average: all, half of them under a causal mask, at most the window.
double mean_visible_keys(const AttentionShape& shape);

// Executed FLOP: 2·b·h·s·keys·(d_qk + d_v) forward, 2.5 times that backward (five products for
// two).
Flop attention_flop(const AttentionShape& shape);

// Q, K, V and O in forward; those, their gradients and the row statistics in backward.
Bytes attention_bytes(const AttentionShape& shape);

// Rates of the kernel family; one that the profile lacks is replaced by the slower FlashAttention2,
// and by half the Cudnn rates where that is missing too. Requires: not Unfused (lowered to
// products and a softmax by the caller).
const AttentionRate& attention_rate(const GpuProfile& profile, AttentionKernel kernel);

AttentionCost attention_formula(const AttentionShape& shape, const Gpu& gpu,
                                const GpuProfile& profile);
AttentionCost attention_cost(const AttentionShape& shape, const Gpu& gpu,
                             const GpuProfile& profile);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_ATTENTION_COST_H_
