#include "kernels/reference_attention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/reference_exponential.h"
#include "kernels/reference_registers.h"

namespace megatwin::kernels::reference {
namespace {

template <class T>
[[gnu::always_inline]] inline void add_scaled(T* to, T factor, const T* from, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) {
    to[i] += factor * from[i];
  }
}

// to[j] = Σ_i row[i] · columns[i · stride + j] over `size` numbers i, for `count` columns.
template <int bytes, class T>
[[gnu::always_inline]] inline void sum_rows(T* to, std::int64_t count, const T* row,
                                            const T* columns, std::int64_t stride,
                                            std::int64_t size) {
  // NOLINTNEXTLINE(modernize-use-using): gcc drops the attribute from an alias.
  typedef T Vector __attribute__((vector_size(bytes)));
  constexpr std::int64_t kBlock = 2 * (bytes / sizeof(T));  // Columns that are summed in registers.
  std::int64_t first = 0;
  for (; first + kBlock <= count; first += kBlock) {
    Vector sums[2] = {};
    for (std::int64_t i = 0; i < size; ++i) {
      Vector parts[2];
      std::memcpy(parts, columns + i * stride + first, sizeof(parts));
      sums[0] += row[i] * parts[0];
      sums[1] += row[i] * parts[1];
    }
    std::memcpy(to + first, sums, sizeof(sums));
  }
  std::fill(to + first, to + count, T{0});
  for (std::int64_t i = 0; i < size && first < count; ++i) {
    add_scaled(to + first, row[i], columns + i * stride + first, count - first);
  }
}

// columns (size, rows) = the transposed of rows that lie `stride` apart.
template <class T>
void transpose(const T* from, std::int64_t rows, std::int64_t stride, std::int64_t size,
               T* columns) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < size; ++i) {
      columns[i * rows + row] = from[row * stride + i];
    }
  }
}

template <class T>
T score_scale(const AttentionShape& shape) {
  return 1 / std::sqrt(static_cast<T>(shape.head_dim));
}

// Keys and values of some rows: row r of head h is at data + r · stride + h · head_dim.
template <class T>
struct Rows {
  T* keys;
  T* values;
  std::int64_t stride;
};

template <class T>
Rows<T> rows_of_qkv(const AttentionShape& shape, T* qkv) {
  T* keys = qkv + shape.heads * shape.head_dim;
  return {keys, keys + shape.kv_heads * shape.head_dim, shape.qkv_width()};
}
template <class T>
Rows<T> rows_of_block(const AttentionShape& shape, T* keys_values) {
  return {keys_values, keys_values + shape.kv_heads * shape.head_dim, shape.key_value_width()};
}

// How many keys each query of a sequence sees: they are the first ones, since positions ascend.
std::vector<std::int64_t> visible_keys(const AttentionShape& shape, const RingPositions& at) {
  std::vector<std::int64_t> visible(static_cast<std::size_t>(shape.sequence));
  for (std::int64_t row = 0; row < shape.sequence; ++row) {
    const auto index = static_cast<std::size_t>(row);
    visible[index] =
        at.keys.empty()
            ? row + 1
            : std::upper_bound(at.keys.begin(), at.keys.end(), at.queries[index]) - at.keys.begin();
  }
  return visible;
}

// One block of keys for all queries.
template <class T>
struct Forward {
  AttentionShape shape;
  const T* qkv;
  Rows<const T> block;
  const std::int64_t* visible;  // By row of a sequence.
  bool first;
  T* out;
  T* log_sums;

  template <int bytes>
  [[gnu::always_inline]] void run() const {
    const T scale = score_scale<T>(shape);
    const std::int64_t size = shape.head_dim;
    const auto length = static_cast<std::size_t>(shape.sequence);
    std::vector<T> keys(length * static_cast<std::size_t>(size));
    std::vector<T> weights(length);
    std::vector<T> sums(static_cast<std::size_t>(size));
    for (std::int64_t pair = 0; pair < shape.batch * shape.heads; ++pair) {
      const std::int64_t begin = pair / shape.heads * shape.sequence;
      const std::int64_t head = pair % shape.heads;
      const std::int64_t at = begin * block.stride + shape.key_head(head) * size;
      transpose(block.keys + at, shape.sequence, block.stride, size, keys.data());
      for (std::int64_t row = 0; row < shape.sequence; ++row) {
        const std::int64_t count = visible[row];
        if (count == 0 && !first) {
          continue;
        }
        const T* query = qkv + (begin + row) * shape.qkv_width() + head * size;
        sum_rows<bytes>(weights.data(), count, query, keys.data(), shape.sequence, size);
        T highest = -std::numeric_limits<T>::infinity();
        for (std::int64_t key = 0; key < count; ++key) {
          weights[static_cast<std::size_t>(key)] *= scale;
          highest = std::max(highest, weights[static_cast<std::size_t>(key)]);
        }
        exponentials(weights.data(), count, highest);
        T sum = 0;
        for (std::int64_t key = 0; key < count; ++key) {
          sum += weights[static_cast<std::size_t>(key)];
        }
        for (std::int64_t key = 0; key < count; ++key) {
          weights[static_cast<std::size_t>(key)] /= sum;
        }
        sum_rows<bytes>(sums.data(), size, weights.data(), block.values + at, block.stride, count);
        merge(begin + row, head, highest + std::log(sum), sums.data());
      }
    }
  }

