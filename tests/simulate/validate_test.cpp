#include "sim/validate.h"

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "scenarios/hardware_catalogue.h"
#include "scenarios/measured_rows.h"

namespace megatwin::sim {
namespace {

ValidatedRow row_of(double predicted, double measured) {
  ValidatedRow row{.id = "G-1", .group = "G"};
  row.predicted = model::Seconds{predicted};
  row.measured = model::Seconds{measured};
  row.error = predicted / measured - 1;
  row.status = "scored";
  return row;
}

// Errors −10 %, +20 %, +5 %: median 10 %, worst +20 %, mean +5 %. Both columns rise together.
TEST(Validate, ScoresAGroupByHand) {
  const std::vector<ValidatedRow> rows{row_of(0.9, 1), row_of(2.4, 2), row_of(3.15, 3)};
  const ValidatedGroup group = score_group("G", {&rows[0], &rows[1], &rows[2]});
  EXPECT_EQ(group.scored, 3);
  EXPECT_NEAR(group.median_abs_error, 0.10, 1e-12);
  EXPECT_NEAR(group.worst, 0.20, 1e-12);
  EXPECT_NEAR(group.bias, 0.05, 1e-12);
  EXPECT_DOUBLE_EQ(group.rank_correlation, 1);
}

// The shipped rows: what the project promises of its predictions, with room for what moves.
TEST(Validate, PublishedRowsStayWithinThePromise) {
  const auto rows = scenarios::read_measured_rows("scenarios/measured/published_steps.csv");
  ASSERT_TRUE(rows) << model::to_text(rows.error());
  const Validation validation = validate_steps(*rows, scenarios::shipped_hardware(),
                                               {.apart = {"NEMOLS", "MEG20", "BSV100"}});
  EXPECT_LE(validation.mean_of_group_medians, 0.07);
  EXPECT_GE(validation.coverage_fraction, 0.95);
  for (const ValidatedGroup& group : validation.groups) {
    if (!group.apart) {
      EXPECT_LE(group.median_abs_error, 0.12) << group.group;
    }
  }
}

}  // namespace
}  // namespace megatwin::sim
