#include "cli/report/scaling.h"

#include <algorithm>

namespace megatwin::cli {
namespace {

ScalingKind kind_of(const std::vector<ScalingPoint>& points) {
  const sim::SimulationReport& base = *points.front().report;
  bool strong = true;
  bool weak = true;
  for (const ScalingPoint& point : points) {
    const std::int64_t batch = point.report->plan.global_batch;
    strong = strong && batch == base.plan.global_batch;
    weak = weak && batch * base.gpus == base.plan.global_batch * point.gpus;
  }
  if (strong) return ScalingKind::Strong;
  return weak ? ScalingKind::Weak : ScalingKind::Mixed;
}

}  // namespace

std::string_view name_of(ScalingKind kind) {
  switch (kind) {
    case ScalingKind::Strong:
      return "Strong scaling (the global batch is constant)";
    case ScalingKind::Weak:
      return "Weak scaling (the global batch grows with the GPUs)";
    case ScalingKind::Mixed:
      return "Scaling (the global batch varies too)";
  }
  return "Scaling";
}

std::optional<ScalingCurve> scaling_curve(std::span<const sim::SimulationReport> reports) {
  ScalingCurve curve;
  for (const sim::SimulationReport& report : reports) {
    if (report.model_name != reports.front().model_name) return std::nullopt;
    if (report.gpus <= 0 || report.tokens_per_s_per_gpu <= 0) return std::nullopt;
    curve.points.push_back({.gpus = report.gpus, .report = &report});
  }
  const auto by_gpus = [](const ScalingPoint& a, const ScalingPoint& b) { return a.gpus < b.gpus; };
  std::stable_sort(curve.points.begin(), curve.points.end(), by_gpus);
  for (std::size_t i = 1; i < curve.points.size(); ++i) {
    if (curve.points[i].gpus == curve.points[i - 1].gpus) return std::nullopt;
  }
  if (curve.points.size() < 2) return std::nullopt;
  const sim::SimulationReport& base = *curve.points.front().report;
  for (ScalingPoint& point : curve.points) {
    point.speed_up = point.report->tokens_per_s / base.tokens_per_s;
    point.efficiency = point.report->tokens_per_s_per_gpu / base.tokens_per_s_per_gpu;
  }
  curve.kind = kind_of(curve.points);
  return curve;
}

}  // namespace megatwin::cli
