#include "model/gemm_cost.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "model/assert.h"
#include "model/correction.h"

namespace megatwin::model {
namespace {

// Tiles that cuBLAS's families offer. Source: NVIDIA, "Matrix Multiplication Background",
// section 4.1, down to 64 × 64.
struct Tile {
  int m, n, size_class;  // 0: 128 × 256; each class halves the area.
};
constexpr std::array<Tile, 8> kTiles{{{128, 256, 0},
                                      {256, 128, 0},
                                      {128, 128, 1},
                                      {64, 256, 1},
                                      {256, 64, 1},
                                      {128, 64, 2},
                                      {64, 128, 2},
                                      {64, 64, 3}}};
constexpr std::array<int, 5> kSplits{1, 2, 4, 8, 16};
constexpr double kDepthStep = 64;         // K is worked off in slices of 64.
constexpr double kSplitDepthMin = 128;    // Shorter slices are not split further.
constexpr double kSplitOccupancyMax = 2;  // With more tiles per multiprocessor nothing is split.
constexpr CorrectionKernel kGemmKernel{.radius = 0.7f, .family_step = 0.3f, .shrinkage = 2.0f};

double ceil_div(std::int64_t value, int divisor) {
  const std::int64_t quotient = (value + divisor - 1) / divisor;
  return static_cast<double>(quotient);
}

double tile_efficiency(const GemmRate& rate, int size_class) {
  switch (size_class) {
    case 0:
      return 1;
    case 1:
      return rate.half_tile_efficiency;
    case 2:
      return rate.quarter_tile_efficiency;
    default:
      return rate.eighth_tile_efficiency;
  }
}

double layout_factor(const GemmRate& rate, const GemmShape& shape) {
  double factor = 1;
  if (shape.layout == GemmLayout::DataGradient) factor = rate.data_gradient_factor;
  if (shape.layout == GemmLayout::WeightGradient) factor = rate.weight_gradient_factor;
  if (shape.accumulate_fp32) factor *= rate.accumulate_factor;
  return factor;
}

// Bytes on which every row of the operands and of the result starts, up to 16. Products along rows
// and their gradients read and write rows of features; those of a weight have no other.
int row_alignment(const GemmShape& shape) {
  const bool weight = shape.layout == GemmLayout::WeightGradient;
  const std::int64_t lengths = shape.n | (weight ? shape.m : shape.k) | 16;
  const double bytes = size_of(shape.type).value * static_cast<double>(lengths & -lengths);
  return static_cast<int>(std::min(bytes, 16.0));
}

// Without 16-byte loads the library falls back to kernels of older tensor cores.
double alignment_factor(const GemmShape& shape, const GpuProfile& profile) {
  if (shape.type != DataType::Fp16 && shape.type != DataType::Bf16) return 1;
  const int alignment = row_alignment(shape);
  if (alignment >= 16) return 1;
  return alignment >= 4 ? profile.unaligned_factor : profile.odd_factor;
}

double scaling_factor(const GemmShape& shape, const GemmRate& rate) {
  switch (shape.scaling) {
    case GemmScaling::Uniform:
      return 1;
    case GemmScaling::WeightBlocks:
      return rate.weight_blocks_factor;
    case GemmScaling::RowBlocks:
      return rate.row_blocks_factor;
  }
  return 1;
}

// Waves that `occupancy` tiles per multiprocessor take: at least one; a share of the last, partly
// filled wave is lost.
double waves(double occupancy, const GemmRate& rate, bool quantised) {
  if (!quantised) return occupancy;
  const double whole = std::ceil(occupancy);
  return rate.wave_share * whole + (1 - rate.wave_share) * std::max(occupancy, 1.0);
}

struct TensorPick {
  double seconds = 1e30;
  double waves_lost = 0;  // Waves paid for over waves filled.
  Tile tile{};
  int split = 1;
};

// The tile and split of K that finish first.
TensorPick best_tile(const GemmShape& shape, int num_sms, const GpuProfile& profile,
                     const GemmRate& rate, double memory_rate) {
  TensorPick best;
  const double batch = static_cast<double>(shape.batch);
  const double result_traffic =
      4.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * batch;
  const double rate_per_sm = rate.sustained.value / num_sms;
  for (const Tile& tile : kTiles) {
    const double tiles = batch * ceil_div(shape.m, tile.m) * ceil_div(shape.n, tile.n);
    const double flop_per_k = 2.0 * tile.m * tile.n;
    const double tile_rate = rate_per_sm * tile_efficiency(rate, tile.size_class);
    for (const int split : kSplits) {
      const double depth =
          std::ceil(static_cast<double>(shape.k) / split / kDepthStep) * kDepthStep;
      if (split > 1 && (depth < kSplitDepthMin || shape.grouped)) break;
      if (split > 1 && tiles > kSplitOccupancyMax * num_sms) break;
      const double occupancy = tiles * split / num_sms;
      const double paid = waves(occupancy, rate, profile.wave_quantisation);
      double seconds = paid * flop_per_k * (depth + rate.depth_overhead) / tile_rate;
      if (split > 1) seconds += rate.split_cost.value + split * result_traffic / memory_rate;
      if (seconds < best.seconds) best = {seconds, paid / occupancy, tile, split};
    }
  }
  return best;
}

}  // namespace

std::string_view name_of(CostBound bound) {
  switch (bound) {
    case CostBound::Tensor:
      return "tensor";
    case CostBound::Memory:
      return "memory";
    case CostBound::Wave:
      return "wave";
    case CostBound::Launch:
      return "launch";
  }
  return "tensor";
}

Flop gemm_flop(const GemmShape& shape) {
  return {2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
          static_cast<double>(shape.k) * static_cast<double>(shape.batch)};
}

Bytes gemm_bytes(const GemmShape& shape) {
  const double m = static_cast<double>(shape.m), n = static_cast<double>(shape.n),
               k = static_cast<double>(shape.k), batch = static_cast<double>(shape.batch);
  const double operand = size_of(shape.type).value;
  const double result = shape.accumulate_fp32 ? 8 : std::max(operand, 2.0);
  return {batch * (operand * (m * k + n * k) + result * m * n)};
}

const GemmRate& gemm_rate(const GpuProfile& profile, DataType type) {
  constexpr std::array<DataType, 6> kOrder{DataType::Fp4,  DataType::Fp8,  DataType::Bf16,
                                           DataType::Fp16, DataType::Tf32, DataType::Fp32};
  auto position = std::find(kOrder.begin(), kOrder.end(), type);
  for (auto wider = position; wider != kOrder.end(); ++wider) {
    const auto found = profile.gemm.find(*wider);
    if (found != profile.gemm.end()) return found->second;
  }
  while (position != kOrder.begin()) {
    const auto found = profile.gemm.find(*--position);
    if (found != profile.gemm.end()) return found->second;
  }
  MEGATWIN_ASSERT(false, "profile without product rates: ", profile.gpu_name);
  return profile.gemm.begin()->second;
}

int multiprocessors(const Gpu& gpu, const GpuProfile& profile) {
  if (gpu.num_sms > 0) return gpu.num_sms;
  return std::max(static_cast<int>(profile.measured_on.num_sms), 1);
}

GemmCost gemm_formula(const GemmShape& shape, const Gpu& gpu, const GpuProfile& profile) {
  MEGATWIN_ASSERT(shape.m > 0 && shape.n > 0 && shape.k > 0 && shape.batch > 0, shape.m, " ",
                  shape.n, " ", shape.k, " ", shape.batch);
  const GemmRate& rate = gemm_rate(profile, shape.type);
  const double memory_rate = profile.memory.stream.value * rate.stream_factor;
  TensorPick pick = best_tile(shape, multiprocessors(gpu, profile), profile, rate, memory_rate);
  pick.seconds *= alignment_factor(shape, profile) * scaling_factor(shape, rate);
  GemmCost cost;
  cost.tensor_time = gemm_flop(shape) / rate.sustained;
  cost.memory_time = {gemm_bytes(shape).value / memory_rate};
  cost.tile_m = pick.tile.m;
  cost.tile_n = pick.tile.n;
  cost.split = pick.split;
  const double memory = profile.memory_bound ? cost.memory_time.value : 0;
  // A smooth maximum: near the ridge both limits are felt. (a⁴ + b⁴)^¼.
  const double square_tensor = pick.seconds * pick.seconds, square_memory = memory * memory;
  const double body =
      std::sqrt(std::sqrt(square_tensor * square_tensor + square_memory * square_memory));
  double seconds = body * layout_factor(rate, shape) + rate.ramp.value;
  if (shape.grouped) {
    seconds =
        seconds * rate.grouped_factor + static_cast<double>(shape.batch) * rate.grouped_cost.value;
  }
  cost.time = {seconds};
  cost.bound = memory > pick.seconds    ? CostBound::Memory
               : rate.ramp.value > body ? CostBound::Launch
               : pick.waves_lost > 1.15 ? CostBound::Wave
                                        : CostBound::Tensor;
  return cost;
}

GemmCost gemm_cost(const GemmShape& shape, const Gpu& gpu, const GpuProfile& profile) {
  GemmCost cost = gemm_formula(shape, gpu, profile);
  if (!profile.corrections || shape.batch > 1 || shape.grouped) return cost;
  const auto table = profile.gemm_corrections.find(shape.type);
  if (table == profile.gemm_corrections.end()) return cost;
  const CorrectionPoint point{.x = std::log(static_cast<float>(shape.m)),
                              .y = std::log(static_cast<float>(shape.n)),
                              .z = std::log(static_cast<float>(shape.k)),
                              .family = static_cast<int>(shape.layout)};
  cost.time.value *= std::exp(log_correction(table->second, point, kGemmKernel));
  return cost;
}

}  // namespace megatwin::model
