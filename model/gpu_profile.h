// What kernels reach on one GPU type: sustained rates, tile and wave behaviour, launch costs, link
// efficiencies, each fitted on that GPU's own microbenchmarks (docs/constants.md). Read from
// scenarios/profiles/*.yaml by scenarios/gpu_profile_reader.h, or derived from the data sheet by
// derived_profile.h. Never holds anything about a framework or a data source. Plain data; once
// filled, prepare() builds the look-up tables that compute_cost.h reads.
#ifndef MEGATWIN_MODEL_GPU_PROFILE_H_
#define MEGATWIN_MODEL_GPU_PROFILE_H_

#include <map>
#include <string>
#include <vector>

#include "model/micro_op.h"
#include "model/units.h"

namespace megatwin::model {

// One measured product, for the table that corrects the formula near known shapes.
struct MeasuredGemm {
  GemmShape shape;
  Seconds time;  // As a back-to-back microbenchmark prints it, launched from Python.
};

struct MeasuredAttention {
  AttentionShape shape;  // `backward` false; both times are given.
  Seconds forward, backward;
};

// Tensor-core products of one operand format; the formula is in gemm_cost.h.
struct GemmRate {
  FlopPerSecond sustained;    // Large shapes, power-limited, warm, 128 × 256 tiles.
  double depth_overhead = 0;  // Extra K steps that a tile costs: prologue and epilogue.
  double wave_share = 1;  // 1: whole waves are paid for; 0: a last, partly filled wave costs its
                          // part only, as when the library picks among many tiles.
  double half_tile_efficiency = 1;      // Rate of 128 × 128 tiles over 128 × 256.
  double quarter_tile_efficiency = 1;   // … of 128 × 64, 64 × 128, and so on.
  double eighth_tile_efficiency = 0.5;  // … of 64 × 64.
  double stream_factor = 1;             // Memory rate of a product over a fused stream.
  Seconds split_cost;                   // Of splitting K over thread blocks (and their reduction).
  Seconds ramp;                         // Filling and draining the machine, once a kernel.
  double data_gradient_factor = 1;      // Time factor of NN over TN, and
  double weight_gradient_factor = 1;    // of NT.
  double accumulate_factor = 1;         // Time factor of adding into an fp32 result.
  double grouped_factor = 1;            // Time factor of a grouped product over equal plain ones.
  Seconds grouped_cost;                 // Extra time of each group.
  // Time factors of products whose blocks are scaled in software, see GemmScaling.
  double weight_blocks_factor = 1, row_blocks_factor = 1;
};

// Fused attention of one kernel family; the formula is in attention_cost.h.
struct AttentionRate {
  FlopPerSecond forward, backward;  // Long sequences, head size 128.
  double forward_half_length = 0;   // Keys at half rate: s/(s + half).
  double backward_half_length = 0;
  double causal_half_factor = 1;      // Half length of causal kernels over full ones …
  double backward_causal_factor = 1;  // … and in the backward pass.
  double head_dim_64_factor = 1;      // Rate factor at head size 64 …
  double head_dim_96_factor = 1;      // … 96,
  double head_dim_192_factor = 1;     // 192 …
  double head_dim_256_factor = 1;     // … and 256, relative to 128.
  double backward_64_factor = 1;      // The same in the backward pass.
  double backward_96_factor = 1;
  double backward_192_factor = 1;
  double backward_256_factor = 1;
  double padding_factor = 1;            // Further factor of head sizes that are no multiple of 32.
  Seconds forward_ramp, backward_ramp;  // Once a call.
  double query_tile = 128;              // Query rows a thread block owns …
  double backward_tile = 128;           // … and key rows in the backward pass.
  double wave_share = 0;                // As in GemmRate …
  double backward_wave_share = 0;       // … and in the backward pass.
};

struct MemoryRate {
  BytesPerSecond stream;   // Large copies, read + write.
  double fused_share = 1;  // Rate of fused norm, activation and optimizer kernels over it.
  Seconds ramp;            // Filling and draining, once a kernel.
};

// Host time of a call launched alone from Python: the floor of a microbenchmark, never of a step
// whose launches run ahead of the device.
struct EagerFloor {
  Seconds element_wise, gemm, gemm_fp8, grouped_gemm, attention_forward, attention_backward;
  double split_factor = 1;  // A product split along K launches a second kernel.
  std::map<CollectiveKind, Seconds> collective;
  Seconds one_way_send;
  // Rate of PyTorch's own eager kernels over the stream, and what a norm costs beside it.
  double gelu_share = 1, layer_norm_share = 1, rms_norm_share = 1;
  Seconds norm_ramp;
};

// Measured large-message behaviour of one collective: busbw(S) = limit / (1 + (half/S)^exponent).
struct BandwidthRamp {
  double efficiency = 0;  // Limit over the link bandwidth of one direction; 0: not measured.
  Bytes half_size;        // S at which half of it is reached.
  double exponent = 1;
};

// Rows of a measured table as the correction sees them: logarithms and residuals, by columns.
struct CorrectionTable {
  std::vector<float> x, y, z;   // Natural logarithms of M, N, K (or batch·heads, s, d).
  std::vector<float> residual;  // ln(measured / formula).
  std::vector<int> family;      // Layout, or causal flag and direction.
};

// Data sheet of the part that a profile was measured on, for scaling it to a sibling.
struct MeasuredPart {
  double num_sms = 0;
  FlopPerSecond peak_half, peak_fp8, peak_fp4;  // Dense fp16/bf16, fp8, fp4.
  BytesPerSecond memory_bandwidth;
  Watts power_max;
};

struct GpuProfile {
  std::string gpu_name;
  MeasuredPart measured_on;
  std::map<DataType, GemmRate> gemm;
  std::map<AttentionKernel, AttentionRate> attention;
  MemoryRate memory;
  double long_run_share = 1;  // Product rate in minutes of training over that of a benchmark.
  Seconds kernel_gap;         // Device time between dependent kernels of one stream.
  Seconds host_launch;        // Host time a kernel costs when launched from Python.
  EagerFloor eager;
  // Times of kernels between the large products of a step over their times alone, when the chip is
  // at its power limit; and what Adam computes, as seconds a parameter beside its memory traffic.
  double gemm_in_step = 1, attention_in_step = 1;
  Seconds adam_per_parameter;
  // Adding a product into an fp32 result costs read and written bytes that the main loop cannot
  // hide in full: the share is 1/(1 + K/accumulate_hidden_depth).
  double accumulate_hidden_depth = 8192;
  // Time factors of 16-bit products with rows that start off 16-byte boundaries: on 4 or 8 bytes,
  // and on 2.
  double unaligned_factor = 1, odd_factor = 1;
  // Standard deviation of the speed of equal parts; a synchronous step waits for the slowest.
  double silicon_spread = 0;
  double communication_sm_slowdown = 0;  // Compute rate lost while a collective runs beside it.
  BandwidthRamp nvlink_ring, nvlink_nvls, nvlink_gather, nvlink_all_to_all, nvlink_send;
  double nic_efficiency = 0.9;  // Of the data-sheet rate, large messages.
  // Switches of `--without`: what each of them is worth.
  bool wave_quantisation = true;  // False: partly filled waves are free.
  bool memory_bound = true;       // False: a product never waits for memory.
  bool corrections = true;        // False: the formula alone, without the measured table.

  std::vector<MeasuredGemm> measured_gemms;
  std::vector<MeasuredAttention> measured_attentions;
  std::map<DataType, CorrectionTable> gemm_corrections;  // Filled by prepare().
  CorrectionTable attention_forward_corrections;         // Filled by prepare().
  CorrectionTable attention_backward_corrections;        // Filled by prepare().

  std::map<std::string, std::string> sources;  // Constant → machine, date, file, residual.
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_GPU_PROFILE_H_
