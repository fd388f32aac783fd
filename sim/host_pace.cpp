#include "sim/host_pace.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

#include "model/compute_cost.h"
#include "sim/product_row.h"

namespace megatwin::sim {
namespace {

// A product is a probe when device and host together take little more than the host.
constexpr double kHostDecides = 1.06;
constexpr std::size_t kProbesMin = 8;
constexpr std::size_t kNearest = 3;

}  // namespace

HostPace::HostPace(const std::vector<scenarios::OperationRow>& run, const model::Gpu& gpu,
                   const model::GpuProfile& profile) {
  for (const scenarios::OperationRow& row : run) {
    if (row.kind != "gemm" || !row.time || row.time->value <= 0) continue;
    const auto op = product_of(row);
    if (!op || op->gemm.type != model::DataType::Bf16) continue;
    const model::Seconds priced = benchmark_time(*op, gpu, profile);
    if (priced.value > kHostDecides * host_time(*op, gpu, profile).value) continue;
    probes_.push_back({row.line, ratio(*row.time / priced)});
  }
  std::sort(probes_.begin(), probes_.end(),
            [](const Probe& a, const Probe& b) { return a.line < b.line; });
}

double HostPace::slowdown(int line) const {
  if (probes_.size() < kProbesMin) return 1;
  auto after = std::lower_bound(probes_.begin(), probes_.end(), line,
                                [](const Probe& probe, int at) { return probe.line < at; });
  auto before = std::make_reverse_iterator(after);
  if (after != probes_.end() && after->line == line) ++after;  // The row itself.
  std::array<double, kNearest> nearest{};
  for (double& ratio : nearest) {
    const bool back = after == probes_.end() ||
                      (before != probes_.rend() && line - before->line <= after->line - line);
    ratio = back ? (before++)->ratio : (after++)->ratio;
  }
  std::sort(nearest.begin(), nearest.end());
  return nearest[kNearest / 2];
}

}  // namespace megatwin::sim
