#include "sim/purchase/scaling_knee.h"

#include <vector>

namespace megatwin::sim {
namespace {

struct Corner {
  ScalingPoint point;
  std::size_t index = 0;
};

double slope(const ScalingPoint& a, const ScalingPoint& b) {
  return (b.rate - a.rate) / (b.machines - a.machines);
}

// Upper hull from the origin, up to the highest rate.
std::vector<Corner> concave_hull(std::span<const ScalingPoint> points) {
  std::vector<Corner> hull = {{}};
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].rate <= hull.back().point.rate) continue;
    while (hull.size() > 1 && slope(hull[hull.size() - 2].point, hull.back().point) <=
                                  slope(hull.back().point, points[i])) {
      hull.pop_back();
    }
    hull.push_back({points[i], i});
  }
  return hull;
}

}  // namespace

std::optional<std::size_t> scaling_knee(std::span<const ScalingPoint> points, double return_min) {
  const std::vector<Corner> hull = concave_hull(points);
  if (hull.size() < 2) return std::nullopt;
  std::size_t knee = hull[1].index;
  for (std::size_t i = 2; i < hull.size(); ++i) {
    const ScalingPoint& before = hull[i - 1].point;
    const double average = before.rate / before.machines;
    if (slope(before, hull[i].point) < return_min * average) break;
    knee = hull[i].index;
  }
  return knee;
}

}  // namespace megatwin::sim
