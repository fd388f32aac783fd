#include "kernels/reference_linear.h"

#include <algorithm>
#include <cstddef>
#include <vector>

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

constexpr std::int64_t kPanel = 8;  // Columns that are accumulated side by side …
constexpr std::int64_t kRows = 4;   // … for that many rows at a time: all in registers.

// out (m, n), row-major = a (m, k) · b (k, n), added to what is there when `accumulate`. A panel of
// eight columns of b is packed, so that the inner loop runs over unit strides and vectorises.
template <class T>
void multiply(const ProductShape& shape, const Matrix<T>& a, const Matrix<T>& b, T* out,
              bool accumulate) {
  std::vector<T> panel(static_cast<std::size_t>(shape.k * kPanel));
  for (std::int64_t column = 0; column < shape.n; column += kPanel) {
    const std::int64_t width = std::min(kPanel, shape.n - column);
    for (std::int64_t k = 0; k < shape.k; ++k) {
      for (std::int64_t j = 0; j < kPanel; ++j) {
        panel[static_cast<std::size_t>(k * kPanel + j)] = j < width ? b.at(k, column + j) : T{0};
      }
    }
    for (std::int64_t row = 0; row < shape.m; row += kRows) {
      const std::int64_t height = std::min(kRows, shape.m - row);
      // A short block repeats its last row and stores it once.
      const T* a_row[kRows];
      for (std::int64_t i = 0; i < kRows; ++i) {
        a_row[i] = &a.at(row + std::min(i, height - 1), 0);
      }
      T sums[kRows][kPanel] = {};
      const T* b_row = panel.data();
      for (std::int64_t k = 0; k < shape.k; ++k, b_row += kPanel) {
        for (std::int64_t i = 0; i < kRows; ++i) {
          const T factor = a_row[i][k * a.column_stride];
          for (std::int64_t j = 0; j < kPanel; ++j) {
            sums[i][j] += factor * b_row[j];
          }
        }
      }
      for (std::int64_t i = 0; i < height; ++i) {
        T* to = out + (row + i) * shape.n + column;
        for (std::int64_t j = 0; j < width; ++j) {
          to[j] = accumulate ? to[j] + sums[i][j] : sums[i][j];
        }
      }
    }
  }
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
