// Every parser of quantities; what is accepted is finite and in its range.
#include <cmath>

#include "model/assert.h"
#include "scenarios/quantity.h"
#include "tests/fuzz/fuzz_targets.h"

namespace megatwin::fuzz {
namespace {

template <class Value>
void check(const model::Result<Value>& result) {
  if (!result) {
    MEGATWIN_ASSERT(result.error().size() == 1, result.error().size());
    MEGATWIN_ASSERT(!result.error().front().message.empty(), "no message");
    return;
  }
  MEGATWIN_ASSERT(std::isfinite(result->value) && result->value >= 0, result->value);
}

}  // namespace

void quantity(std::string_view text) {
  for (const scenarios::Zero zero : {scenarios::Zero::Refused, scenarios::Zero::Allowed}) {
    check(scenarios::parse_bytes(text, zero));
    check(scenarios::parse_bandwidth(text, zero));
    check(scenarios::parse_flop_rate(text, zero));
    check(scenarios::parse_time(text, zero));
    check(scenarios::parse_power(text, zero));
    check(scenarios::parse_frequency(text, zero));
    check(scenarios::parse_money(text, zero));
  }
  const auto integer = scenarios::parse_integer(text, {.min = -7, .max = 7});
  MEGATWIN_ASSERT(!integer || (*integer >= -7 && *integer <= 7), "out of range");
  const auto number = scenarios::parse_number(text, {.min = 1, .max = 2});
  MEGATWIN_ASSERT(!number || (*number >= 1 && *number <= 2), "out of range");
  const auto fraction = scenarios::parse_fraction(text);
  MEGATWIN_ASSERT(!fraction || (*fraction >= 0 && *fraction <= 1), "out of range");
  static_cast<void>(scenarios::parse_boolean(text).has_value());
}

}  // namespace megatwin::fuzz

MEGATWIN_FUZZ_ENTRY(quantity);
