#include "scenarios/quantity.h"

#include <clocale>
#include <string>

#include <gtest/gtest.h>

namespace megatwin::scenarios {
namespace {

// "message | allowed" of what was refused, or "accepted".
template <class Value>
std::string refusal_of(const model::Result<Value>& result) {
  if (result) return "accepted";
  return result.error().front().message + " | " + result.error().front().allowed;
}

TEST(Quantity, ReadsBytesDecimalAndBinary) {
  EXPECT_EQ(parse_bytes("80 GB")->value, 80e9);
  EXPECT_EQ(parse_bytes("80GiB")->value, 80.0 * (1 << 30));
  EXPECT_EQ(parse_bytes("512 B")->value, 512);
  EXPECT_EQ(parse_bytes(" 1.5 KiB ")->value, 1536);
  EXPECT_EQ(parse_bytes("2 TiB")->value, 2.0 * 1024 * (1 << 30));
  EXPECT_EQ(parse_bytes("3e3 kB")->value, 3e6);
}

// 200 Gbit/s = 25 GB/s.
TEST(Quantity, ReadsRatesInBitsAndBytes) {
  EXPECT_EQ(parse_bandwidth("200 Gbit/s")->value, 25e9);
  EXPECT_EQ(parse_bandwidth("25 GB/s")->value, 25e9);
  EXPECT_EQ(parse_bandwidth("3.35 TB/s")->value, 3.35e12);
  EXPECT_EQ(parse_bandwidth("8 bit/s")->value, 1);
  EXPECT_EQ(parse_flop_rate("989 TFLOP/s")->value, 989e12);
  EXPECT_EQ(parse_flop_rate("1 PFLOP/s")->value, 1e15);
}

TEST(Quantity, ReadsTimesPowersFrequenciesAndMoney) {
  EXPECT_DOUBLE_EQ(parse_time("1.3 us")->value, 1.3e-6);
  EXPECT_DOUBLE_EQ(parse_time("1.3 µs")->value, 1.3e-6);
  EXPECT_EQ(parse_time("2 h")->value, 7200);
  EXPECT_EQ(parse_time("1 d")->value, 86400);
  EXPECT_EQ(parse_time("0 s", Zero::Allowed)->value, 0);
  EXPECT_EQ(parse_power("10.2 kW")->value, 10200);
  EXPECT_EQ(parse_frequency("1830 MHz")->value, 1.83e9);
  EXPECT_EQ(parse_money("98.32 USD/h")->value, 98.32);
}

TEST(Quantity, ReadsPlainNumbers) {
  EXPECT_EQ(*parse_integer("42"), 42);
  EXPECT_EQ(*parse_integer("-3", {.min = -5, .max = 5}), -3);
  EXPECT_EQ(*parse_integer("0", {.min = 0, .max = 5}), 0);
  EXPECT_EQ(*parse_number("1.5", {.min = 1, .max = 10}), 1.5);
  EXPECT_EQ(*parse_fraction("5 %"), 0.05);
  EXPECT_EQ(*parse_fraction("0.05"), 0.05);
  EXPECT_TRUE(*parse_boolean("true"));
  EXPECT_FALSE(*parse_boolean("false"));
}

// A comma as decimal point in the environment must not change what a file means.
TEST(Quantity, DoesNotAskTheLocale) {
  // NOLINTBEGIN(concurrency-mt-unsafe): no thread runs here.
  const std::string before = std::setlocale(LC_ALL, nullptr);
  std::setlocale(LC_ALL, "de_DE.UTF-8");
  EXPECT_EQ(parse_bytes("1.5 kB")->value, 1500);
  std::setlocale(LC_ALL, before.c_str());
  // NOLINTEND(concurrency-mt-unsafe)
}

TEST(Quantity, RefusesWithWhatIsAllowed) {
  EXPECT_EQ(refusal_of(parse_bandwidth("25")),
            "'25' has no unit | a number with B/s, kB/s, MB/s, GB/s, TB/s, bit/s, kbit/s, Mbit/s, "
            "Gbit/s or Tbit/s, greater than 0");
  const std::string time = " | a number with ns, us, µs, ms, s, min, h or d, greater than 0";
  EXPECT_EQ(refusal_of(parse_time("")), "nothing is given" + time);
  EXPECT_EQ(refusal_of(parse_time("3 parsecs")),
            "'parsecs' is not a unit that this key takes" + time);
  EXPECT_EQ(refusal_of(parse_time("-1 s")), "'-1 s' is negative" + time);
  EXPECT_EQ(refusal_of(parse_time("0 s")), "'0 s' is zero" + time);
  EXPECT_EQ(refusal_of(parse_time("nan s")), "'nan s' does not start with a decimal number" + time);
  EXPECT_EQ(refusal_of(parse_time("inf s")), "'inf s' does not start with a decimal number" + time);
  EXPECT_EQ(refusal_of(parse_time("0x10 s")),
            "'0x10 s' does not start with a decimal number" + time);
  EXPECT_EQ(refusal_of(parse_time("s")), "'s' does not start with a decimal number" + time);
  EXPECT_EQ(refusal_of(parse_time("1e999 s")), "'1e999 s' is out of range" + time);
  EXPECT_EQ(refusal_of(parse_time("1e300 s")), "'1e300 s' is too large" + time);
  EXPECT_EQ(refusal_of(parse_time("1,5 s")), "',5 s' is not a unit that this key takes" + time);
}

TEST(Quantity, RefusesDoubtfulPlainNumbers) {
  const std::string range = " | a whole number from 1 to 10";
  const IntegerRange ten{.min = 1, .max = 10};
  EXPECT_EQ(refusal_of(parse_integer("010", ten)),
            "'010' starts with a zero, which some YAML readers take for octal" + range);
  EXPECT_EQ(refusal_of(parse_integer("1.0", ten)), "'1.0' is not a whole number" + range);
  EXPECT_EQ(refusal_of(parse_integer("1e3", ten)), "'1e3' is not a whole number" + range);
  EXPECT_EQ(refusal_of(parse_integer("0x10", ten)), "'0x10' is not a whole number" + range);
  EXPECT_EQ(refusal_of(parse_integer("", ten)), "'' is not a whole number" + range);
  EXPECT_EQ(refusal_of(parse_integer("11", ten)), "'11' is out of range" + range);
  EXPECT_EQ(refusal_of(parse_integer("99999999999999999999", ten)),
            "'99999999999999999999' is out of range" + range);
  EXPECT_EQ(refusal_of(parse_boolean("NO")), "'NO' is neither true nor false | true or false");
  EXPECT_EQ(refusal_of(parse_fraction("120 %")),
            "'120 %' is out of range | a number from 0 to 1, or from 0 % to 100 %");
  EXPECT_EQ(refusal_of(parse_number("2 x", {.min = 1, .max = 4})),
            "'2 x' is not a plain number | a plain number from 1 to 4");
}

}  // namespace
}  // namespace megatwin::scenarios
