// The activations of the feed-forward in plain C++: GELU in its tanh form (Hendrycks and Gimpel,
// arXiv:1606.08415, section 2) and SwiGLU (Shazeer, arXiv:2002.05202, equation 6). They have no
// weights, so only the gradient of the input.
#ifndef MEGATWIN_KERNELS_REFERENCE_ACTIVATION_H_
#define MEGATWIN_KERNELS_REFERENCE_ACTIVATION_H_

#include <cstdint>
#include <span>

namespace megatwin::kernels::reference {

// x, y, dy, dx of one size. dx may be dy.
template <class T>
struct Gelu {
  std::span<const T> x;
  std::span<T> y;
};
template <class T>
void gelu_forward(const Gelu<T>& arguments);

template <class T>
struct GeluBackward {
  std::span<const T> x, dy;
  std::span<T> dx;
};
template <class T>
void gelu_backward(const GeluBackward<T>& arguments);

struct SwiGluShape {
  std::int64_t rows = 0;   // Tokens.
  std::int64_t width = 0;  // Of the product; gate and up lie side by side in 2 · width.
};

// y = silu(gate) · up. gate_up: (rows, 2 · width), gate first; y: (rows, width).
template <class T>
struct SwiGlu {
  SwiGluShape shape;
  std::span<const T> gate_up;
  std::span<T> y;
};
template <class T>
void swiglu_forward(const SwiGlu<T>& arguments);

template <class T>
struct SwiGluBackward {
  SwiGluShape shape;
  std::span<const T> gate_up, dy;
  std::span<T> dgate_up;
};
template <class T>
void swiglu_backward(const SwiGluBackward<T>& arguments);

}  // namespace megatwin::kernels::reference

#endif  // MEGATWIN_KERNELS_REFERENCE_ACTIVATION_H_
