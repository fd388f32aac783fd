#include "model/heterogeneous.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "model/assert.h"

namespace megatwin::model {

std::vector<std::int64_t> min_max_split(std::int64_t total, std::span<const double> speeds,
                                        std::span<const std::int64_t> limits) {
  MEGATWIN_ASSERT(limits.empty() || limits.size() == speeds.size());
  std::vector<std::int64_t> units(speeds.size(), 0);
  for (std::int64_t placed = 0; placed < total; ++placed) {
    std::size_t best = speeds.size();
    for (std::size_t i = 0; i < speeds.size(); ++i) {
      if (!limits.empty() && units[i] >= limits[i]) continue;
      // Compare finish times as products, so that equal ones stay equal.
      const bool first = best == speeds.size();
      if (first || static_cast<double>(units[i] + 1) * speeds[best] <
                       static_cast<double>(units[best] + 1) * speeds[i]) {
        best = i;
      }
    }
    if (best == speeds.size()) break;
    ++units[best];
  }
  return units;
}

std::vector<std::int64_t> earliest_finish_split(std::int64_t total, std::span<const double> fixed,
                                                std::span<const double> per_unit) {
  MEGATWIN_ASSERT(fixed.size() == per_unit.size());
  std::vector<std::int64_t> units(fixed.size(), 1);
  using Next = std::pair<double, std::size_t>;  // When one unit more would be done, and where.
  std::priority_queue<Next, std::vector<Next>, std::greater<>> queue;
  const auto push = [&](std::size_t i) {
    queue.push({fixed[i] + static_cast<double>(units[i] + 1) * per_unit[i], i});
  };
  for (std::size_t i = 0; i < units.size(); ++i) push(i);
  for (auto placed = static_cast<std::int64_t>(units.size()); placed < total; ++placed) {
    const std::size_t where = queue.top().second;
    queue.pop();
    ++units[where];
    push(where);
  }
  return units;
}

double slowest_part(std::span<const std::int64_t> units, std::span<const double> speeds) {
  MEGATWIN_ASSERT(units.size() == speeds.size());
  double slowest = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    slowest = std::max(slowest, static_cast<double>(units[i]) / speeds[i]);
  }
  return slowest;
}

double even_split_utilization(std::span<const double> speeds) {
  MEGATWIN_ASSERT(!speeds.empty());
  const double sum = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  const double slowest = *std::min_element(speeds.begin(), speeds.end());
  return static_cast<double>(speeds.size()) * slowest / sum;
}

double split_utilization(std::span<const std::int64_t> units, std::span<const double> speeds) {
  const auto total = std::accumulate(units.begin(), units.end(), std::int64_t{0});
  const double sum = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  return static_cast<double>(total) / (sum * slowest_part(units, speeds));
}

}  // namespace megatwin::model
