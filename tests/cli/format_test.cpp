#include "cli/report/format.h"

#include <gtest/gtest.h>

namespace megatwin::cli {
namespace {

using model::operator""_GiB;
using model::operator""_GBps;

TEST(Format, TimesChooseTheirUnit) {
  EXPECT_EQ(format_time({8.4213}), "8.42 s");
  EXPECT_EQ(format_time({0.0612}), "61.2 ms");
  EXPECT_EQ(format_time({3.1e-6}), "3.10 µs");
  EXPECT_EQ(format_time({0}), "0 s");
  EXPECT_EQ(format_time({12345.6}), "12,346 s");
  EXPECT_EQ(format_time({-0.25}), "-250 ms");
}

TEST(Format, ColumnsKeepOneUnit) {
  EXPECT_EQ(format_time_in({0.052}, TimeUnit::Seconds), "0.052 s");
  EXPECT_EQ(format_time_in({1.2345e-3}, TimeUnit::Milliseconds), "1.23 ms");
}

TEST(Format, CountsHaveTheirPlural) {
  EXPECT_EQ(format_counted(1, "step"), "1 step");
  EXPECT_EQ(format_counted(0, "step"), "0 steps");
  EXPECT_EQ(format_counted(12345, "step"), "12,345 steps");
}

TEST(Format, LargeFactorsHaveNoDecimals) {
  EXPECT_EQ(format_factor(1.966), "1.97×");
  EXPECT_EQ(format_factor(99.99), "99.99×");
  EXPECT_EQ(format_factor(99.996), "100×");
  EXPECT_EQ(format_factor(1206482.48), "1,206,482×");
}

TEST(Format, MemoryIsBinaryAndTrafficDecimal) {
  EXPECT_EQ(format_memory(80_GiB), "80.0 GiB");
  EXPECT_EQ(format_memory({536870912}), "0.50 GiB");
  EXPECT_EQ(format_traffic({134217728}), "134 MB");
  EXPECT_EQ(format_traffic({12}), "12.0 B");
  EXPECT_EQ(format_bandwidth(450_GBps), "450 GB/s");
}

TEST(Format, RatesAndAmountsOfFlop) {
  EXPECT_EQ(format_flop({1.837e18}), "1.84 EFLOP");
  EXPECT_EQ(format_flop_rate({426.1e12}), "426 TFLOP/s");
}

TEST(Format, MoneyEnergyAndShares) {
  EXPECT_EQ(format_usd({2.409}), "$2.41");
  EXPECT_EQ(format_usd({1234567.4}), "$1,234,567");
  EXPECT_EQ(format_usd({0.0123}), "$0.0123");
  EXPECT_EQ(format_energy({3.6e6}), "3.60 MJ (1.00 kWh)");
  EXPECT_EQ(format_percent(0.4312), "43.1 %");
  EXPECT_EQ(format_percent_change(-0.05), "-5.0 %");
  EXPECT_EQ(format_percent_change(0.1), "+10.0 %");
  EXPECT_EQ(format_percent_change(-0.0004), "0.0 %");
}

TEST(Format, CountsHaveSeparators) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1048576), "1,048,576");
  EXPECT_EQ(format_count(-1000), "-1,000");
  EXPECT_EQ(format_parameters(70553706496), "70.6 billion");
  EXPECT_EQ(format_parameters(1234), "1,234");
}

TEST(Format, BarsAreEighthsOfACell) {
  EXPECT_EQ(format_bar(0, 8), "");
  EXPECT_EQ(format_bar(1, 3), "███");
  EXPECT_EQ(format_bar(0.5, 3), "█▌");
  EXPECT_EQ(format_bar(7, 2), "██");
}

TEST(Format, TablesAlignByShownCharacters) {
  EXPECT_EQ(display_width("3 µs"), 4U);
  EXPECT_EQ(format_table({{"a", "1 µs", "x"}, {"bb", "10 s", ""}}, {false, true, false}),
            "  a   1 µs  x\n"
            "  bb  10 s\n");
}

}  // namespace
}  // namespace megatwin::cli
