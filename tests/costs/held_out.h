// Halves of the H200 grid, drawn by a hash of the shape so that layouts of one shape stay together:
// each half is judged with a table that holds the other half only.
#ifndef MEGATWIN_TESTS_COSTS_HELD_OUT_H_
#define MEGATWIN_TESTS_COSTS_HELD_OUT_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "model/compute_cost.h"
#include "scenarios/gpu_profile_reader.h"
#include "sim/validate_operations.h"
#include "tests/costs/gpus.h"

namespace megatwin::tests {

// FNV-1a over three sizes: the same on every machine.
inline int half_of(std::int64_t a, std::int64_t b, std::int64_t c) {
  std::uint64_t hash = 1469598103934665603ULL;
  for (const std::int64_t value : {a, b, c}) {
    for (int shift = 0; shift < 64; shift += 8) {
      hash ^= static_cast<std::uint64_t>(value >> shift) & 0xff;
      hash *= 1099511628211ULL;
    }
  }
  return static_cast<int>((hash >> 32) & 1);
}

inline int half_of(const scenarios::OperationRow& row) {
  if (row.kind == "attn") {
    return half_of(row.batch * row.heads, row.length, row.head_dim + (row.causal ? 1 : 0));
  }
  if (row.kind == "grouped_gemm") return half_of(row.experts * row.tokens, row.n, row.k);
  return half_of(row.m, row.n, row.k);
}

inline model::GpuProfile profile_with_half(int half) {
  const model::Gpu gpu = h200();
  model::GpuProfile profile = scenarios::gpu_profile(gpu).value();
  std::erase_if(profile.measured_gemms, [&](const model::MeasuredGemm& row) {
    return half_of(row.shape.m, row.shape.n, row.shape.k) != half;
  });
  std::erase_if(profile.measured_attentions, [&](const model::MeasuredAttention& row) {
    return half_of(row.shape.batch * row.shape.heads, row.shape.key_length,
                   row.shape.qk_dim + (row.shape.causal ? 1 : 0)) != half;
  });
  model::prepare(profile, gpu);
  return profile;
}

// Both halves judged, in one summary; with the formula alone when `corrections` is false. The pace
// of the host that measured is read off the half that is not judged.
inline sim::OperationValidation judge_halves(const std::vector<scenarios::OperationRow>& rows,
                                             bool corrections, bool host_known) {
  std::vector<sim::OperationCheck> checks;
  for (const int judged : {0, 1}) {
    model::GpuProfile profile = profile_with_half(1 - judged);
    profile.corrections = corrections;
    std::vector<scenarios::OperationRow> half, other;
    for (const scenarios::OperationRow& row : rows) {
      (half_of(row) == judged ? half : other).push_back(row);
    }
    const sim::HostPace pace = host_known ? sim::HostPace(other, h200(), profile) : sim::HostPace();
    const auto part = sim::validate_operations(half, h200(), profile, pace);
    checks.insert(checks.end(), part.rows.begin(), part.rows.end());
  }
  return sim::summarise_operations(std::move(checks));
}

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_COSTS_HELD_OUT_H_
