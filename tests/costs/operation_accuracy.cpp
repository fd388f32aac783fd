// Prints how far predictions are from measured operations:
//
//     operation_accuracy ROWS.jsonl …          with the shipped H200 profile
//     operation_accuracy --half ROWS.jsonl …   each half of the shapes judged with a table that
//                                              holds the other half only
//
// Halves are drawn by a hash of the shape, so that layouts of one shape stay together.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "model/compute_cost.h"
#include "scenarios/gpu_profile_reader.h"
#include "sim/validate_operations.h"
#include "tests/costs/gpus.h"

namespace {

using namespace megatwin;  // A main file of the tests.

// FNV-1a over three sizes: the same on every machine.
int half_of(std::int64_t a, std::int64_t b, std::int64_t c) {
  std::uint64_t hash = 1469598103934665603ULL;
  for (const std::int64_t value : {a, b, c}) {
    for (int shift = 0; shift < 64; shift += 8) {
      hash ^= static_cast<std::uint64_t>(value >> shift) & 0xff;
      hash *= 1099511628211ULL;
    }
  }
  return static_cast<int>((hash >> 32) & 1);
}

int half_of(const scenarios::OperationRow& row) {
  if (row.kind == "attn") {
    return half_of(row.batch * row.heads, row.length, row.head_dim + (row.causal ? 1 : 0));
  }
  if (row.kind == "grouped_gemm") return half_of(row.experts * row.tokens, row.n, row.k);
  return half_of(row.m, row.n, row.k);
}

model::GpuProfile profile_with_half(int half) {
  const model::Gpu gpu = tests::h200();
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

void print(const sim::OperationValidation& validation) {
  std::printf("%-34s %5s %8s %8s %8s %8s\n", "group", "rows", "bias", "median", "p90", "worst");
  for (const sim::OperationGroup& group : validation.groups) {
    std::printf("%-34s %5d %+7.1f%% %7.1f%% %7.1f%% %+7.1f%%\n", group.group.c_str(),
                group.scored, 100 * group.bias, 100 * group.median_abs_error,
                100 * group.p90_abs_error, 100 * group.worst);
  }
  for (const std::string& reason : validation.reasons) {
    std::printf("not predicted: %s\n", reason.c_str());
  }
}

// Both halves judged, in one table.
sim::OperationValidation judge_halves(const std::vector<scenarios::OperationRow>& rows,
                                      bool corrections) {
  std::vector<sim::OperationCheck> checks;
  for (const int judged : {0, 1}) {
    model::GpuProfile profile = profile_with_half(1 - judged);
    profile.corrections = corrections;
    std::vector<scenarios::OperationRow> half;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(half),
                 [&](const auto& row) { return half_of(row) == judged; });
    const auto part = sim::validate_operations(half, tests::h200(), profile);
    checks.insert(checks.end(), part.rows.begin(), part.rows.end());
  }
  return sim::summarise_operations(std::move(checks));
}

}  // namespace

int main(int argc, char** argv) {
  bool half = false;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--half") {
      half = true;
      continue;
    }
    std::ifstream file(argv[i]);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const auto rows = scenarios::parse_operation_rows(text, argv[i]);
    if (!rows) {
      std::fputs(model::to_text(rows.error()).c_str(), stderr);
      return 2;
    }
    std::printf("%s\n", argv[i]);
    if (!half) {
      print(sim::validate_operations(*rows, tests::h200(),
                                     scenarios::gpu_profile(tests::h200()).value()));
      continue;
    }
    std::printf("other half, formula and table\n");
    print(judge_halves(*rows, true));
    std::printf("other half, formula alone\n");
    print(judge_halves(*rows, false));
  }
  return 0;
}
