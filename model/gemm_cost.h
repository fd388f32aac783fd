// Device time of one matrix product. The formula: the library picks the tile and the split of K
// that finish first; a tile costs its K steps plus a prologue and epilogue, tiles run in waves over
// the multiprocessors at the sustained (power-limited) rate, and no product beats the memory
// system. Near measured shapes a smooth correction, learnt from the residuals of a table, is
// applied and fades to 1 away from them. Arithmetic only; callable from any thread.
#ifndef MEGATWIN_MODEL_GEMM_COST_H_
#define MEGATWIN_MODEL_GEMM_COST_H_

#include "model/gpu_profile.h"
#include "model/hardware.h"
#include "model/micro_op.h"
#include "model/units.h"

namespace megatwin::model {

enum class CostBound { Tensor, Memory, Wave, Launch };

std::string_view name_of(CostBound bound);

struct GemmCost {
  Seconds time;         // Device time, without the gap to the next kernel.
  Seconds tensor_time;  // If tiles filled every multiprocessor at the sustained rate.
  Seconds memory_time;  // If nothing but its bytes counted.
  CostBound bound = CostBound::Tensor;
  int tile_m = 0, tile_n = 0, split = 1;  // What the formula picked.
};

// FLOP of all `batch` products: 2·m·n·k·batch.
Flop gemm_flop(const GemmShape& shape);

// Operands read once and the result written once (read too when accumulating), all `batch` of them.
Bytes gemm_bytes(const GemmShape& shape);

// Rate constants of the operand format; a format the GPU has no tensor cores for runs at the next
// wider one's (fp8 and fp4 as bf16, bf16 as fp16, then fp32). Where the profile has none so wide:
// the widest it has, which add_unmeasured_rates() leaves to parts without a data-sheet rate.
const GemmRate& gemm_rate(const GpuProfile& profile, DataType type);

// Multiprocessors of the GPU; where its data sheet does not say, those of the measured part.
int multiprocessors(const Gpu& gpu, const GpuProfile& profile);

// Formula alone.
GemmCost gemm_formula(const GemmShape& shape, const Gpu& gpu, const GpuProfile& profile);

// Formula times the correction of the measured table.
GemmCost gemm_cost(const GemmShape& shape, const Gpu& gpu, const GpuProfile& profile);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_GEMM_COST_H_
