// Bytes that a parameter costs beside activations: the weight, its gradient, the optimizer's
// states, and how ZeRO or Megatron's distributed optimizer spread them. Also the buffers that NCCL
// allocates for a connection.
#ifndef MEGATWIN_MODEL_STATE_MEMORY_H_
#define MEGATWIN_MODEL_STATE_MEMORY_H_

#include "model/plan.h"
#include "model/software_stack.h"
#include "model/units.h"

namespace megatwin::model {

// Per parameter, on one rank.
struct StateBytes {
  Bytes parameter, gradient, optimizer;
  Bytes total() const { return parameter + gradient + optimizer; }
};

// How states are kept. Adam throughout; the optimizer's part holds the fp32 master copy if any.
enum class StateScheme {
  ZeroMixed,     // 2 + 2 + 12: 16-bit weights and gradients (ZeRO's baseline).
  MegatronBf16,  // 2 + 4 + 12: 16-bit weights, fp32 gradients; Megatron-LM's bf16.
  MegatronFp16,  // 2 + 2 + 16: fp16 gradients and an fp32 copy of them in the optimizer.
  Fp32,          // 4 + 4 + 8.
  Bf16Pure,      // 2 + 2 + 4: moments in 16 bits, no master copy.
};

// What a stack keeps for a plan's precision. Megatron-LM of 2020 and 2021 and Megatron-DeepSpeed:
// fp16 gradients and their fp32 copy; in bf16, and later, fp32 gradients.
// Source: Megatron-LM, arguments.py, accumulate_allreduce_grads_in_fp32: on with bf16, off with
// fp16.
StateScheme state_scheme(Precision precision, const SoftwareStack& software);

// Stage 0: all on every rank. 1: optimizer states over `shards` ranks; 2: gradients too; 3: weights
// too. Megatron's distributed optimizer is stage 1.
// Source: Rajbhandari et al., arXiv:1910.02054, figure 1; Megatron-LM, dist_optimizer.md.
StateBytes state_bytes_per_parameter(StateScheme scheme, int zero_stage, double shards);

// Buffers of one NCCL connection by protocol, from its default sizes (NCCL src/include/device.h).
// Low-latency lines hold 8 bytes of data and 8 of flags.
struct LowLatencyBuffer {
  double lines_per_thread = 8, threads = 512, steps = 8;
  Bytes line = 16_B;
};
struct LowLatency128Buffer {
  double elements_per_thread = 120, threads = 640, steps = 8;
  Bytes element = 8_B;
};
Bytes nccl_low_latency_buffer(const LowLatencyBuffer& buffer = {});
Bytes nccl_low_latency_128_buffer(const LowLatency128Buffer& buffer = {});
constexpr Bytes nccl_simple_buffer() { return 4_MiB; }

struct NcclBuffers {
  Bytes low_latency = nccl_low_latency_buffer();
  Bytes low_latency_128 = nccl_low_latency_128_buffer();
  Bytes simple = nccl_simple_buffer();
  Bytes total() const { return low_latency + low_latency_128 + simple; }
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_STATE_MEMORY_H_
