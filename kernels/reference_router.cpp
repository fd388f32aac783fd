#include "kernels/reference_router.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "kernels/reference_exponential.h"

namespace megatwin::kernels::reference {
namespace {

std::size_t index(std::int64_t value) { return static_cast<std::size_t>(value); }

template <class T>
void softmax(std::span<T> row) {
  exponentials(row.data(), std::ssize(row), *std::max_element(row.begin(), row.end()));
  const T sum = std::accumulate(row.begin(), row.end(), T{0});
  for (T& value : row) {
    value /= sum;
  }
}

}  // namespace

template <class T>
void router_forward(const RouterForward<T>& arguments) {
  const RouterShape& shape = arguments.shape;
  std::vector<std::int32_t> order(index(shape.experts));
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    const std::span<T> row =
        arguments.logits.subspan(index(token * shape.experts), index(shape.experts));
    softmax(row);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int32_t a, std::int32_t b) { return row[index(a)] > row[index(b)]; });
    T sum = 0;
    for (std::int64_t k = 0; k < shape.per_token; ++k) {
      arguments.choices[index(token * shape.per_token + k)] = order[index(k)];
      sum += row[index(order[index(k)])];
    }
    for (std::int64_t k = 0; k < shape.per_token; ++k) {
      const T probability = row[index(order[index(k)])];
      arguments.weights[index(token * shape.per_token + k)] =
          shape.per_token == 1 ? probability : probability / sum;
    }
  }
}

// Of a softmax with probabilities p, dlogit_i = p_i · (dp_i − Σ p_j · dp_j). The weights of k > 1
// chosen are a softmax over these alone.
template <class T>
void router_backward(const RouterBackward<T>& arguments) {
  const RouterShape& shape = arguments.shape;
  std::vector<T> dprobabilities(index(shape.experts));
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    const auto at = index(token * shape.per_token);
    const auto row = index(token * shape.experts);
    std::copy(arguments.slopes.begin(), arguments.slopes.end(), dprobabilities.begin());
    if (shape.per_token == 1) {
      dprobabilities[index(arguments.choices[at])] += arguments.dweights[at];
    }
    T mean = 0;
    for (std::size_t i = 0; i < dprobabilities.size(); ++i) {
      mean += arguments.probabilities[row + i] * dprobabilities[i];
    }
    for (std::size_t i = 0; i < dprobabilities.size(); ++i) {
      arguments.dlogits[row + i] = arguments.probabilities[row + i] * (dprobabilities[i] - mean);
    }
    if (shape.per_token == 1) {
      continue;
    }
    T chosen_mean = 0;
    for (std::size_t k = at; k < at + index(shape.per_token); ++k) {
      chosen_mean += arguments.weights[k] * arguments.dweights[k];
    }
    for (std::size_t k = at; k < at + index(shape.per_token); ++k) {
      arguments.dlogits[row + index(arguments.choices[k])] +=
          arguments.weights[k] * (arguments.dweights[k] - chosen_mean);
    }
  }
}

template void router_forward(const RouterForward<float>&);
template void router_forward(const RouterForward<double>&);
template void router_backward(const RouterBackward<float>&);
template void router_backward(const RouterBackward<double>&);

}  // namespace megatwin::kernels::reference
