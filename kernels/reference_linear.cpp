#include "kernels/reference_linear.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "kernels/reference_registers.h"

namespace megatwin::kernels::reference {
namespace {

// Element (row, column) lies at data[row · row_stride + column · column_stride].
template <class T>
struct Matrix {
  const T* data;
  std::int64_t row_stride, column_stride;
  const T& at(std::int64_t row, std::int64_t column) const {
    return data[row * row_stride + column * column_stride];
  }
};

struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0;
};

// `count` rows of a, laid side by side by k, zeros behind the last row.
template <class T>
void pack_rows(const ProductShape& shape, const Matrix<T>& a, std::int64_t count, T* packed) {
  for (std::int64_t row = 0; row < shape.m; row += count) {
    for (std::int64_t k = 0; k < shape.k; ++k) {
      for (std::int64_t i = 0; i < count; ++i) {
        *packed++ = row + i < shape.m ? a.at(row + i, k) : T{0};
      }
    }
  }
}

// Columns [first, first + count) of b, likewise.
template <class T>
void pack_panel(const ProductShape& shape, const Matrix<T>& b, std::int64_t first,
                std::int64_t count, T* packed) {
  const std::int64_t width = std::min(count, shape.n - first);
  for (std::int64_t k = 0; k < shape.k; ++k, packed += count) {
    for (std::int64_t j = 0; j < count; ++j) {
      packed[j] = j < width ? b.at(k, first + j) : T{0};
    }
  }
}

// out (m, n), row-major = a (m, k) · b (k, n), added to what is there when `accumulate`.
template <class T>
struct Product {
  ProductShape shape;
  Matrix<T> a, b;
  T* out;
  bool accumulate;

  // Blocks of some rows and two vectors of columns are summed in registers over packed copies.
  template <int bytes>
  [[gnu::always_inline]] void run() const {
    // NOLINTNEXTLINE(modernize-use-using): gcc drops the attribute from an alias.
    typedef T Vector __attribute__((vector_size(bytes)));
    constexpr std::int64_t kRows = bytes == 64 ? 8 : bytes == 32 ? 6 : 4;
    constexpr std::int64_t kWidth = bytes / sizeof(T);
    constexpr std::int64_t kPanel = 2 * kWidth;
    const std::int64_t blocks = (shape.m + kRows - 1) / kRows;
    std::vector<T> rows(static_cast<std::size_t>(blocks * kRows * shape.k));
    std::vector<T> panel(static_cast<std::size_t>(shape.k * kPanel));
    pack_rows(shape, a, kRows, rows.data());
    for (std::int64_t column = 0; column < shape.n; column += kPanel) {
      pack_panel(shape, b, column, kPanel, panel.data());
      for (std::int64_t row = 0; row < shape.m; row += kRows) {
        const T* a_at = rows.data() + row * shape.k;
        const T* b_at = panel.data();
        Vector sums[kRows][2] = {};
        for (std::int64_t k = 0; k < shape.k; ++k, a_at += kRows, b_at += kPanel) {
          Vector left, right;
          std::memcpy(&left, b_at, sizeof(Vector));
          std::memcpy(&right, b_at + kWidth, sizeof(Vector));
          for (std::int64_t i = 0; i < kRows; ++i) {
            sums[i][0] += a_at[i] * left;
            sums[i][1] += a_at[i] * right;
          }
        }
        T block[kRows * kPanel];
        std::memcpy(block, sums, sizeof(sums));
        store(row, std::min(kRows, shape.m - row), column, kPanel, block);
      }
    }
  }

 private:
  void store(std::int64_t row, std::int64_t height, std::int64_t column, std::int64_t panel,
             const T* block) const {
    const std::int64_t width = std::min(panel, shape.n - column);
    for (std::int64_t i = 0; i < height; ++i, block += panel) {
      T* to = out + (row + i) * shape.n + column;
      for (std::int64_t j = 0; j < width; ++j) {
        to[j] = accumulate ? to[j] + block[j] : block[j];
      }
    }
  }
};

template <class T>
void multiply(const ProductShape& shape, const Matrix<T>& a, const Matrix<T>& b, T* out,
              bool accumulate) {
  run_with_widest_registers(Product<T>{shape, a, b, out, accumulate});
}

}  // namespace

template <class T>
void linear_forward(const LinearForward<T>& arguments) {
  const auto [rows, in, out] = arguments.shape;
  multiply<T>({rows, out, in}, {arguments.x.data(), in, 1}, {arguments.weight.data(), 1, in},
              arguments.y.data(), false);
  if (arguments.bias.empty()) {
    return;
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t j = 0; j < out; ++j) {
      arguments.y[static_cast<std::size_t>(row * out + j)] +=
          arguments.bias[static_cast<std::size_t>(j)];
    }
  }
}

template <class T>
void linear_backward_input(const LinearBackwardInput<T>& arguments) {
  const auto [rows, in, out] = arguments.shape;
  multiply<T>({rows, in, out}, {arguments.dy.data(), out, 1}, {arguments.weight.data(), in, 1},
              arguments.dx.data(), false);
}

template <class T>
void linear_backward_weight(const LinearBackwardWeight<T>& arguments) {
  const auto [rows, in, out] = arguments.shape;
  multiply<T>({out, in, rows}, {arguments.dy.data(), 1, out}, {arguments.x.data(), in, 1},
              arguments.dweight.data(), true);
  if (arguments.dbias.empty()) {
    return;
  }
  for (std::int64_t j = 0; j < out; ++j) {
    T sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      sum += arguments.dy[static_cast<std::size_t>(row * out + j)];
    }
    arguments.dbias[static_cast<std::size_t>(j)] += sum;
  }
}

template void linear_forward(const LinearForward<float>&);
template void linear_forward(const LinearForward<double>&);
template void linear_backward_input(const LinearBackwardInput<float>&);
template void linear_backward_input(const LinearBackwardInput<double>&);
template void linear_backward_weight(const LinearBackwardWeight<float>&);
template void linear_backward_weight(const LinearBackwardWeight<double>&);

}  // namespace megatwin::kernels::reference
