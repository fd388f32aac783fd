// Runs that share machines, against every division tried by brute force.
#include "sim/purchase/shared_cluster.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/search/search_jobs.h"
#include "tests/sim/seeds.h"

namespace megatwin::sim {
namespace {

// 12 machine-days and 4 on four machines without loss: 3 : 1 ends both after 4 days, one after
// another takes 3 + 1 days as well; with a deadline of 2 days for the small one, side by side at
// 2 : 2 it would keep it, but the large one then takes 6 days. One after another, small first, both
// are done after 4.
TEST(SharedCluster, TheEarlierDeadlineGoesFirst) {
  SharedJob large{.name = "large", .points = {}, .deadline = {}}, small = large;
  for (int n = 1; n <= 4; ++n) {
    large.points.push_back({n, {12.0 / n}});
    small.points.push_back({n, {4.0 / n}});
  }
  const auto free = share_cluster(std::vector{large, small}, 4);
  ASSERT_EQ(free.size(), 2U);
  EXPECT_EQ(free[0].makespan.value, 4);
  EXPECT_EQ(free[1].makespan.value, 4);
  EXPECT_TRUE(free[0].side_by_side);
  EXPECT_EQ(free[0].runs[0].machines, 3);
  small.deadline = model::Seconds{2};
  const auto pressed = share_cluster(std::vector{large, small}, 4);
  EXPECT_FALSE(pressed[0].side_by_side);
  EXPECT_EQ(pressed[0].runs[1].end.value, 1);
  EXPECT_EQ(pressed[0].runs[0].start.value, 1);
  EXPECT_EQ(pressed[0].late_max.value, 0);
  EXPECT_EQ(pressed[1].makespan.value, 6);
}

TEST(SharedCluster, MoreRunsThanMachinesGoOneAfterAnother) {
  const SharedJob one{.name = "a", .points = {{1, {5}}}, .deadline = {}};
  const auto ways = share_cluster(std::vector{one, one, one}, 2);
  ASSERT_EQ(ways.size(), 1U);
  EXPECT_FALSE(ways[0].side_by_side);
  EXPECT_EQ(ways[0].makespan.value, 15);
}

// The best (lateness, makespan) of all divisions.
std::tuple<double, double> brute_force(const std::vector<SharedJob>& jobs, int machines) {
  std::tuple<double, double> best{1e300, 1e300};
  std::function<void(std::size_t, int, double, double)> choose = [&](std::size_t i, int left,
                                                                     double late, double end) {
    if (i == jobs.size()) {
      best = std::min(best, std::tuple{late, end});
      return;
    }
    for (const auto& point : jobs[i].points) {
      if (point.machines > left) continue;
      const double by = jobs[i].deadline ? jobs[i].deadline->value : 1e300;
      choose(i + 1, left - point.machines, std::max(late, point.duration.value - by),
             std::max(end, point.duration.value));
    }
  };
  choose(0, machines, 0, 0);
  return best;
}

TEST(SharedCluster, SideBySideIsTheBestDivision) {
  for (const std::uint64_t seed : tests::seeds(300)) {
    tests::Dice dice(seed);
    std::vector<SharedJob> jobs(static_cast<std::size_t>(2 + dice.below(3)));
    for (SharedJob& job : jobs) {
      for (int n = 1; n <= 8; ++n) {
        // Not always faster with more machines, as in life.
        if (dice.below(3) > 0) job.points.push_back({n, {(10.0 + dice.below(90)) / n}});
      }
      job.points.push_back({9, {1.0 + dice.below(20)}});
      if (dice.below(2) == 0) job.deadline = model::Seconds{5.0 + dice.below(40)};
    }
    const auto [late, end] = brute_force(jobs, 12);
    const auto ways = share_cluster(jobs, 12);
    const auto way = std::find_if(ways.begin(), ways.end(),
                                  [](const SharedSchedule& s) { return s.side_by_side; });
    if (way == ways.end()) {
      EXPECT_EQ(end, 1e300) << tests::rerun_line("purchase_unit_test", seed);
      continue;
    }
    EXPECT_DOUBLE_EQ(way->late_max.value, late) << tests::rerun_line("purchase_unit_test", seed);
    EXPECT_DOUBLE_EQ(way->makespan.value, end) << tests::rerun_line("purchase_unit_test", seed);
  }
}

}  // namespace
}  // namespace megatwin::sim
