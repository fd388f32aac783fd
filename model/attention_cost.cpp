#include "model/attention_cost.h"

#include <algorithm>
#include <cmath>

#include "model/assert.h"
#include "model/correction.h"

namespace megatwin::model {
namespace {

// Corrections in the table are small; two rows' worth of weight pulls them towards none.
constexpr CorrectionKernel kAttentionKernel{
    .radius = 0.7f, .family_step = 10.0f, .shrinkage = 2.0f};

// Kernels are built for multiples of this head size; others are padded up to the next.
constexpr double kHeadStep = 32;

struct HeadFactors {
  double at_64 = 1, at_96 = 1, at_192 = 1, at_256 = 1, padding = 1;
};

// Rate relative to head size 128: piecewise linear through the fitted points, times the share of a
// padded head that is real.
double head_factor(double dim, const HeadFactors& factors) {
  struct Point {
    double dim, factor;
  };
  const Point points[] = {{32, 0.75 * factors.at_64}, {64, factors.at_64},   {96, factors.at_96},
                          {128, 1},                   {192, factors.at_192}, {256, factors.at_256}};
  const double padded = std::max(std::ceil(dim / kHeadStep), 1.0) * kHeadStep;
  const double share = dim / padded * (padded > dim ? factors.padding : 1);
  for (std::size_t i = 1; i < std::size(points); ++i) {
    if (padded > points[i].dim) continue;
    const double position = std::max(padded - points[i - 1].dim, 0.0) /
                            (points[i].dim - points[i - 1].dim);
    return share *
           (points[i - 1].factor + position * (points[i].factor - points[i - 1].factor));
  }
  return share * factors.at_256;
}

double fourth(double value) { return value * value * value * value; }

// Waves that `occupancy` blocks per multiprocessor take. The longest block sets the least: a full
// row of keys, which under a causal mask is twice the mean one.
double waves(double occupancy, bool causal, double wave_share) {
  const double least = causal ? 2 : 1;
  const double smooth = std::sqrt(std::sqrt(fourth(occupancy) + fourth(least)));
  return wave_share * std::max(std::ceil(occupancy), least) + (1 - wave_share) * smooth;
}

}  // namespace

double mean_visible_keys(const AttentionShape& shape) {
  const double queries = static_cast<double>(shape.query_length);
  const double keys = static_cast<double>(shape.key_length);
  // The mask is aligned to the last key: query i sees keys − queries + i + 1 of them.
  const double causal = shape.causal ? keys - (queries - 1) / 2 : keys;
  const double unmasked = std::max(causal, 0.5);
  if (shape.window <= 0) return unmasked;
  const double window = static_cast<double>(shape.window);
  if (window >= keys) return unmasked;
  if (!shape.causal || queries < keys) return std::min(window, unmasked);
  // The first `window` queries see fewer: mean of min(i + 1, window).
  return window - window * (window - 1) / (2 * queries);
}

Flop attention_flop(const AttentionShape& shape) {
  const double forward = 2.0 * static_cast<double>(shape.batch) * static_cast<double>(shape.heads) *
                         static_cast<double>(shape.query_length) * mean_visible_keys(shape) *
                         static_cast<double>(shape.qk_dim + shape.v_dim);
  return {shape.backward ? 2.5 * forward : forward};
}

Bytes attention_bytes(const AttentionShape& shape) {
  const double element = size_of(shape.type).value;
  const double queries = static_cast<double>(shape.batch) * static_cast<double>(shape.heads) *
                         static_cast<double>(shape.query_length);
  const double keys = static_cast<double>(shape.batch) *
                      static_cast<double>(shape.key_value_heads) *
                      static_cast<double>(shape.key_length);
  const double dims = static_cast<double>(shape.qk_dim + shape.v_dim);
  const double once = element * dims * (queries + keys);
  return {shape.backward ? 2 * once + 4 * queries * (static_cast<double>(shape.qk_dim) + 2)
                         : once + 4 * queries};
}

const AttentionRate& attention_rate(const GpuProfile& profile, AttentionKernel kernel) {
  MEGATWIN_ASSERT(kernel != AttentionKernel::Unfused, "unfused attention is lowered to products");
  auto found = profile.attention.find(kernel);
  if (found == profile.attention.end()) {
    found = profile.attention.find(AttentionKernel::FlashAttention2);
  }
  if (found == profile.attention.end()) found = profile.attention.begin();
  MEGATWIN_ASSERT(found != profile.attention.end(), "profile without attention rates: ",
                  profile.gpu_name);
  return found->second;
}

AttentionCost attention_formula(const AttentionShape& shape, const Gpu& gpu,
                                const GpuProfile& profile) {
  const AttentionRate& rate = attention_rate(profile, shape.kernel);
  const bool backward = shape.backward;
  const double dim = 0.5 * static_cast<double>(shape.qk_dim + shape.v_dim);
  const double factor =
      backward ? head_factor(dim, {rate.backward_64_factor, rate.backward_96_factor,
                                   rate.backward_192_factor, rate.backward_256_factor,
                                   rate.padding_factor})
               : head_factor(dim, {rate.head_dim_64_factor, rate.head_dim_96_factor,
                                   rate.head_dim_192_factor, rate.head_dim_256_factor,
                                   rate.padding_factor});
  const double limit = (backward ? rate.backward : rate.forward).value * factor;
  const double flop = attention_flop(shape).value;
  const double keys = mean_visible_keys(shape);
  double half = backward ? rate.backward_half_length : rate.forward_half_length;
  if (shape.causal) half *= backward ? rate.backward_causal_factor : rate.causal_half_factor;

  // Blocks of query rows over multiprocessors.
  const double blocks =
      static_cast<double>(shape.batch) * static_cast<double>(shape.heads) *
      std::ceil(static_cast<double>(shape.query_length) /
                (backward ? rate.backward_tile : rate.query_tile));
  const double occupancy = blocks / std::max(gpu.num_sms, 1);
  const double paid = profile.wave_quantisation
                          ? waves(occupancy, shape.causal,
                                  backward ? rate.backward_wave_share : rate.wave_share)
                          : occupancy;
  AttentionCost cost;
  cost.tensor_time = {flop / limit};
  cost.memory_time = attention_bytes(shape) / profile.memory.stream;
  const double body = flop / limit * (1 + half / keys) * paid / occupancy;
  const double memory = profile.memory_bound ? cost.memory_time.value : 0;
  const double ramp = (backward ? rate.backward_ramp : rate.forward_ramp).value;
  cost.time = {std::max(body, memory) + ramp};
  cost.bound = memory > body          ? CostBound::Memory
               : ramp > body          ? CostBound::Launch
               : paid > 1.15 * occupancy ? CostBound::Wave
                                      : CostBound::Tensor;
  return cost;
}

AttentionCost attention_cost(const AttentionShape& shape, const Gpu& gpu,
                             const GpuProfile& profile) {
  AttentionCost cost = attention_formula(shape, gpu, profile);
  if (!profile.corrections || shape.kernel != AttentionKernel::Cudnn) return cost;
  const CorrectionTable& table = shape.backward ? profile.attention_backward_corrections
                                                : profile.attention_forward_corrections;
  const CorrectionPoint point{
      .x = std::log(static_cast<float>(shape.batch * shape.heads)),
      .y = std::log(static_cast<float>(shape.key_length)),
      .z = 3 * std::log(static_cast<float>(shape.qk_dim + shape.v_dim) / 2),
      .family = shape.causal ? 1 : 0};
  cost.time.value *= std::exp(log_correction(table, point, kAttentionKernel));
  return cost;
}

}  // namespace megatwin::model
