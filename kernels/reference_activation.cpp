#include "kernels/reference_activation.h"

#include <cmath>
#include <cstddef>
#include <numbers>

#include "kernels/reference_exponential.h"

namespace megatwin::kernels::reference {
namespace {

// gelu(x) = x/2 · (1 + tanh(a · (x + b · x³))).
template <class T>
const T kGeluA = std::sqrt(T{2} * std::numbers::inv_pi_v<T>);
template <class T>
constexpr T kGeluB = T(0.044715);

template <class T>
T sigmoid(T x) {
  return 1 / (1 + exponential(-x));
}

}  // namespace

template <class T>
void gelu_forward(const Gelu<T>& arguments) {
  for (std::size_t i = 0; i < arguments.x.size(); ++i) {
    const T x = arguments.x[i];
    arguments.y[i] = x / 2 * (1 + std::tanh(kGeluA<T> * (x + kGeluB<T> * x * x * x)));
  }
}

template <class T>
void gelu_backward(const GeluBackward<T>& arguments) {
  for (std::size_t i = 0; i < arguments.x.size(); ++i) {
    const T x = arguments.x[i];
    const T tanh = std::tanh(kGeluA<T> * (x + kGeluB<T> * x * x * x));
    const T inner = kGeluA<T> * (1 + 3 * kGeluB<T> * x * x);
    arguments.dx[i] = arguments.dy[i] * ((1 + tanh) / 2 + x / 2 * (1 - tanh * tanh) * inner);
  }
}

template <class T>
void swiglu_forward(const SwiGlu<T>& arguments) {
  const auto rows = static_cast<std::size_t>(arguments.shape.rows);
  const auto width = static_cast<std::size_t>(arguments.shape.width);
  for (std::size_t row = 0; row < rows; ++row) {
    const T* gate = arguments.gate_up.data() + row * 2 * width;
    const T* up = gate + width;
    for (std::size_t i = 0; i < width; ++i) {
      arguments.y[row * width + i] = gate[i] * sigmoid(gate[i]) * up[i];
    }
  }
}

// silu'(g) = σ(g) · (1 + g · (1 − σ(g))).
template <class T>
void swiglu_backward(const SwiGluBackward<T>& arguments) {
  const auto rows = static_cast<std::size_t>(arguments.shape.rows);
  const auto width = static_cast<std::size_t>(arguments.shape.width);
  for (std::size_t row = 0; row < rows; ++row) {
    const T* gate = arguments.gate_up.data() + row * 2 * width;
    const T* up = gate + width;
    T* dgate = arguments.dgate_up.data() + row * 2 * width;
    T* dup = dgate + width;
    for (std::size_t i = 0; i < width; ++i) {
      const T dy = arguments.dy[row * width + i];
      const T sigma = sigmoid(gate[i]);
      dup[i] = dy * gate[i] * sigma;
      dgate[i] = dy * up[i] * sigma * (1 + gate[i] * (1 - sigma));
    }
  }
}

template void gelu_forward(const Gelu<float>&);
template void gelu_forward(const Gelu<double>&);
template void gelu_backward(const GeluBackward<float>&);
template void gelu_backward(const GeluBackward<double>&);
template void swiglu_forward(const SwiGlu<float>&);
template void swiglu_forward(const SwiGlu<double>&);
template void swiglu_backward(const SwiGluBackward<float>&);
template void swiglu_backward(const SwiGluBackward<double>&);

}  // namespace megatwin::kernels::reference
