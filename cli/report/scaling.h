// How throughput grows over runs that differ in their number of GPUs: the table and the curves of a
// sweep. Knows nothing of how they are drawn.
#ifndef MEGATWIN_CLI_REPORT_SCALING_H_
#define MEGATWIN_CLI_REPORT_SCALING_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/simulation_report.h"

namespace megatwin::cli {

enum class ScalingKind {
  Strong,  // The global batch stays as it is.
  Weak,    // The global batch grows with the GPUs.
  Mixed,
};

std::string_view name_of(ScalingKind kind);

struct ScalingPoint {
  int gpus = 0;
  double speed_up = 1;    // Tokens/s over the first point's.
  double efficiency = 1;  // Tokens/s per GPU over the first point's.
  const sim::SimulationReport* report = nullptr;
};

struct ScalingCurve {
  ScalingKind kind = ScalingKind::Mixed;
  std::vector<ScalingPoint> points;  // By GPUs ascending; the first is the base.
};

// Empty unless at least two runs of one model differ in GPUs, none of them twice. The points borrow
// from `reports`.
std::optional<ScalingCurve> scaling_curve(std::span<const sim::SimulationReport> reports);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_SCALING_H_
