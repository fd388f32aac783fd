#include "kernels/reference_norm.h"

#include <cmath>
#include <cstddef>

namespace megatwin::kernels::reference {

template <class T>
void norm_forward(const NormForward<T>& arguments) {
  const auto rows = static_cast<std::size_t>(arguments.shape.rows);
  const auto width = static_cast<std::size_t>(arguments.shape.width);
  const bool centred = !arguments.mean.empty();
  for (std::size_t row = 0; row < rows; ++row) {
    const T* x = arguments.x.data() + row * width;
    T* y = arguments.y.data() + row * width;
    T mean = 0;
    if (centred) {
      for (std::size_t i = 0; i < width; ++i) {
        mean += x[i];
      }
      mean /= static_cast<T>(width);
      arguments.mean[row] = mean;
    }
    T squares = 0;
    for (std::size_t i = 0; i < width; ++i) {
      squares += (x[i] - mean) * (x[i] - mean);
    }
    const T inverse = 1 / std::sqrt(squares / static_cast<T>(width) + arguments.epsilon);
    arguments.inverse[row] = inverse;
    for (std::size_t i = 0; i < width; ++i) {
      y[i] = (x[i] - mean) * inverse * arguments.gamma[i];
      if (!arguments.beta.empty()) {
        y[i] += arguments.beta[i];
      }
    }
  }
}

// With n = (x − mean) · r and g = dy · gamma: dx = r · (g − mean(g) − n · mean(g · n)); RMSNorm has
// no mean(g).
template <class T>
void norm_backward_input(const NormBackwardInput<T>& arguments) {
  const auto rows = static_cast<std::size_t>(arguments.shape.rows);
  const auto width = static_cast<std::size_t>(arguments.shape.width);
  const bool centred = !arguments.mean.empty();
  for (std::size_t row = 0; row < rows; ++row) {
    const T* x = arguments.x.data() + row * width;
    const T* dy = arguments.dy.data() + row * width;
    T* dx = arguments.dx.data() + row * width;
    const T mean = centred ? arguments.mean[row] : T{0};
    const T inverse = arguments.inverse[row];
    T sum = 0;
    T sum_normalised = 0;
    for (std::size_t i = 0; i < width; ++i) {
      const T gradient = dy[i] * arguments.gamma[i];
      sum += gradient;
      sum_normalised += gradient * (x[i] - mean) * inverse;
    }
    const T gradient_mean = centred ? sum / static_cast<T>(width) : T{0};
    const T normalised_mean = sum_normalised / static_cast<T>(width);
    for (std::size_t i = 0; i < width; ++i) {
      const T normalised = (x[i] - mean) * inverse;
      dx[i] = inverse * (dy[i] * arguments.gamma[i] - gradient_mean - normalised * normalised_mean);
    }
  }
}

template <class T>
void norm_backward_weight(const NormBackwardWeight<T>& arguments) {
  const auto rows = static_cast<std::size_t>(arguments.shape.rows);
  const auto width = static_cast<std::size_t>(arguments.shape.width);
  for (std::size_t row = 0; row < rows; ++row) {
    const T* x = arguments.x.data() + row * width;
    const T* dy = arguments.dy.data() + row * width;
    const T mean = arguments.mean.empty() ? T{0} : arguments.mean[row];
    const T inverse = arguments.inverse[row];
    for (std::size_t i = 0; i < width; ++i) {
      arguments.dgamma[i] += dy[i] * (x[i] - mean) * inverse;
      if (!arguments.dbeta.empty()) {
        arguments.dbeta[i] += dy[i];
      }
    }
  }
}

template void norm_forward(const NormForward<float>&);
template void norm_forward(const NormForward<double>&);
template void norm_backward_input(const NormBackwardInput<float>&);
template void norm_backward_input(const NormBackwardInput<double>&);
template void norm_backward_weight(const NormBackwardWeight<float>&);
template void norm_backward_weight(const NormBackwardWeight<double>&);

}  // namespace megatwin::kernels::reference
