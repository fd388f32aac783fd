#include "cli/settings.h"

#include <gtest/gtest.h>

#include "cli/probe.h"

namespace megatwin::cli {
namespace {

TEST(Settings, SplitAtTheFirstEqualsSign) {
  const auto setting = parse_setting("plan.note=a=b");
  ASSERT_TRUE(setting);
  EXPECT_EQ(setting->key, "plan.note");
  EXPECT_EQ(setting->value, "a=b");
  EXPECT_FALSE(parse_setting("plan.tensor"));
  EXPECT_FALSE(parse_setting("=4"));
}

TEST(Settings, SweepsSplitAtOuterCommasOnly) {
  const auto sweep = parse_sweep("cluster.nodes=[{type: a, count: 2}],\"x,y\",3");
  ASSERT_TRUE(sweep);
  EXPECT_EQ(sweep->values, (std::vector<std::string>{"[{type: a, count: 2}]", "\"x,y\"", "3"}));
  EXPECT_FALSE(parse_sweep("a="));
  EXPECT_FALSE(parse_sweep("a=1,"));
}

TEST(Settings, PointsVaryTheLastSweepFastest) {
  const auto points = sweep_points({{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}});
  ASSERT_EQ(points.size(), 6U);
  EXPECT_EQ(point_name(points[1]), "a=1 b=y");
  EXPECT_EQ(point_name(points[3]), "a=2 b=x");
  EXPECT_EQ(sweep_points({}).size(), 1U);
}

TEST(Probe, FindsVersionsInText) {
  EXPECT_EQ(version_in("g++ (Debian 12.2.0-14) 12.2.0"), "12.2.0");
  EXPECT_EQ(version_in("Cuda compilation tools, release 13.0, V13.0.48"), "13.0");
  EXPECT_EQ(version_in("0x010b0a"), "0x010b0a");
  EXPECT_EQ(version_in(""), "");
}

TEST(Probe, MissingProgramsAreNothing) {
  EXPECT_FALSE(first_line_of("megatwin-no-such-program", "--version"));
  EXPECT_FALSE(macro_in_header({"/nowhere.h"}, "X"));
}

}  // namespace
}  // namespace megatwin::cli
