// Where more machines stop paying.
#ifndef MEGATWIN_SIM_PURCHASE_SCALING_KNEE_H_
#define MEGATWIN_SIM_PURCHASE_SCALING_KNEE_H_

#include <cstddef>
#include <optional>
#include <span>

namespace megatwin::sim {

struct ScalingPoint {
  double machines = 0;
  double rate = 0;  // Kept tokens a second.
};

// The knee lies on the concave hull of the points and the origin, which leaves out numbers of
// machines that happen to divide badly. It is the last corner whose added machines bring at least
// `return_min` of what the machines before them bring on average.
// Nothing without a point of positive rate. Requires: machines ascending, each > 0.
std::optional<std::size_t> scaling_knee(std::span<const ScalingPoint> points,
                                        double return_min = 0.5);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_PURCHASE_SCALING_KNEE_H_
