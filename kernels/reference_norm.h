// LayerNorm and RMSNorm in plain C++, row by row, forward and both gradients.
// RMSNorm: y = x · r · gamma with r = 1 / sqrt(mean(x²) + epsilon) (Zhang and Sennrich,
// arXiv:1910.07467, equation 4, with epsilon inside the root as in Llama). LayerNorm:
// y = (x − mean) · r · gamma + beta with r from the variance (Ba et al., arXiv:1607.06450).
#ifndef MEGATWIN_KERNELS_REFERENCE_NORM_H_
#define MEGATWIN_KERNELS_REFERENCE_NORM_H_

#include <cstdint>
#include <span>

namespace megatwin::kernels::reference {

struct NormShape {
  std::int64_t rows = 0;   // Tokens.
  std::int64_t width = 0;  // C.
};

// x, y: (rows, width); gamma, beta: (width); beta and mean empty means RMSNorm. mean, inverse:
// (rows), kept for the backward pass.
template <class T>
struct NormForward {
  NormShape shape;
  std::span<const T> x, gamma, beta;
  std::span<T> y, mean, inverse;
  T epsilon = T(1e-5);
};
template <class T>
void norm_forward(const NormForward<T>& arguments);

// dx = the gradient of the input, overwritten. May be dy.
template <class T>
struct NormBackwardInput {
  NormShape shape;
  std::span<const T> x, gamma, mean, inverse, dy;
  std::span<T> dx;
};
template <class T>
void norm_backward_input(const NormBackwardInput<T>& arguments);

// dgamma += Σ dy · normalised x, dbeta += Σ dy, over the rows in order.
template <class T>
struct NormBackwardWeight {
  NormShape shape;
  std::span<const T> x, mean, inverse, dy;
  std::span<T> dgamma, dbeta;
};
template <class T>
void norm_backward_weight(const NormBackwardWeight<T>& arguments);

}  // namespace megatwin::kernels::reference

#endif  // MEGATWIN_KERNELS_REFERENCE_NORM_H_
