// Prints how far predictions are from measured operations:
//
//     operation_accuracy ROWS.jsonl …          with the shipped H200 profile
//     operation_accuracy --half ROWS.jsonl …   each half of the shapes judged with a table that
//                                              holds the other half only
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "scenarios/gpu_profile_reader.h"
#include "sim/validate_operations.h"
#include "tests/costs/gpus.h"
#include "tests/costs/held_out.h"

namespace megatwin {
namespace {

void print(const sim::OperationValidation& validation) {
  std::printf("%-34s %5s %8s %8s %8s %8s\n", "group", "rows", "bias", "median", "p90", "worst");
  for (const sim::OperationGroup& group : validation.groups) {
    std::printf("%-34s %5d %+7.1f%% %7.1f%% %7.1f%% %+7.1f%%\n", group.group.c_str(), group.scored,
                100 * group.bias, 100 * group.median_abs_error, 100 * group.p90_abs_error,
                100 * group.worst);
  }
  for (const std::string& reason : validation.reasons) {
    std::printf("not predicted: %s\n", reason.c_str());
  }
}

int run(int argc, char** argv) {
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
    print(tests::judge_halves(*rows, true, true));
    std::printf("other half, formula and table, one launch cost for the whole run\n");
    print(tests::judge_halves(*rows, true, false));
    std::printf("other half, formula alone\n");
    print(tests::judge_halves(*rows, false, true));
  }
  return 0;
}

}  // namespace
}  // namespace megatwin

int main(int argc, char** argv) { return megatwin::run(argc, argv); }
