// The adaptive policy beside the best fixed order: the tables of docs/dpp.md, and pipelines that it
// was not made with.
#include "tests/policies/order_race.h"

#include <gtest/gtest.h>

#include "tests/policies/generated_table.h"
#include "tests/policies/random_race.h"

namespace megatwin::policies {
namespace {

// Every row of the tables of docs/dpp.md is simulated again; what the table says is what comes out.
TEST(AdaptivePipeline, TableBesideTheBestFixedOrder) {
  const tests::OrderRace race = tests::race_orders();
  tests::expect_generated("docs/dpp.md", "race", race.markdown);
  EXPECT_EQ(race.num_cases, 120);
  for (const tests::OrderRace::Miss& miss : race.misses) {
    EXPECT_LT(miss.over_best_percent, 2.4) << miss.where;
  }
  // The page names them and says why.
  EXPECT_LE(race.misses.size(), 2u);
}

TEST(AdaptivePipeline, TableByReceiveSlots) {
  const tests::OrderRace race = tests::race_slots();
  tests::expect_generated("docs/dpp.md", "slots", race.markdown);
  EXPECT_EQ(race.num_cases, 360);
  for (const tests::OrderRace::Miss& miss : race.misses) {
    EXPECT_LT(miss.over_best_percent, 2.4) << miss.where;
  }
  // The page names them and says why.
  EXPECT_LE(race.misses.size(), 4u);
}

// Pipelines that it was not made with; twelve thousand are in policies_race_test.
TEST(AdaptivePipeline, IsAheadOrCloseAtRandomToo) {
  const tests::Lags lags = tests::race_at_random(600).all;
  EXPECT_GT(lags.share_within(1), 0.95);
  EXPECT_LT(lags.quantile(0.99), 6);
  EXPECT_LT(lags.mean(), -7);
}

}  // namespace
}  // namespace megatwin::policies
