// The oracle of every gradient: central differences in double of a weighted sum of the outputs.
#ifndef MEGATWIN_TESTS_KERNELS_CENTRAL_DIFFERENCE_H_
#define MEGATWIN_TESTS_KERNELS_CENTRAL_DIFFERENCE_H_

#include <cmath>
#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

namespace megatwin::tests {

// Numbers in (−1, 1), the same everywhere (Numerical Recipes' generator).
inline std::vector<double> numbers(std::size_t size, std::uint32_t seed) {
  std::vector<double> values(size);
  for (double& value : values) {
    seed = seed * 1664525U + 1013904223U;
    value = static_cast<double>(seed >> 8U) / 8388608.0 - 1;
  }
  return values;
}

inline double weighted_sum(const std::vector<double>& values, const std::vector<double>& weights) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += values[i] * weights[i];
  }
  return sum;
}

// Holds `gradient` against the slope of loss() in each element of `x`, which loss() reads.
template <class Loss>
void expect_gradient(std::vector<double>& x, const std::vector<double>& gradient, Loss loss,
                     const char* what) {
  constexpr double kStep = 1e-5;
  ASSERT_EQ(x.size(), gradient.size()) << what;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double here = x[i];
    x[i] = here + kStep;
    const double above = loss();
    x[i] = here - kStep;
    const double below = loss();
    x[i] = here;
    const double slope = (above - below) / (2 * kStep);
    ASSERT_NEAR(gradient[i], slope, 1e-7 * (1 + std::abs(slope))) << what << " at " << i;
  }
}

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_KERNELS_CENTRAL_DIFFERENCE_H_
