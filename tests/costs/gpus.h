// Data-sheet values of the GPUs that the cost tests price, without the catalogue's reader.
#ifndef MEGATWIN_TESTS_COSTS_GPUS_H_
#define MEGATWIN_TESTS_COSTS_GPUS_H_

#include "model/hardware.h"

namespace megatwin::tests {

inline model::Gpu h200() {
  model::Gpu gpu;
  gpu.name = "H200-SXM-141GB";
  gpu.architecture = model::GpuArchitecture::Hopper;
  gpu.num_sms = 132;
  gpu.peak = {.fp32 = {67e12}, .tf32 = {494.5e12}, .fp16 = {989e12}, .bf16 = {989e12},
              .fp8 = {1979e12}};
  gpu.memory_bandwidth = {4.8e12};
  gpu.nvlink_per_direction = {450e9};
  gpu.pcie_per_direction = {63e9};
  gpu.power_max = {700};
  return gpu;
}

inline model::Gpu a100() {
  model::Gpu gpu;
  gpu.name = "A100-SXM4-80GB";
  gpu.architecture = model::GpuArchitecture::Ampere;
  gpu.num_sms = 108;
  gpu.peak = {.fp32 = {19.5e12}, .tf32 = {156e12}, .fp16 = {312e12}, .bf16 = {312e12}};
  gpu.memory_bandwidth = {2.039e12};
  gpu.nvlink_per_direction = {300e9};
  gpu.pcie_per_direction = {31e9};
  gpu.power_max = {400};
  return gpu;
}

inline model::Gpu a100_pcie() {
  model::Gpu gpu = a100();
  gpu.name = "A100-PCIe-80GB";
  gpu.memory_bandwidth = {1.935e12};
  gpu.nvlink_per_direction = {};
  gpu.power_max = {300};
  return gpu;
}

inline model::Gpu v100() {
  model::Gpu gpu;
  gpu.name = "V100-SXM2-32GB";
  gpu.architecture = model::GpuArchitecture::Volta;
  gpu.num_sms = 80;
  gpu.peak = {.fp32 = {15.7e12}, .fp16 = {125e12}};
  gpu.memory_bandwidth = {900e9};
  gpu.nvlink_per_direction = {150e9};
  gpu.pcie_per_direction = {16e9};
  gpu.power_max = {300};
  return gpu;
}

inline model::Gpu gh200() {
  model::Gpu gpu = h200();
  gpu.name = "GH200-120GB";
  gpu.memory_bandwidth = {4e12};
  gpu.power_max = {900};
  return gpu;
}

inline model::Gpu b200() {
  model::Gpu gpu;
  gpu.name = "B200-SXM-180GB";
  gpu.architecture = model::GpuArchitecture::Blackwell;
  gpu.num_sms = 148;
  gpu.peak = {.fp32 = {80e12}, .tf32 = {1125e12}, .fp16 = {2250e12}, .bf16 = {2250e12},
              .fp8 = {4500e12}, .fp4 = {9000e12}};
  gpu.memory_bandwidth = {8e12};
  gpu.nvlink_per_direction = {900e9};
  gpu.pcie_per_direction = {63e9};
  gpu.power_max = {1000};
  return gpu;
}

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_COSTS_GPUS_H_
