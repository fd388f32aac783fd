#include "model/derived_profile.h"

#include <algorithm>
#include <cmath>

#include "model/gemm_cost.h"

namespace megatwin::model {
namespace {

constexpr double kPowerExponent = 0.5;
constexpr double kPowerFactorMax = 1.12;
constexpr double kPowerFactorMin = 0.5;
// A format that the base lacks runs at this share of its peak.
constexpr double kDefaultEfficiency = 0.65;

double quotient(double a, double b) { return a > 0 && b > 0 ? a / b : 1; }

// Peak of the base for a format, as far as it was noted.
double base_peak(const MeasuredPart& part, DataType type) {
  switch (type) {
    case DataType::Fp8:
      return part.peak_fp8.value;
    case DataType::Fp4:
      return part.peak_fp4.value;
    case DataType::Tf32:
      return part.peak_half.value / 2;
    case DataType::Fp16:
    case DataType::Bf16:
      return part.peak_half.value;
    case DataType::Fp32:
      return 0;
  }
  return 0;
}

}  // namespace

FlopPerSecond attention_peak(const Gpu& gpu) {
  const FlopPerSecond half = std::max(gpu.peak.bf16, gpu.peak.fp16);
  return half.value > 0 ? half : gpu.peak.fp32;
}

double power_factor(double power_ratio, double peak_ratio) {
  if (power_ratio <= 0 || peak_ratio <= 0) return 1;
  return std::clamp(std::pow(power_ratio / peak_ratio, kPowerExponent), kPowerFactorMin,
                    kPowerFactorMax);
}

void add_unmeasured_rates(GpuProfile& profile, const GpuProfile& base, const Gpu& gpu) {
  for (const DataType type : {DataType::Tf32, DataType::Fp32}) {
    const double peak = gpu.peak_of(type).value;
    if (peak <= 0 || profile.gemm.contains(type)) continue;
    // A part that computes in no narrower format has the shape of the base's products.
    GemmRate rate = gemm_rate(profile.gemm.empty() ? base : profile, DataType::Fp16);
    rate.sustained = {peak * kDefaultEfficiency};
    profile.gemm[type] = rate;
  }
}

GpuProfile derived_profile(const GpuProfile& base, const Gpu& gpu) {
  GpuProfile profile = base;
  profile.gpu_name = gpu.name;
  profile.measured_gemms.clear();
  profile.measured_attentions.clear();
  const double peak_ratio = quotient(attention_peak(gpu).value, base.measured_on.peak_half.value);
  // A part whose power nobody states is taken to have as much for each FLOP as the sibling.
  const double power =
      gpu.power_max.value > 0
          ? power_factor(quotient(gpu.power_max.value, base.measured_on.power_max.value),
                         peak_ratio)
          : 1;
  const double rate_ratio = peak_ratio * power;
  const double memory_ratio =
      quotient(gpu.memory_bandwidth.value, base.measured_on.memory_bandwidth.value);

  profile.gemm.clear();
  for (const DataType type : {DataType::Fp16, DataType::Bf16, DataType::Fp8, DataType::Fp4}) {
    const double peak = gpu.peak_of(type).value;
    if (peak <= 0) continue;
    GemmRate rate = gemm_rate(base, type);
    const auto measured = base.gemm.find(type);
    const double reference = base_peak(base.measured_on, type);
    if (measured != base.gemm.end() && reference > 0) {
      rate.sustained = {rate.sustained.value * peak / reference * power};
    } else {
      rate.sustained = {peak * kDefaultEfficiency};
    }
    profile.gemm[type] = rate;
  }
  add_unmeasured_rates(profile, base, gpu);
  for (auto& [kernel, rate] : profile.attention) {
    rate.forward = rate_ratio * rate.forward;
    rate.backward = rate_ratio * rate.backward;
  }
  profile.memory.stream = memory_ratio * profile.memory.stream;
  profile.sources["derived"] =
      "scaled from " + base.gpu_name + " by peak, power and memory bandwidth of the data sheet";
  return profile;
}

}  // namespace megatwin::model
