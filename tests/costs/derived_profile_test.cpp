#include "model/derived_profile.h"

#include <gtest/gtest.h>

#include "model/gemm_cost.h"
#include "scenarios/gpu_profile_reader.h"
#include "scenarios/hardware_catalogue.h"
#include "tests/costs/gpus.h"

namespace megatwin::model {
namespace {

// 500 W instead of 700 W at the same peak: √(5/7) = 0.845. A part with more power than it can use
// stops at the boost clock.
TEST(DerivedProfile, PowerFactor) {
  EXPECT_NEAR(power_factor(500.0 / 700, 1), 0.845, 0.001);
  EXPECT_EQ(power_factor(1, 1), 1);
  EXPECT_EQ(power_factor(4, 1), 1.12);
}

// H100 SXM is the H200's chip: the same product rates, less memory bandwidth.
TEST(DerivedProfile, H100FromH200) {
  Gpu gpu = tests::h200();
  gpu.name = "H100-SXM5-80GB";
  gpu.memory_bandwidth = {3.35e12};
  const GpuProfile h100 = scenarios::gpu_profile(gpu).value();
  const GpuProfile h200 = scenarios::gpu_profile(tests::h200()).value();
  EXPECT_EQ(gemm_rate(h100, DataType::Bf16).sustained.value,
            gemm_rate(h200, DataType::Bf16).sustained.value);
  EXPECT_NEAR(ratio(h100.memory.stream / h200.memory.stream), 3.35 / 4.8, 1e-12);
  EXPECT_FALSE(h100.gemm_corrections.empty());
}

// The part of torchtitan's rows: same chip at 500 W and 2.4 TB/s.
TEST(DerivedProfile, LowPowerPart) {
  Gpu gpu = tests::h200();
  gpu.name = "H100-SXM5-96GB-500W";
  gpu.power_max = {500};
  const GpuProfile profile = scenarios::gpu_profile(gpu).value();
  const GpuProfile h200 = scenarios::gpu_profile(tests::h200()).value();
  EXPECT_NEAR(gemm_rate(profile, DataType::Bf16).sustained.value /
                  gemm_rate(h200, DataType::Bf16).sustained.value,
              0.845, 0.001);
}

// GB300: the data sheet that we have names no multiprocessors; those of the sibling are taken.
TEST(DerivedProfile, UnknownMultiprocessors) {
  Gpu gpu = tests::b200();
  gpu.name = "B300-SXM";
  gpu.num_sms = 0;
  const GpuProfile profile = scenarios::gpu_profile(gpu).value();
  EXPECT_EQ(multiprocessors(gpu, profile), 148);
  const GemmShape shape{.m = 8192, .n = 8192, .k = 8192};
  EXPECT_GT(gemm_flop(shape).value / gemm_cost(shape, gpu, profile).time.value, 1000e12);
}

// Products in fp32 reach part of their own peak, and are never faster than 16-bit ones, on every
// GPU of the catalogue.
TEST(DerivedProfile, Fp32ProductsKeepToTheirPeak) {
  for (const auto& [name, gpu] : scenarios::shipped_hardware().gpus) {
    if (gpu.peak.fp32.value <= 0) continue;
    const GpuProfile profile = scenarios::gpu_profile(gpu).value();
    GemmShape shape{.m = 8192, .n = 8192, .k = 8192, .type = DataType::Fp32};
    const Seconds wide = gemm_cost(shape, gpu, profile).time;
    const double reached = ratio(gemm_flop(shape) / wide / gpu.peak.fp32);
    EXPECT_LT(reached, 0.8) << name;
    EXPECT_GT(reached, 0.4) << name;
    shape.type = DataType::Fp16;
    EXPECT_LT(gemm_cost(shape, gpu, profile).time, wide) << name;
  }
}

// Any architecture gives a usable profile that says what it was made of, formats it lacks fall
// back.
TEST(DerivedProfile, EveryArchitecture) {
  for (const GpuArchitecture architecture :
       {GpuArchitecture::Volta, GpuArchitecture::Ampere, GpuArchitecture::Ada,
        GpuArchitecture::Hopper, GpuArchitecture::Blackwell, GpuArchitecture::Cdna3,
        GpuArchitecture::Other}) {
    Gpu gpu;
    gpu.name = "mine";
    gpu.architecture = architecture;
    gpu.num_sms = 100;
    gpu.peak.fp16 = {200e12};
    gpu.memory_bandwidth = {1e12};
    gpu.power_max = {300};
    const auto profile = scenarios::gpu_profile(gpu);
    ASSERT_TRUE(profile.has_value());
    EXPECT_TRUE(profile->sources.contains("derived"));
    const GemmShape shape{.m = 4096, .n = 4096, .k = 4096, .type = DataType::Fp8};
    const double rate = gemm_flop(shape).value / gemm_cost(shape, gpu, *profile).time.value;
    EXPECT_GT(rate, 40e12);
    EXPECT_LT(rate, 200e12);
  }
}

// A part with nothing but fp32: products at their share of its peak, attention at the sibling's
// share of the same, so that an A100 of 312 TFLOP/s of fp32 has the A100's attention.
TEST(DerivedProfile, OfNothingButFp32) {
  Gpu gpu;
  gpu.name = "mine";
  gpu.num_sms = 108;
  gpu.peak.fp32 = {312e12};
  gpu.memory_bandwidth = {1.6e12};
  EXPECT_EQ(attention_peak(gpu).value, 312e12);
  const GpuProfile profile = scenarios::gpu_profile(gpu).value();
  const GemmShape shape{.m = 8192, .n = 8192, .k = 8192, .type = DataType::Fp32};
  const double reached =
      ratio(gemm_flop(shape) / gemm_cost(shape, gpu, profile).time / gpu.peak.fp32);
  EXPECT_GT(reached, 0.4);
  EXPECT_LT(reached, 0.8);
  Gpu half = gpu;
  half.peak.fp16 = half.peak.bf16 = {312e12};
  const GpuProfile sibling = scenarios::gpu_profile(half).value();
  ASSERT_FALSE(profile.attention.empty());
  for (const auto& [kernel, rate] : profile.attention) {
    EXPECT_EQ(rate.forward.value, sibling.attention.at(kernel).forward.value);
  }
}

}  // namespace
}  // namespace megatwin::model
