#include <cmath>
#include <cstddef>

#include "kernels/rms_norm.h"

namespace megatwin::kernels {

void rms_norm_forward_reference(const RmsNormReference& arguments) {
  const auto rows = static_cast<std::size_t>(arguments.shape.rows);
  const auto width = static_cast<std::size_t>(arguments.shape.width);
  for (std::size_t row = 0; row < rows; ++row) {
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) {
      const double value = arguments.x[row * width + i];
      squares += value * value;
    }
    const double mean = squares / static_cast<double>(width);
    const auto inverse =
        static_cast<float>(1 / std::sqrt(mean + static_cast<double>(arguments.epsilon)));
    arguments.inverse_rms[row] = inverse;
    for (std::size_t i = 0; i < width; ++i) {
      arguments.out[row * width + i] = arguments.x[row * width + i] * inverse * arguments.gamma[i];
    }
  }
}

}  // namespace megatwin::kernels
