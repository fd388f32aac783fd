#include "kernels/rms_norm.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kernels/bf16.h"

namespace megatwin::kernels {
namespace {

struct Result {
  std::vector<float> out, inverse_rms;
};

Result run(const RmsNormShape& shape, const std::vector<float>& x, const std::vector<float>& gamma,
           float epsilon) {
  Result result;
  result.out.resize(x.size());
  result.inverse_rms.resize(static_cast<std::size_t>(shape.rows));
  rms_norm_forward_reference({.shape = shape,
                              .x = x,
                              .gamma = gamma,
                              .out = result.out,
                              .inverse_rms = result.inverse_rms,
                              .epsilon = epsilon});
  return result;
}

TEST(RmsNormReference, WorkedByHand) {
  // x = (3, 4): mean of squares 12.5, so 1/sqrt(12.5) = 0.2828427; times gamma (1, 2).
  const Result result = run({.rows = 1, .width = 2}, {3, 4}, {1, 2}, 0);
  EXPECT_FLOAT_EQ(result.inverse_rms[0], 0.2828427F);
  EXPECT_FLOAT_EQ(result.out[0], 0.8485281F);
  EXPECT_FLOAT_EQ(result.out[1], 2.2627417F);
}

TEST(RmsNormReference, EpsilonKeepsAZeroRowFinite) {
  const Result result = run({.rows = 1, .width = 3}, {0, 0, 0}, {1, 1, 1}, 1e-4F);
  EXPECT_FLOAT_EQ(result.inverse_rms[0], 100);
  EXPECT_EQ(result.out, (std::vector<float>{0, 0, 0}));
}

TEST(RmsNormReference, EveryRowOfAnUglyShapeHasUnitMeanSquare) {
  for (const std::int64_t width : {1, 31, 257, 4099}) {
    const RmsNormShape shape{.rows = 7, .width = width};
    std::vector<float> x(static_cast<std::size_t>(shape.rows * width));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 23) - 10.5F;
    const Result result = run(shape, x, std::vector<float>(static_cast<std::size_t>(width), 1), 0);
    for (std::size_t row = 0; row < 7; ++row) {
      double squares = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(width); ++i) {
        squares += std::pow(result.out[row * static_cast<std::size_t>(width) + i], 2);
      }
      EXPECT_NEAR(squares / static_cast<double>(width), 1, 1e-6) << width << " row " << row;
    }
  }
}

TEST(RmsNormReference, OfNoRowsIsNothing) {
  EXPECT_TRUE(run({.rows = 0, .width = 4}, {}, {1, 1, 1, 1}, 0).out.empty());
}

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(tests::from_bf16(tests::to_bf16(1.0F)), 1.0F);
  // Steps of 1/128 above 1: 1 + 1/256 lies in the middle and goes to the even 1.
  EXPECT_EQ(tests::from_bf16(tests::to_bf16(1.00390625F)), 1.0F);
  EXPECT_EQ(tests::from_bf16(tests::to_bf16(1.01171875F)), 1.015625F);
}

}  // namespace
}  // namespace megatwin::kernels
