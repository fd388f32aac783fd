// Causal attention with grouped queries and rotary positions in plain C++. Queries, keys and values
// lie in one buffer as the fused projection writes them.
#ifndef MEGATWIN_KERNELS_REFERENCE_ATTENTION_H_
#define MEGATWIN_KERNELS_REFERENCE_ATTENTION_H_

#include <cstdint>
#include <span>

namespace megatwin::kernels::reference {

// Token t of sequence b is row b · sequence + t. A row of qkv holds `heads` queries, then
// `kv_heads` keys, then `kv_heads` values, each of head_dim numbers. Query head h reads key head
// h div (heads div kv_heads). Requires: kv_heads divides heads; head_dim is even for rotation.
struct AttentionShape {
  std::int64_t batch = 0;  // Sequences.
  std::int64_t sequence = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;

  std::int64_t rows() const { return batch * sequence; }
  std::int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_dim; }
  std::int64_t key_value_width() const { return 2 * kv_heads * head_dim; }
  std::int64_t out_width() const { return heads * head_dim; }
  std::int64_t key_head(std::int64_t head) const { return head / (heads / kv_heads); }
};

// Rotates queries and keys in place by their position, halves split as Hugging Face does
// (Su et al., arXiv:2104.09864, equation 34); the inverse turns back, which is also the gradient.
enum class RotaryDirection { Forward, Inverse };
template <class T>
struct Rotary {
  AttentionShape shape;
  std::span<T> qkv;
  RotaryDirection direction = RotaryDirection::Forward;
  std::span<const std::int64_t> positions = {};  // Of the rows of a sequence; empty for 0, 1, 2, …
  double base = 10000;
};
template <class T>
void rotary(const Rotary<T>& arguments);

// out = softmax(q · kᵀ / sqrt(head_dim), causal) · v. qkv: (rows, qkv_width); out: (rows,
// out_width); log_sums: (rows, heads), the logarithm of each softmax's denominator, kept for the
// backward pass.
template <class T>
struct AttentionForward {
  AttentionShape shape;
  std::span<const T> qkv;
  std::span<T> out, log_sums;
};
template <class T>
void attention_forward(const AttentionForward<T>& arguments);

// dqkv, overwritten, from dout; the probabilities are computed again from log_sums.
// Source: Dao et al., arXiv:2205.14135, appendix B.2.
template <class T>
struct AttentionBackward {
  AttentionShape shape;
  std::span<const T> qkv, out, log_sums, dout;
  std::span<T> dqkv;
};
template <class T>
void attention_backward(const AttentionBackward<T>& arguments);

// A step of ring attention (Liu et al., arXiv:2310.01889, algorithm 1): the queries of one rank
// against the keys and values of another, whose rows of a sequence are at other positions.
struct RingPositions {
  std::span<const std::int64_t> queries, keys;  // (sequence) each, ascending.
};

// Reads the queries in qkv and a block of keys, then values: (rows, key_value_width). The first
// block overwrites out and log_sums, each other one is merged into them. Requires: every query sees
// a key of the first block.
template <class T>
struct RingAttentionForward {
  AttentionShape shape;
  RingPositions positions;
  bool first = false;
  std::span<const T> qkv, keys_values;
  std::span<T> out, log_sums;
};
template <class T>
void ring_attention_forward(const RingAttentionForward<T>& arguments);

// Adds to the gradients of the queries in dqkv, and of the block in dkeys_values. out and log_sums
// are those over all blocks.
template <class T>
struct RingAttentionBackward {
  AttentionShape shape;
  RingPositions positions;
  std::span<const T> qkv, keys_values, out, log_sums, dout;
  std::span<T> dqkv, dkeys_values;
};
template <class T>
void ring_attention_backward(const RingAttentionBackward<T>& arguments);

}  // namespace megatwin::kernels::reference

#endif  // MEGATWIN_KERNELS_REFERENCE_ATTENTION_H_
