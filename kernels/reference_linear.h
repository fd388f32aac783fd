// The linear layer in plain C++: forward, gradient of the input, gradient of the weights. All three
// are one blocked matrix product. Written to be read and fast enough to train small models on a
// CPU; the instances are float, which runs, and double, which checks gradients.
// Deterministic: every element is summed in the order of the inner index, whatever the other sizes.
#ifndef MEGATWIN_KERNELS_REFERENCE_LINEAR_H_
#define MEGATWIN_KERNELS_REFERENCE_LINEAR_H_

#include <cstdint>
#include <span>

namespace megatwin::kernels::reference {

struct LinearShape {
  std::int64_t rows = 0;  // Tokens.
  std::int64_t in = 0;
  std::int64_t out = 0;
};

// y = x · weightᵀ + bias. x: (rows, in); weight: (out, in), as Hugging Face stores it; bias: (out)
// or empty; y: (rows, out), overwritten.
template <class T>
struct LinearForward {
  LinearShape shape;
  std::span<const T> x, weight, bias;
  std::span<T> y;
};
template <class T>
void linear_forward(const LinearForward<T>& arguments);

// dx = dy · weight, overwritten.
template <class T>
struct LinearBackwardInput {
  LinearShape shape;
  std::span<const T> dy, weight;
  std::span<T> dx;
};
template <class T>
void linear_backward_input(const LinearBackwardInput<T>& arguments);

// dweight += dyᵀ · x; dbias += column sums of dy, unless it is empty.
template <class T>
struct LinearBackwardWeight {
  LinearShape shape;
  std::span<const T> x, dy;
  std::span<T> dweight, dbias;
};
template <class T>
void linear_backward_weight(const LinearBackwardWeight<T>& arguments);

}  // namespace megatwin::kernels::reference

#endif  // MEGATWIN_KERNELS_REFERENCE_LINEAR_H_
