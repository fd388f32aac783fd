#include "model/correction.h"

#include <cstddef>

namespace megatwin::model {

double log_correction(const CorrectionTable& table, const CorrectionPoint& point,
                      const CorrectionKernel& kernel) {
  const float inverse_square = 1.0f / (kernel.radius * kernel.radius);
  const float step_square = kernel.family_step * kernel.family_step;
  double weights = kernel.shrinkage, sum = 0;
  const std::size_t size = table.x.size();
  for (std::size_t i = 0; i < size; ++i) {
    const float dx = table.x[i] - point.x;
    if (dx * dx * inverse_square >= 1) continue;  // Most rows, and a third of the reading.
    const float dy = table.y[i] - point.y, dz = table.z[i] - point.z;
    const float family = table.family[i] == point.family ? 0.0f : step_square;
    const float u = (dx * dx + dy * dy + dz * dz + family) * inverse_square;
    if (u >= 1) continue;
    // (1 − u)⁴: compact, smooth at its edge, near to a Gaussian inside.
    const float v = (1 - u) * (1 - u);
    const double weight = static_cast<double>(v * v);
    weights += weight;
    sum += weight * static_cast<double>(table.residual[i]);
  }
  return weights > 0 ? sum / weights : 0;
}

void add_row(CorrectionTable& table, const CorrectionPoint& point, double residual) {
  table.x.push_back(point.x);
  table.y.push_back(point.y);
  table.z.push_back(point.z);
  table.family.push_back(point.family);
  table.residual.push_back(static_cast<float>(residual));
}

}  // namespace megatwin::model
