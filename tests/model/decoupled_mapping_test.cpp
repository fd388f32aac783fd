// Forwards and backwards over kinds of GPU: by hand, against a search of a fine grid, and the
// limits.
#include "model/decoupled_mapping.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace megatwin::model {
namespace {

using Kinds = std::vector<DecoupledKind>;

// Kind 0 does a forward in 1 and a backward in 4, kind 1 the other way round in 2 and 2. Alone each
// does 1/5 and 1/4 a second, together 9/20. With all forwards on kind 0 (rate 1) it could also do
// backwards: kind 1 has 1/2 for backwards, so with x forwards and y backwards of kind 0,
// x + 4y = 1 and x = y + 1/2: y = 1/10, x = 6/10. 0.6 against 0.45.
TEST(DecoupledMapping, ByHand) {
  const Kinds kinds = {{1, {1}, {4}}, {1, {2}, {2}}};
  EXPECT_DOUBLE_EQ(coupled_period(kinds).value, 20.0 / 9);
  EXPECT_DOUBLE_EQ(even_period(kinds).value, 2.5);
  const DecoupledMapping best = best_mapping(kinds);
  EXPECT_DOUBLE_EQ(best.period.value, 1 / 0.6);
  EXPECT_DOUBLE_EQ(best.shares[0].forward, 1);
  EXPECT_DOUBLE_EQ(best.shares[1].forward, 0);
  EXPECT_NEAR(best.shares[0].backward, 1.0 / 6, 1e-12);
  EXPECT_NEAR(best.shares[1].backward, 5.0 / 6, 1e-12);
  const auto rows = best_rows(kinds, {0});
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->forward_kind, 0);
  EXPECT_EQ(rows->backward_kind, 1);
  EXPECT_DOUBLE_EQ(rows->period.value, 2);
  EXPECT_DOUBLE_EQ(best_rows(kinds, {3})->period.value, 3);
}

// Kinds that are faster by one factor in both have nothing to gain beyond an uneven split.
TEST(DecoupledMapping, GainsNothingWithoutAComparativeAdvantage) {
  const Kinds kinds = {{8, {1}, {2}}, {8, {2.5}, {5}}};
  EXPECT_NEAR(best_mapping(kinds).period.value, coupled_period(kinds).value, 1e-12);
  const Kinds one = {{8, {1}, {2}}};
  EXPECT_DOUBLE_EQ(best_mapping(one).period.value, 3.0 / 8);
  EXPECT_FALSE(best_rows(one, {0}));
}

// Rate of a division: the kind that is busiest decides.
double period_of(const Kinds& kinds, const std::vector<DecoupledShare>& shares) {
  double slowest = 0;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const double work =
        shares[k].forward * kinds[k].forward.value + shares[k].backward * kinds[k].backward.value;
    slowest = std::max(slowest, work / kinds[k].ranks);
  }
  return slowest;
}

TEST(DecoupledMapping, NoDivisionOnAGridBeatsIt) {
  std::uint64_t state = 7;
  const auto next = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return 1 + static_cast<int>((state >> 33u) % 9);
  };
  for (int trial = 0; trial < 60; ++trial) {
    Kinds kinds;
    for (int k = 0; k < 3; ++k) {
      kinds.push_back({next(), {static_cast<double>(next())}, {static_cast<double>(next())}});
    }
    const DecoupledMapping best = best_mapping(kinds);
    double forwards = 0, backwards = 0;
    for (const DecoupledShare& share : best.shares) {
      EXPECT_GE(share.forward, -1e-12);
      EXPECT_GE(share.backward, -1e-12);
      forwards += share.forward;
      backwards += share.backward;
    }
    EXPECT_NEAR(forwards, 1, 1e-9);
    EXPECT_NEAR(backwards, 1, 1e-9);
    EXPECT_NEAR(period_of(kinds, best.shares), best.period.value, 1e-9);
    EXPECT_LE(best.period.value, coupled_period(kinds).value + 1e-12);
    EXPECT_LE(coupled_period(kinds).value, even_period(kinds).value + 1e-12);
    constexpr int kSteps = 12;
    for (int f0 = 0; f0 <= kSteps; ++f0) {
      for (int f1 = 0; f0 + f1 <= kSteps; ++f1) {
        for (int b0 = 0; b0 <= kSteps; ++b0) {
          for (int b1 = 0; b0 + b1 <= kSteps; ++b1) {
            const auto share = [](int n) { return static_cast<double>(n) / kSteps; };
            EXPECT_GE(period_of(kinds, {{share(f0), share(b0)},
                                        {share(f1), share(b1)},
                                        {share(kSteps - f0 - f1), share(kSteps - b0 - b1)}}),
                      best.period.value - 1e-9);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace megatwin::model
