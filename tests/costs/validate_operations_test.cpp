#include "sim/validate_operations.h"

#include <gtest/gtest.h>

#include "scenarios/gpu_profile_reader.h"
#include "tests/costs/gpus.h"

namespace megatwin::sim {
namespace {

scenarios::OperationRow gemm_row(int line, double ms) {
  scenarios::OperationRow row;
  row.line = line;
  row.kind = "gemm";
  row.dtype = "bf16";
  row.layout = "TN";
  row.m = row.n = row.k = 4096;
  row.time = model::Seconds{ms * 1e-3};
  return row;
}

TEST(ValidateOperations, CountsWhatItCannotPredict) {
  scenarios::OperationRow unknown;
  unknown.line = 2;
  unknown.kind = "dance";
  scenarios::OperationRow untimed = gemm_row(3, 1);
  untimed.time.reset();
  const OperationValidation result =
      validate_operations({gemm_row(1, 0.2), unknown, untimed}, tests::h200(),
                          scenarios::gpu_profile(tests::h200()).value());
  ASSERT_EQ(result.rows.size(), 3U);
  EXPECT_EQ(result.predicted, 1);
  EXPECT_EQ(result.rows[1].reason, "kind 'dance' is not modelled");
  EXPECT_EQ(result.rows[2].reason, "no measured time");
  ASSERT_EQ(result.groups.size(), 2U);
  EXPECT_EQ(result.groups[1].group, "gemm bf16");
  EXPECT_EQ(result.groups[1].rows, 2);
  EXPECT_EQ(result.groups[1].scored, 1);
  EXPECT_NEAR(result.groups[1].median_abs_error, std::abs(result.rows[0].error), 1e-12);
}

// Errors −10 %, 0, +30 %: median 10 %, p90 between 10 and 30 at 0.8 of the way, bias 0.
TEST(ValidateOperations, SummarisesGroups) {
  const auto row = [](double predicted, double measured) {
    OperationCheck check;
    check.group = "g";
    check.predicted = {predicted};
    check.measured = {measured};
    check.error = predicted / measured - 1;
    check.scored = true;
    return check;
  };
  const OperationValidation result = summarise_operations({row(0.9, 1), row(2, 2), row(3.9, 3)});
  ASSERT_EQ(result.groups.size(), 1U);
  EXPECT_NEAR(result.groups[0].median_abs_error, 0.1, 1e-12);
  EXPECT_NEAR(result.groups[0].p90_abs_error, 0.26, 1e-12);
  EXPECT_NEAR(result.groups[0].bias, 0, 1e-12);
  EXPECT_NEAR(result.groups[0].worst, 0.3, 1e-12);
  EXPECT_EQ(result.groups[0].rank_correlation, 1.0);
}

// Attention gives two judged times.
TEST(ValidateOperations, JudgesForwardAndBackward) {
  scenarios::OperationRow row;
  row.line = 1;
  row.kind = "attn";
  row.backend = "cudnn";
  row.causal = true;
  row.batch = 1;
  row.heads = 32;
  row.key_value_heads = 8;
  row.length = 8192;
  row.head_dim = 128;
  row.forward = model::Seconds{0.902e-3};
  row.backward = model::Seconds{2.647e-3};
  const OperationValidation result =
      validate_operations({row}, tests::h200(), scenarios::gpu_profile(tests::h200()).value());
  ASSERT_EQ(result.rows.size(), 2U);
  EXPECT_EQ(result.rows[1].id, "line 1 backward");
  EXPECT_LT(std::abs(result.rows[0].error), 0.15);
  EXPECT_LT(std::abs(result.rows[1].error), 0.15);
}

}  // namespace
}  // namespace megatwin::sim
