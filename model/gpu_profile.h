// What kernels reach on one GPU type: sustained rates, tiles, launch costs, link efficiencies, each
// fitted on that GPU's own microbenchmarks (docs/constants.md). Read from
// scenarios/profiles/*.yaml. Never holds anything about a framework or a data source.
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
  Seconds time;
};

struct MeasuredAttention {
  AttentionShape shape;  // `backward` false; both times are given.
  Seconds forward, backward;
};

// Tensor-core products of one operand format: t = max(work / rate, bytes / bandwidth) + launch.
struct GemmRate {
  FlopPerSecond sustained;  // Large shapes, power-limited, warm.
  double k_half = 0;        // Depth K at which the main loop reaches half its rate: K/(K + k_half).
  double weight_gradient_factor = 1;  // Time factor of NT with fp32 accumulation, and
  double data_gradient_factor = 1;    // of NN, over TN.
  double grouped_factor = 1;  // Time factor of a grouped product over a plain one of equal work.
};

struct AttentionRate {
  FlopPerSecond forward, backward;  // Long sequences, head size 128.
  double forward_half_length = 0;   // s at half rate: s/(s + half).
  double backward_half_length = 0;
  double head_dim_64_factor = 1;  // Rate factor at head size 64 …
  double head_dim_96_factor = 1;  // … and 96, relative to 128.
  double head_dim_256_factor = 1;
};

struct GpuProfile {
  std::string gpu_name;
  std::map<DataType, GemmRate> gemm;
  std::map<AttentionKernel, AttentionRate> attention;
  BytesPerSecond memory_stream;  // Large fused element-wise kernels, read + write.
  Bytes memory_half_size;        // Traffic at which a kernel reaches half of it.
  Seconds kernel_gap;            // Device time between dependent kernels of one stream.
  Seconds host_launch;           // Host time a kernel costs when launched from Python.
  int gemm_tile_m = 128, gemm_tile_n = 256;
  double communication_sm_slowdown = 0;  // Compute rate lost while a collective runs beside it.
  double nvlink_efficiency_ring = 0;     // Large-message bus bandwidth over link bandwidth.
  double nvlink_efficiency_nvls = 0;
  double nic_efficiency = 0;
  std::vector<MeasuredGemm> measured_gemms;
  std::vector<MeasuredAttention> measured_attentions;
  std::map<std::string, std::string> sources;  // Constant → machine, date, file, residual.
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_GPU_PROFILE_H_
