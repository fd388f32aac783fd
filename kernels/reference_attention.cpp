#include "kernels/reference_attention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace megatwin::kernels::reference {
namespace {

// Where the query of (row, head) and the key and value it reads begin in qkv.
struct Places {
  explicit Places(const AttentionShape& shape)
      : width(shape.qkv_width()),
        head_dim(shape.head_dim),
        keys_at(shape.heads * shape.head_dim),
        values_at(keys_at + shape.kv_heads * shape.head_dim),
        group(shape.heads / shape.kv_heads) {}
  std::int64_t query(std::int64_t row, std::int64_t head) const {
    return row * width + head * head_dim;
  }
  std::int64_t key(std::int64_t row, std::int64_t head) const {
    return row * width + keys_at + head / group * head_dim;
  }
  std::int64_t value(std::int64_t row, std::int64_t head) const {
    return row * width + values_at + head / group * head_dim;
  }
  std::int64_t width, head_dim, keys_at, values_at, group;
};

template <class T>
T dot(const T* a, const T* b, std::int64_t size) {
  T sum = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

template <class T>
void add_scaled(T* to, T factor, const T* from, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) {
    to[i] += factor * from[i];
  }
}

template <class T>
T score_scale(const AttentionShape& shape) {
  return 1 / std::sqrt(static_cast<T>(shape.head_dim));
}

// Calls visit(first row of the sequence, row of the query, head) for all of them in order.
template <class Visit>
void for_each_query(const AttentionShape& shape, Visit visit) {
  for (std::int64_t sequence = 0; sequence < shape.batch; ++sequence) {
    const std::int64_t first = sequence * shape.sequence;
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      for (std::int64_t row = first; row < first + shape.sequence; ++row) {
        visit(first, row, head);
      }
    }
  }
}

}  // namespace

template <class T>
void rotary(const Rotary<T>& arguments) {
  const AttentionShape& shape = arguments.shape;
  const std::int64_t half = shape.head_dim / 2;
  const double sign = arguments.direction == RotaryDirection::Forward ? 1 : -1;
  for (std::int64_t row = 0; row < shape.rows(); ++row) {
    const auto position = static_cast<double>(row % shape.sequence);
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle =
          position * std::pow(arguments.base, -static_cast<double>(i) / static_cast<double>(half));
      const T cosine = static_cast<T>(std::cos(angle));
      const T sine = static_cast<T>(sign * std::sin(angle));
      for (std::int64_t head = 0; head < shape.heads + shape.kv_heads; ++head) {
        T* x = arguments.qkv.data() + row * shape.qkv_width() + head * shape.head_dim;
        const T low = x[i];
        const T high = x[i + half];
        x[i] = low * cosine - high * sine;
        x[i + half] = high * cosine + low * sine;
      }
    }
  }
}

template <class T>
void attention_forward(const AttentionForward<T>& arguments) {
  const AttentionShape& shape = arguments.shape;
  const Places places(shape);
  const T scale = score_scale<T>(shape);
  const T* qkv = arguments.qkv.data();
  std::vector<T> weights(static_cast<std::size_t>(shape.sequence));
  for_each_query(shape, [&](std::int64_t first, std::int64_t row, std::int64_t head) {
    const T* query = qkv + places.query(row, head);
    T highest = -std::numeric_limits<T>::infinity();
    for (std::int64_t key = first; key <= row; ++key) {
      T& score = weights[static_cast<std::size_t>(key - first)];
      score = scale * dot(query, qkv + places.key(key, head), shape.head_dim);
      highest = std::max(highest, score);
    }
    T sum = 0;
    for (std::int64_t key = first; key <= row; ++key) {
      T& weight = weights[static_cast<std::size_t>(key - first)];
      weight = std::exp(weight - highest);
      sum += weight;
    }
    T* out = arguments.out.data() + row * shape.out_width() + head * shape.head_dim;
    std::fill(out, out + shape.head_dim, T{0});
    for (std::int64_t key = first; key <= row; ++key) {
      add_scaled(out, weights[static_cast<std::size_t>(key - first)] / sum,
                 qkv + places.value(key, head), shape.head_dim);
    }
    arguments.log_sums[static_cast<std::size_t>(row * shape.heads + head)] =
        highest + std::log(sum);
  });
}

// P = exp(scores − log_sum); dV += P · dO; dP = dO · V; dS = P · (dP − dO · O), times the scale;
// dQ += dS · K; dK += dS · Q.
template <class T>
void attention_backward(const AttentionBackward<T>& arguments) {
  const AttentionShape& shape = arguments.shape;
  const Places places(shape);
  const T scale = score_scale<T>(shape);
  const T* qkv = arguments.qkv.data();
  T* dqkv = arguments.dqkv.data();
  std::fill(arguments.dqkv.begin(), arguments.dqkv.end(), T{0});
  for_each_query(shape, [&](std::int64_t first, std::int64_t row, std::int64_t head) {
    const std::int64_t out_at = row * shape.out_width() + head * shape.head_dim;
    const T* dout = arguments.dout.data() + out_at;
    const T* query = qkv + places.query(row, head);
    const T log_sum = arguments.log_sums[static_cast<std::size_t>(row * shape.heads + head)];
    const T dout_out = dot(dout, arguments.out.data() + out_at, shape.head_dim);
    for (std::int64_t key = first; key <= row; ++key) {
      const std::int64_t key_at = places.key(key, head);
      const std::int64_t value_at = places.value(key, head);
      const T probability = std::exp(scale * dot(query, qkv + key_at, shape.head_dim) - log_sum);
      add_scaled(dqkv + value_at, probability, dout, shape.head_dim);
      const T dprobability = dot(dout, qkv + value_at, shape.head_dim);
      const T dscore = scale * probability * (dprobability - dout_out);
      add_scaled(dqkv + places.query(row, head), dscore, qkv + key_at, shape.head_dim);
      add_scaled(dqkv + key_at, dscore, query, shape.head_dim);
    }
  });
}

template void rotary(const Rotary<float>&);
template void rotary(const Rotary<double>&);
template void attention_forward(const AttentionForward<float>&);
template void attention_forward(const AttentionForward<double>&);
template void attention_backward(const AttentionBackward<float>&);
template void attention_backward(const AttentionBackward<double>&);

}  // namespace megatwin::kernels::reference
