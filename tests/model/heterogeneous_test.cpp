// Splits of whole units over devices of different speed, against every split there is.
#include "model/heterogeneous.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace megatwin::model {
namespace {

using Units = std::vector<std::int64_t>;

double last_finish(const Units& units, const std::vector<double>& fixed,
                   const std::vector<double>& per_unit) {
  double last = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    last = std::max(last, fixed[i] + static_cast<double>(units[i]) * per_unit[i]);
  }
  return last;
}

TEST(EarliestFinishSplit, NoSplitIsDoneEarlier) {
  std::uint64_t state = 11;
  const auto next = [&](int most) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>((state >> 33u) % static_cast<std::uint64_t>(most));
  };
  for (int trial = 0; trial < 200; ++trial) {
    const std::vector<double> fixed = {next(20), next(20), next(20)};
    const std::vector<double> per_unit = {1 + next(9), 1 + next(9), 1 + next(9)};
    constexpr std::int64_t kTotal = 14;
    const Units found = earliest_finish_split(kTotal, fixed, per_unit);
    EXPECT_EQ(found[0] + found[1] + found[2], kTotal);
    for (std::int64_t a = 1; a <= kTotal - 2; ++a) {
      for (std::int64_t b = 1; a + b <= kTotal - 1; ++b) {
        const Units other = {a, b, kTotal - a - b};
        EXPECT_LE(last_finish(found, fixed, per_unit), last_finish(other, fixed, per_unit));
      }
    }
  }
}

// Twelve units over speeds 1, 2 and 3 with nothing fixed: 2, 4 and 6, as min_max_split() has it.
TEST(EarliestFinishSplit, IsTheMinMaxSplitWithoutFixedTimes) {
  const std::vector<double> speeds = {1, 2, 3}, none = {0, 0, 0}, costs = {1, 0.5, 1.0 / 3};
  EXPECT_EQ(earliest_finish_split(12, none, costs), (Units{2, 4, 6}));
  EXPECT_EQ(min_max_split(12, speeds), (Units{2, 4, 6}));
}

// Nobody goes without: the slowest device still gets one of three.
TEST(EarliestFinishSplit, EveryDeviceGetsOne) {
  const std::vector<double> none = {0, 0, 0}, costs = {1, 1, 1000};
  EXPECT_EQ(earliest_finish_split(3, none, costs), (Units{1, 1, 1}));
}

}  // namespace
}  // namespace megatwin::model
