// The long race at random; a short one is in order_race_test.cpp.
#include "tests/policies/random_race.h"

#include <gtest/gtest.h>

#include "tests/policies/generated_table.h"

namespace megatwin::tests {
namespace {

TEST(RandomRace, TableOfTwelveThousand) {
  const RandomRaces races = race_at_random(12'000);
  expect_generated("docs/dpp.md", "random", races.markdown);
}

}  // namespace
}  // namespace megatwin::tests
