// The router of a mixture of experts in plain C++: which experts a token visits and with what
// weight, and the gradient of its logits.
#ifndef MEGATWIN_KERNELS_REFERENCE_ROUTER_H_
#define MEGATWIN_KERNELS_REFERENCE_ROUTER_H_

#include <cstdint>
#include <span>

namespace megatwin::kernels::reference {

struct RouterShape {
  std::int64_t tokens = 0;
  std::int64_t experts = 0;
  std::int64_t per_token = 0;  // k.
};

// logits (tokens, experts) become probabilities, their softmax. choices (tokens, k): the most
// probable experts, the lower number first of equals. weights (tokens, k): the probabilities of the
// chosen over their sum (Jiang et al., arXiv:2401.04088, section 2.1); with k = 1 the probability
// itself (Fedus et al., arXiv:2101.03961, equation 2), else the router would learn nothing.
template <class T>
struct RouterForward {
  RouterShape shape;
  std::span<T> logits;
  std::span<std::int32_t> choices;
  std::span<T> weights;
};
template <class T>
void router_forward(const RouterForward<T>& arguments);

// dlogits, overwritten, from dweights (tokens, k) and from a loss that is linear in every token's
// probabilities with the given slopes (experts).
template <class T>
struct RouterBackward {
  RouterShape shape;
  std::span<const T> probabilities;
  std::span<const std::int32_t> choices;
  std::span<const T> weights, dweights, slopes;
  std::span<T> dlogits;
};
template <class T>
void router_backward(const RouterBackward<T>& arguments);

}  // namespace megatwin::kernels::reference

#endif  // MEGATWIN_KERNELS_REFERENCE_ROUTER_H_
