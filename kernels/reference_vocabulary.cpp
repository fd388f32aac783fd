#include "kernels/reference_vocabulary.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "kernels/reference_exponential.h"

namespace megatwin::kernels::reference {
namespace {

// Index of `token` in the slice, or `slice.size` when it is elsewhere.
std::size_t place_in(const VocabularySlice& slice, std::int32_t token) {
  const std::int64_t place = token - slice.first;
  return static_cast<std::size_t>(place >= 0 && place < slice.size ? place : slice.size);
}

}  // namespace

template <class T>
void embedding_forward(const EmbeddingForward<T>& arguments) {
  const auto width = static_cast<std::size_t>(arguments.width);
  for (std::size_t row = 0; row < arguments.tokens.size(); ++row) {
    const std::size_t place = place_in(arguments.slice, arguments.tokens[row]);
    const bool here = place < static_cast<std::size_t>(arguments.slice.size);
    for (std::size_t i = 0; i < width; ++i) {
      arguments.y[row * width + i] = here ? arguments.weight[place * width + i] : T{0};
    }
  }
}

template <class T>
void embedding_backward_weight(const EmbeddingBackwardWeight<T>& arguments) {
  const auto width = static_cast<std::size_t>(arguments.width);
  for (std::size_t row = 0; row < arguments.tokens.size(); ++row) {
    const std::size_t place = place_in(arguments.slice, arguments.tokens[row]);
    if (place == static_cast<std::size_t>(arguments.slice.size)) {
      continue;
    }
    for (std::size_t i = 0; i < width; ++i) {
      arguments.dweight[place * width + i] += arguments.dy[row * width + i];
    }
  }
}

template <class T>
void row_max(const RowMax<T>& arguments) {
  const auto size = static_cast<std::size_t>(arguments.slice.size);
  for (std::size_t row = 0; row < arguments.largest.size(); ++row) {
    const T* logits = arguments.logits.data() + row * size;
    arguments.largest[row] = *std::max_element(logits, logits + size);
  }
}

template <class T>
void row_sums(const RowSums<T>& arguments) {
  const auto size = static_cast<std::size_t>(arguments.slice.size);
  std::vector<T> weights(size);
  for (std::size_t row = 0; row < arguments.targets.size(); ++row) {
    const T* logits = arguments.logits.data() + row * size;
    std::copy(logits, logits + size, weights.begin());
    exponentials(weights.data(), arguments.slice.size, arguments.largest[row]);
    arguments.sums[row] = std::accumulate(weights.begin(), weights.end(), T{0});
    const std::size_t place = place_in(arguments.slice, arguments.targets[row]);
    arguments.target_logits[row] = place < size ? logits[place] - arguments.largest[row] : T{0};
  }
}

template <class T>
void cross_entropy_backward(const CrossEntropyBackward<T>& arguments) {
  const auto size = static_cast<std::size_t>(arguments.slice.size);
  for (std::size_t row = 0; row < arguments.targets.size(); ++row) {
    T* logits = arguments.logits.data() + row * size;
    const std::size_t place = place_in(arguments.slice, arguments.targets[row]);
    exponentials(logits, arguments.slice.size, arguments.largest[row]);
    for (std::size_t i = 0; i < size; ++i) {
      const T probability = logits[i] / arguments.sums[row];
      logits[i] = arguments.scale * (probability - (i == place ? T{1} : T{0}));
    }
  }
}

template void embedding_forward(const EmbeddingForward<float>&);
template void embedding_forward(const EmbeddingForward<double>&);
template void embedding_backward_weight(const EmbeddingBackwardWeight<float>&);
template void embedding_backward_weight(const EmbeddingBackwardWeight<double>&);
template void row_max(const RowMax<float>&);
template void row_max(const RowMax<double>&);
template void row_sums(const RowSums<float>&);
template void row_sums(const RowSums<double>&);
template void cross_entropy_backward(const CrossEntropyBackward<float>&);
template void cross_entropy_backward(const CrossEntropyBackward<double>&);

}  // namespace megatwin::kernels::reference
