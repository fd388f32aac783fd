// Both ends of the model in plain C++: the embedding and the cross-entropy. A rank may hold a slice
// [first, first + size) of the vocabulary; with the whole one the slice is everything.
#ifndef MEGATWIN_KERNELS_REFERENCE_VOCABULARY_H_
#define MEGATWIN_KERNELS_REFERENCE_VOCABULARY_H_

#include <cstdint>
#include <span>

namespace megatwin::kernels::reference {

struct VocabularySlice {
  std::int64_t first = 0;
  std::int64_t size = 0;
};

// y = the row of each token, or zero when another rank has it. weight: (size, width); y: (tokens,
// width), overwritten.
template <class T>
struct EmbeddingForward {
  VocabularySlice slice;
  std::int64_t width = 0;
  std::span<const std::int32_t> tokens;
  std::span<const T> weight;
  std::span<T> y;
};
template <class T>
void embedding_forward(const EmbeddingForward<T>& arguments);

// dweight += dy, token by token in order.
template <class T>
struct EmbeddingBackwardWeight {
  VocabularySlice slice;
  std::int64_t width = 0;
  std::span<const std::int32_t> tokens;
  std::span<const T> dy;
  std::span<T> dweight;
};
template <class T>
void embedding_backward_weight(const EmbeddingBackwardWeight<T>& arguments);

// The cross-entropy comes in three steps, so that ranks with slices can combine between them: the
// largest logit of a row (max over ranks), then Σ exp(logit − largest) and the target's
// logit − largest (sums over ranks; the latter 0 where another rank has the target), then the loss
// log(sum) − target and its gradient. logits: (tokens, size); all else: (tokens).
template <class T>
struct RowMax {
  VocabularySlice slice;
  std::span<const T> logits;
  std::span<T> largest;
};
template <class T>
void row_max(const RowMax<T>& arguments);

template <class T>
struct RowSums {
  VocabularySlice slice;
  std::span<const std::int32_t> targets;
  std::span<const T> logits, largest;
  std::span<T> sums, target_logits;
};
template <class T>
void row_sums(const RowSums<T>& arguments);

// logits become scale · (softmax − one at the target).
template <class T>
struct CrossEntropyBackward {
  VocabularySlice slice;
  std::span<const std::int32_t> targets;
  std::span<const T> largest, sums;
  T scale = 1;
  std::span<T> logits;
};
template <class T>
void cross_entropy_backward(const CrossEntropyBackward<T>& arguments);

}  // namespace megatwin::kernels::reference

#endif  // MEGATWIN_KERNELS_REFERENCE_VOCABULARY_H_
