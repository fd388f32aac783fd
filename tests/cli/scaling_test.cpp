#include "cli/report/scaling.h"

#include <gtest/gtest.h>

#include "tests/cli/report_fixture.h"

namespace megatwin::cli {
namespace {

using tests::scaled_report;

TEST(Scaling, IsRelativeToTheFewestGpus) {
  const std::vector<sim::SimulationReport> reports = {scaled_report(1024), scaled_report(512)};
  const auto curve = scaling_curve(reports);
  ASSERT_TRUE(curve);
  EXPECT_EQ(curve->kind, ScalingKind::Strong);
  EXPECT_EQ(curve->points[0].gpus, 512);
  EXPECT_DOUBLE_EQ(curve->points[0].efficiency, 1);
  // The fixture's step is 1.03 times half as long on twice the GPUs: 2/1.03 as fast.
  EXPECT_NEAR(curve->points[1].speed_up, 2 / 1.03, 1e-12);
  EXPECT_NEAR(curve->points[1].efficiency, 1 / 1.03, 1e-12);
}

TEST(Scaling, IsWeakWhenTheBatchGrowsWithTheGpus) {
  std::vector<sim::SimulationReport> reports = {scaled_report(512), scaled_report(1024)};
  reports[1].plan.global_batch *= 2;
  EXPECT_EQ(scaling_curve(reports)->kind, ScalingKind::Weak);
  reports[1].plan.global_batch += 1;
  EXPECT_EQ(scaling_curve(reports)->kind, ScalingKind::Mixed);
}

TEST(Scaling, NeedsDifferentGpusOfOneModel) {
  std::vector<sim::SimulationReport> reports = {scaled_report(512), scaled_report(512)};
  EXPECT_FALSE(scaling_curve(reports));
  reports[1] = scaled_report(1024);
  reports[1].model_name = "another";
  EXPECT_FALSE(scaling_curve(reports));
  reports.pop_back();
  EXPECT_FALSE(scaling_curve(reports));
}

}  // namespace
}  // namespace megatwin::cli
