// The smallest priced unit: one kernel or collective of a known shape. A task is lowered to a list
// of these by one function (program/lowering.h); compute_cost.h and collective_cost.h price them,
// and the real engines launch them. Plain data.
#ifndef MEGATWIN_MODEL_MICRO_OP_H_
#define MEGATWIN_MODEL_MICRO_OP_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/data_type.h"
#include "model/software_stack.h"
#include "model/units.h"

namespace megatwin::model {

// Forward (TN), data gradient (NN), weight gradient (NT), in cuBLAS's column-major view.
enum class GemmLayout { Forward, DataGradient, WeightGradient };

// What shares a scale in the operands of an fp8 or fp4 product.
enum class GemmScaling {
  Uniform,       // The whole tensor, or blocks that the tensor cores scale themselves.
  WeightBlocks,  // 1 × 128 of one operand, 128 × 128 of the other: forward and data gradient …
  RowBlocks,     // … and 1 × 128 of both: weight gradient.
};

// out (M, N) = A (M, K) · B (K, N); `batch` independent products of that shape.
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1;        // Batched or grouped count.
  bool grouped = false;          // Experts: M is the mean of `batch` ragged groups.
  bool accumulate_fp32 = false;  // Weight gradient added into an fp32 buffer (beta = 1).
  DataType type = DataType::Bf16;
  GemmLayout layout = GemmLayout::Forward;
  GemmScaling scaling = GemmScaling::Uniform;
};

struct AttentionShape {
  std::int64_t batch = 0, heads = 0, key_value_heads = 0;
  std::int64_t query_length = 0, key_length = 0;
  std::int64_t qk_dim = 0, v_dim = 0;
  bool causal = true;
  std::int64_t window = 0;  // 0: none.
  bool backward = false;
  AttentionKernel kernel = AttentionKernel::Cudnn;
  DataType type = DataType::Bf16;
};

enum class CollectiveKind { AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, SendReceive };
enum class GroupKind { Tensor, Context, Expert, ExpertTensor, Data, ExpertData, Pipeline };

enum class MicroOpKind { Gemm, Attention, MemoryBound, Collective };

struct MicroOp {
  MicroOpKind kind = MicroOpKind::MemoryBound;
  std::string_view name;         // Static text: "qkv", "fc1.dgrad", "softmax", …
  int count = 1;                 // How often in the task (layers of the chunk).
  GemmShape gemm;                // kind == Gemm.
  AttentionShape attention;      // kind == Attention.
  Bytes read, written;           // Device memory traffic; for GEMM and attention the operands.
  Flop flop;                     // Executed, not model FLOP.
  int kernels = 1;               // Launches, each with its host and device overhead.
  int host_launches = 0;         // Calls of the host when they are not one a kernel; 0: `kernels`.
  bool weight_gradient = false;  // Belongs to BackwardWeight when backward is split.
  bool recompute = false;        // Repeats a forward op inside the backward pass.
  // kind == Collective: `bytes` is the size that nccl-tests would print (total of the group for
  // all-gather, reduce-scatter and all-to-all; per rank for the rest).
  CollectiveKind collective = CollectiveKind::AllReduce;
  GroupKind group = GroupKind::Tensor;
  Bytes bytes;
  // The next `overlap_ops` micro-ops may run while this collective does (0: exposed in full).
  int overlap_ops = 0;
  bool chunked_overlap = false;  // User-buffer GEMM overlap hides it behind its own GEMM.
};

using MicroOps = std::vector<MicroOp>;

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_MICRO_OP_H_