 private:
  // The softmax over two sets of keys from that over each: weighted by its share of the sum.
  void merge(std::int64_t row, std::int64_t head, T log_sum, const T* sums) const {
    T* to = out + row * shape.out_width() + head * shape.head_dim;
    T& log_sum_before = log_sums[row * shape.heads + head];
    if (first) {
      std::copy(sums, sums + shape.head_dim, to);
      log_sum_before = log_sum;
      return;
    }
    const T highest = std::max(log_sum, log_sum_before);
    const T all =
        highest + std::log(std::exp(log_sum - highest) + std::exp(log_sum_before - highest));
    const T share = std::exp(log_sum - all);
    const T share_before = std::exp(log_sum_before - all);
    for (std::int64_t i = 0; i < shape.head_dim; ++i) {
      to[i] = share_before * to[i] + share * sums[i];
    }
    log_sum_before = all;
  }
};

// P = exp(scores − log_sum); dV += P · dO; dP = dO · V; dS = P · (dP − dO · O), times the scale;
// dQ += dS · K; dK += dS · Q.
template <class T>
struct Backward {
  AttentionShape shape;
  const T* qkv;
  Rows<const T> block;
  const std::int64_t* visible;
  const T* out;
  const T* log_sums;
  const T* dout;
  T* dqkv;
  Rows<T> dblock;

  template <int bytes>
  [[gnu::always_inline]] void run() const {
    const T scale = score_scale<T>(shape);
    const std::int64_t size = shape.head_dim;
    const auto length = static_cast<std::size_t>(shape.sequence);
    std::vector<T> keys(length * static_cast<std::size_t>(size));
    std::vector<T> values(keys.size());
    std::vector<T> probabilities(length);
    std::vector<T> dscores(length);
    std::vector<T> dquery(static_cast<std::size_t>(size));
    for (std::int64_t pair = 0; pair < shape.batch * shape.heads; ++pair) {
      const std::int64_t begin = pair / shape.heads * shape.sequence;
      const std::int64_t head = pair % shape.heads;
      const std::int64_t at = begin * block.stride + shape.key_head(head) * size;
      const std::int64_t dat = begin * dblock.stride + shape.key_head(head) * size;
      transpose(block.keys + at, shape.sequence, block.stride, size, keys.data());
      transpose(block.values + at, shape.sequence, block.stride, size, values.data());
      for (std::int64_t row = 0; row < shape.sequence; ++row) {
        const std::int64_t count = visible[row];
        const std::int64_t query_at = (begin + row) * shape.qkv_width() + head * size;
        const std::int64_t out_at = (begin + row) * shape.out_width() + head * size;
        const T log_sum = log_sums[(begin + row) * shape.heads + head];
        T dout_out = 0;
        for (std::int64_t i = 0; i < size; ++i) {
          dout_out += dout[out_at + i] * out[out_at + i];
        }
        sum_rows<bytes>(probabilities.data(), count, qkv + query_at, keys.data(), shape.sequence,
                        size);
        sum_rows<bytes>(dscores.data(), count, dout + out_at, values.data(), shape.sequence, size);
        for (std::int64_t key = 0; key < count; ++key) {
          probabilities[static_cast<std::size_t>(key)] *= scale;
        }
        exponentials(probabilities.data(), count, log_sum);
        for (std::int64_t key = 0; key < count; ++key) {
          const auto index = static_cast<std::size_t>(key);
          dscores[index] = scale * probabilities[index] * (dscores[index] - dout_out);
          T* dkey = dblock.keys + dat + key * dblock.stride;
          T* dvalue = dblock.values + dat + key * dblock.stride;
          add_scaled(dvalue, probabilities[index], dout + out_at, size);
          add_scaled(dkey, dscores[index], qkv + query_at, size);
        }
        sum_rows<bytes>(dquery.data(), size, dscores.data(), block.keys + at, block.stride, count);
        add_scaled(dqkv + query_at, T{1}, dquery.data(), size);
      }
    }
  }
};

}  // namespace

