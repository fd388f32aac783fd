#include "model/units.h"

#include <gtest/gtest.h>

namespace megatwin::model {
namespace {

// 80 GiB = 80 · 2^30 = 85,899,345,920 bytes; 80 GB = 80e9 bytes: 7.4 % apart, never mixed.
TEST(Units, GibAndGbAreDifferentLiterals) {
  EXPECT_EQ((80_GiB).value, 85899345920.0);
  EXPECT_EQ((80_GB).value, 80e9);
}

// 1 GB over 25 GB/s takes 40 ms.
TEST(Units, QuotientHasTheRightDimension) {
  const Seconds time = 1_GB / 25_GBps;
  EXPECT_DOUBLE_EQ(time.value, 0.04);
}

TEST(Units, RoundsToTheNearestNanosecond) {
  EXPECT_EQ(round_to_instant({1.4e-9}).ns, 1);
  EXPECT_EQ(round_to_instant({1.6e-9}).ns, 2);
  EXPECT_EQ(round_to_instant(1.5_us).ns, 1500);
}

}  // namespace
}  // namespace megatwin::model
