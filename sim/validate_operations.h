// Predicted against measured times of single operations: products, attention, memory-bound kernels
// and collectives of a benchmark file, with the error of each row and of each group (a kind and its
// format). Measured rows were launched one by one from Python, so predictions take the larger of
// device and host time, the host's as fast as rows nearby show it. Pure function of its arguments.
#ifndef MEGATWIN_SIM_VALIDATE_OPERATIONS_H_
#define MEGATWIN_SIM_VALIDATE_OPERATIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "model/gpu_profile.h"
#include "model/hardware.h"
#include "model/units.h"
#include "scenarios/operation_rows.h"
#include "sim/host_pace.h"

namespace megatwin::sim {

// One judged time: a line of attention gives two, forward and backward.
struct OperationCheck {
  std::string id;     // "line 12" or "line 12 backward".
  std::string group;  // "gemm bf16", "attention backward bf16", "nccl all_reduce", …
  model::Seconds predicted, measured;
  double error = 0;     // predicted / measured − 1.
  bool scored = false;  // False: not predicted, `reason` says why.
  std::string reason;
  std::vector<std::string> assumptions;
};

struct OperationGroup {
  std::string group;
  int rows = 0, scored = 0;
  double median_abs_error = 0, p90_abs_error = 0, bias = 0;  // bias: median signed error.
  double worst = 0;                                          // Signed error of the worst row.
  std::optional<double> rank_correlation;  // Spearman's; nothing below three rows.
};

struct OperationValidation {
  std::vector<OperationCheck> rows;    // In the order of the file.
  std::vector<OperationGroup> groups;  // By name.
  double mean_of_group_medians = 0;
  int predicted = 0;
  std::vector<std::string> reasons;  // Why rows were not predicted, each once, sorted.
};

// `pace`: of the run that `rows` are from.
OperationValidation validate_operations(const std::vector<scenarios::OperationRow>& rows,
                                        const model::Gpu& gpu, const model::GpuProfile& profile,
                                        const HostPace& pace = {});

// The groups and totals of rows that were checked before, say with several profiles.
OperationValidation summarise_operations(std::vector<OperationCheck> checks);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_VALIDATE_OPERATIONS_H_