template <class T>
void rotary(const Rotary<T>& arguments) {
  const AttentionShape& shape = arguments.shape;
  const std::int64_t half = shape.head_dim / 2;
  const double sign = arguments.direction == RotaryDirection::Forward ? 1 : -1;
  for (std::int64_t i = 0; i < half; ++i) {
    const double frequency =
        std::pow(arguments.base, -static_cast<double>(i) / static_cast<double>(half));
    for (std::int64_t place = 0; place < shape.sequence; ++place) {
      const std::int64_t position = arguments.positions.empty()
                                        ? place
                                        : arguments.positions[static_cast<std::size_t>(place)];
      const double angle = static_cast<double>(position) * frequency;
      const T cosine = static_cast<T>(std::cos(angle));
      const T sine = static_cast<T>(sign * std::sin(angle));
      for (std::int64_t sequence = 0; sequence < shape.batch; ++sequence) {
        const std::int64_t row = sequence * shape.sequence + place;
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
}

template <class T>
void attention_forward(const AttentionForward<T>& arguments) {
  const std::vector<std::int64_t> visible = visible_keys(arguments.shape, {});
  run_with_widest_registers(Forward<T>{.shape = arguments.shape,
                                       .qkv = arguments.qkv.data(),
                                       .block = rows_of_qkv(arguments.shape, arguments.qkv.data()),
                                       .visible = visible.data(),
                                       .first = true,
                                       .out = arguments.out.data(),
                                       .log_sums = arguments.log_sums.data()});
}

template <class T>
void attention_backward(const AttentionBackward<T>& arguments) {
  const std::vector<std::int64_t> visible = visible_keys(arguments.shape, {});
  std::fill(arguments.dqkv.begin(), arguments.dqkv.end(), T{0});
  run_with_widest_registers(
      Backward<T>{.shape = arguments.shape,
                  .qkv = arguments.qkv.data(),
                  .block = rows_of_qkv(arguments.shape, arguments.qkv.data()),
                  .visible = visible.data(),
                  .out = arguments.out.data(),
                  .log_sums = arguments.log_sums.data(),
                  .dout = arguments.dout.data(),
                  .dqkv = arguments.dqkv.data(),
                  .dblock = rows_of_qkv(arguments.shape, arguments.dqkv.data())});
}

template <class T>
void ring_attention_forward(const RingAttentionForward<T>& arguments) {
  const std::vector<std::int64_t> visible = visible_keys(arguments.shape, arguments.positions);
  run_with_widest_registers(
      Forward<T>{.shape = arguments.shape,
                 .qkv = arguments.qkv.data(),
                 .block = rows_of_block(arguments.shape, arguments.keys_values.data()),
                 .visible = visible.data(),
                 .first = arguments.first,
                 .out = arguments.out.data(),
                 .log_sums = arguments.log_sums.data()});
}

template <class T>
void ring_attention_backward(const RingAttentionBackward<T>& arguments) {
  const std::vector<std::int64_t> visible = visible_keys(arguments.shape, arguments.positions);
  run_with_widest_registers(
      Backward<T>{.shape = arguments.shape,
                  .qkv = arguments.qkv.data(),
                  .block = rows_of_block(arguments.shape, arguments.keys_values.data()),
                  .visible = visible.data(),
                  .out = arguments.out.data(),
                  .log_sums = arguments.log_sums.data(),
                  .dout = arguments.dout.data(),
                  .dqkv = arguments.dqkv.data(),
                  .dblock = rows_of_block(arguments.shape, arguments.dkeys_values.data())});
}

template void rotary(const Rotary<float>&);
template void rotary(const Rotary<double>&);
template void attention_forward(const AttentionForward<float>&);
template void attention_forward(const AttentionForward<double>&);
template void attention_backward(const AttentionBackward<float>&);
template void attention_backward(const AttentionBackward<double>&);
template void ring_attention_forward(const RingAttentionForward<float>&);
template void ring_attention_forward(const RingAttentionForward<double>&);
template void ring_attention_backward(const RingAttentionBackward<float>&);
template void ring_attention_backward(const RingAttentionBackward<double>&);

}  // namespace megatwin::kernels::reference
