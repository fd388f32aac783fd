#include "model/compute_cost.h"

#include <cmath>

#include <gtest/gtest.h>

#include "scenarios/gpu_profile_reader.h"
#include "tests/costs/gpus.h"

namespace megatwin::model {
namespace {

GpuProfile profile_of(const Gpu& gpu) { return scenarios::gpu_profile(gpu).value(); }

MicroOp gemm(std::int64_t m, std::int64_t n, std::int64_t k) {
  MicroOp op{.kind = MicroOpKind::Gemm, .name = "gemm"};
  op.gemm = {.m = m, .n = n, .k = k};
  return op;
}

MicroOp attention(std::int64_t s, bool causal, bool backward = false) {
  MicroOp op{.kind = MicroOpKind::Attention, .name = "attention"};
  op.attention = {.batch = 1,
                  .heads = 32,
                  .key_value_heads = 8,
                  .query_length = s,
                  .key_length = s,
                  .qk_dim = 128,
                  .v_dim = 128,
                  .causal = causal,
                  .backward = backward};
  return op;
}

// One profile by hand: 100 SMs at 1 TFLOP/s each, no overheads, free memory.
GpuProfile simple_profile() {
  GpuProfile profile;
  GemmRate rate;
  rate.sustained = {100e12};
  rate.wave_share = 1;
  rate.half_tile_efficiency = rate.quarter_tile_efficiency = rate.eighth_tile_efficiency = 0.01;
  rate.split_cost = {1};
  profile.gemm[DataType::Bf16] = rate;
  profile.memory.stream = {1e18};
  return profile;
}

Gpu simple_gpu() {
  Gpu gpu;
  gpu.num_sms = 100;
  gpu.peak.bf16 = {100e12};
  gpu.memory_bandwidth = {1e12};
  return gpu;
}

// 1,280 × 2,560 is 10 × 10 tiles of 128 × 256: one full wave of 100 SMs. K = 6,400:
// 2 · 128 · 256 · 6400 / 1e12 = 419.4304 us. One more row of tiles: a second wave, twice as long.
TEST(GemmCost, WavesByHand) {
  const GpuProfile profile = simple_profile();
  EXPECT_NEAR(compute_time(gemm(1280, 2560, 6400), simple_gpu(), profile).value, 419.4304e-6, 1e-9);
  EXPECT_NEAR(compute_time(gemm(1281, 2560, 6400), simple_gpu(), profile).value, 838.8608e-6, 1e-9);
  EXPECT_EQ(explain_compute(gemm(1281, 2560, 6400), simple_gpu(), profile).bound, CostBound::Wave);
  GpuProfile smooth = profile;
  smooth.wave_quantisation = false;
  EXPECT_LT(compute_time(gemm(1281, 2560, 6400), simple_gpu(), smooth).value, 500e-6);
}

// M = 8 rows of a 16,384² matrix: 512 MiB of weights decide, not 4.3 GFLOP.
// Rows of features that are read or written set the alignment: the features of either side, never
// the tokens. 16 bytes are 8 elements of 16 bits; 4 and 8 bytes cost one factor, 2 bytes another.
TEST(GemmCost, RowsOffSixteenBytesCostTheirFactor) {
  GpuProfile profile = simple_profile();
  profile.unaligned_factor = 3;
  profile.odd_factor = 5;
  const auto factor = [&](GemmLayout layout, std::int64_t m, std::int64_t n, std::int64_t k,
                          DataType type = DataType::Bf16) {
    MicroOp op = gemm(m, n, k);
    op.gemm.layout = layout;
    op.gemm.type = type;
    const double time = compute_time(op, simple_gpu(), profile).value;
    GpuProfile plain = simple_profile();
    return time / compute_time(op, simple_gpu(), plain).value;
  };
  for (const GemmLayout layout : {GemmLayout::Forward, GemmLayout::DataGradient}) {
    EXPECT_NEAR(factor(layout, 1280, 2560, 6400), 1, 1e-12);
    EXPECT_NEAR(factor(layout, 1279, 2560, 6400), 1, 1e-12);
    EXPECT_NEAR(factor(layout, 1280, 2568, 6400), 1, 1e-12);
    EXPECT_NEAR(factor(layout, 1280, 2564, 6400), 3, 1e-9);
    EXPECT_NEAR(factor(layout, 1280, 2560, 6402), 3, 1e-9);
    EXPECT_NEAR(factor(layout, 1280, 2560, 6401), 5, 1e-9);
    EXPECT_NEAR(factor(layout, 1280, 2561, 6404), 5, 1e-9);
  }
  EXPECT_NEAR(factor(GemmLayout::WeightGradient, 1280, 2560, 6401), 1, 1e-12);
  EXPECT_NEAR(factor(GemmLayout::WeightGradient, 1284, 2560, 6400), 3, 1e-9);
  EXPECT_NEAR(factor(GemmLayout::WeightGradient, 1280, 2561, 6400), 5, 1e-9);
}

// The H200's factors against what cuBLAS took there, 30 November 2026 (torch_formats.py): products
// of 8,192 × 4,100 × 4,096 and 8,192 × 4,097 × 4,096 in 990 and 2,849 us forward, 998 and 1,981
// backward; aligned 403 and 389.
TEST(GemmCost, UnalignedProductsOfTheH200) {
  const Gpu gpu = tests::h200();
  const GpuProfile profile = profile_of(gpu);
  const auto time = [&](GemmLayout layout, std::int64_t n, std::int64_t k) {
    MicroOp op = gemm(8192, n, k);
    op.gemm.layout = layout;
    return compute_time(op, gpu, profile).value * 1e6;
  };
  EXPECT_NEAR(time(GemmLayout::Forward, 4100, 4096) / 990, 1, 0.15);
  EXPECT_NEAR(time(GemmLayout::DataGradient, 4100, 4096) / 998, 1, 0.15);
  EXPECT_NEAR(time(GemmLayout::DataGradient, 4097, 4096) / 1981, 1, 0.15);
  EXPECT_GT(time(GemmLayout::Forward, 4097, 4096), 4 * time(GemmLayout::Forward, 4096, 4096));
}

TEST(GemmCost, ThinProductsAreMemoryBound) {
  const Gpu gpu = tests::h200();
  GpuProfile profile = profile_of(gpu);
  profile.corrections = false;
  const MicroOp op = gemm(8, 16384, 16384);
  EXPECT_EQ(explain_compute(op, gpu, profile).bound, CostBound::Memory);
  EXPECT_GT(compute_time(op, gpu, profile).value, 2.0 * 16384 * 16384 / 4.8e12);
  profile.memory_bound = false;
  EXPECT_LT(compute_time(op, gpu, profile).value, 2.0 * 16384 * 16384 / 4.8e12);
}

// Nothing beats the data sheet, and more work never takes less time.
TEST(ComputeCost, StaysAboveTheDataSheetAndGrows) {
  for (const Gpu& gpu : {tests::h200(), tests::a100(), tests::a100_pcie(), tests::v100(),
                         tests::gh200(), tests::b200()}) {
    GpuProfile profile = profile_of(gpu);
    profile.corrections = false;
    const DataType type = gpu.peak.bf16.value > 0 ? DataType::Bf16 : DataType::Fp16;
    for (const std::int64_t m : {1, 37, 128, 1000, 4096, 16384}) {
      for (const std::int64_t n : {64, 577, 4096, 28672}) {
        double last = 0;
        for (std::int64_t k = 64; k <= 32768; k *= 2) {
          MicroOp op = gemm(m, n, k);
          op.gemm.type = type;
          const OpCost cost = explain_compute(op, gpu, profile);
          EXPECT_GT(cost.time.value, last) << gpu.name << " " << m << " " << n << " " << k;
          EXPECT_LT(cost.efficiency, 1.0) << gpu.name << " " << m << " " << n << " " << k;
          EXPECT_TRUE(std::isfinite(cost.time.value));
          last = cost.time.value;
        }
      }
    }
    for (const bool backward : {false, true}) {
      double last = 0;
      for (std::int64_t s = 128; s <= 131072; s *= 2) {
        const OpCost cost = explain_compute(attention(s, true, backward), gpu, profile);
        EXPECT_GT(cost.time.value, last) << gpu.name << " s " << s;
        EXPECT_LT(cost.efficiency, 1.0) << gpu.name << " s " << s;
        last = cost.time.value;
      }
    }
  }
}

// 4 groups of 512 rows do the work of 2,048, no faster.
TEST(GemmCost, GroupedIsNotFasterThanPlain) {
  const Gpu gpu = tests::h200();
  const GpuProfile profile = profile_of(gpu);
  MicroOp grouped = gemm(512, 4096, 4096);
  grouped.gemm.batch = 4;
  grouped.gemm.grouped = true;
  EXPECT_GT(compute_time(grouped, gpu, profile).value,
            compute_time(gemm(2048, 4096, 4096), gpu, profile).value);
}

// The gap is paid by every kernel: three kernels of a third each cost two gaps and two ramps more.
TEST(ComputeCost, KernelsPayTheirGap) {
  const Gpu gpu = tests::h200();
  const GpuProfile profile = profile_of(gpu);
  MicroOp op{.kind = MicroOpKind::MemoryBound, .name = "norm", .read = {100e6}, .written = {100e6}};
  const double one = compute_time(op, gpu, profile).value;
  op.kernels = 3;
  EXPECT_NEAR(compute_time(op, gpu, profile).value - one,
              2 * (profile.kernel_gap + profile.memory.ramp).value, 1e-12);
}

// Causal attention of s keys sees (s + 1)/2 of them on average; a window caps that.
TEST(AttentionCost, VisibleKeys) {
  AttentionShape shape{.query_length = 8, .key_length = 8};
  EXPECT_EQ(mean_visible_keys(shape), 4.5);
  shape.causal = false;
  EXPECT_EQ(mean_visible_keys(shape), 8);
  shape.causal = true;
  shape.window = 2;  // 1, 2, 2, 2, 2, 2, 2, 2: mean 15/8.
  EXPECT_EQ(mean_visible_keys(shape), 15.0 / 8);
  shape.window = 0;
  shape.query_length = 2;  // Ring attention: the last two queries see 7 and 8 keys.
  EXPECT_EQ(mean_visible_keys(shape), 7.5);
}

// 4 · b · s² · h · d / 2 = 1,099,511,627,776 for b 1, s 8192, 64 heads of 128, but for the
// diagonal.
TEST(AttentionCost, FlopOfACausalMask) {
  AttentionShape shape{.batch = 1,
                       .heads = 64,
                       .key_value_heads = 64,
                       .query_length = 8192,
                       .key_length = 8192,
                       .qk_dim = 128,
                       .v_dim = 128};
  EXPECT_NEAR(attention_flop(shape).value / 1099511627776.0, 1, 2e-4);
  const double forward = attention_flop(shape).value;
  shape.backward = true;
  EXPECT_EQ(attention_flop(shape).value, 2.5 * forward);
}

// cuDNN's published causal rates on H200, 8k, 16k and 32k keys, 64 heads of 128: within 10 %.
TEST(AttentionCost, PublishedCudnnRates) {
  const Gpu gpu = tests::h200();
  const GpuProfile profile = profile_of(gpu);
  const double lengths[] = {8192, 16384, 32768};
  const double forward[] = {644, 673, 688}, backward[] = {541, 579, 581};
  for (int i = 0; i < 3; ++i) {
    for (const bool back : {false, true}) {
      MicroOp op = attention(static_cast<std::int64_t>(lengths[i]), true, back);
      op.attention.heads = 64;
      const double rate =
          attention_flop(op.attention).value / compute_time(op, gpu, profile).value / 1e12;
      EXPECT_NEAR(rate / (back ? backward[i] : forward[i]), 1, 0.12) << lengths[i] << back;
    }
  }
}

// FlashAttention-2 is slower than cuDNN on Hopper, the Triton kernel slower still.
TEST(AttentionCost, KernelFamiliesAreOrdered) {
  const Gpu gpu = tests::h200();
  const GpuProfile profile = profile_of(gpu);
  MicroOp op = attention(4096, true);
  const double cudnn = compute_time(op, gpu, profile).value;
  op.attention.kernel = AttentionKernel::FlashAttention2;
  const double flash = compute_time(op, gpu, profile).value;
  op.attention.kernel = AttentionKernel::FlashTriton;
  EXPECT_LT(cudnn, flash);
  EXPECT_LT(flash, compute_time(op, gpu, profile).value);
}

// A short product launched from Python takes the host's time, a long one its own.
TEST(ComputeCost, BenchmarksIncludeTheHost) {
  const Gpu gpu = tests::h200();
  const GpuProfile profile = profile_of(gpu);
  EXPECT_NEAR(benchmark_time(gemm(128, 128, 128), gpu, profile).value, profile.eager.gemm.value,
              0.2e-6);
  const MicroOp big = gemm(8192, 8192, 8192);
  EXPECT_NEAR(benchmark_time(big, gpu, profile).value / compute_time(big, gpu, profile).value,
              profile.long_run_share, 1e-6);
}

}  // namespace
}  // namespace megatwin::model
