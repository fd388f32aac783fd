// Numbers with units as a user writes them (`25 GB/s`, `80 GiB`, `1.3 us`), read into the types of
// model/units.h. A quantity without a unit is an error, because nobody can guess it. Independent of
// locale. A failure holds one Diagnostic with message and allowed values; the caller, who knows
// the place, fills in file, line and key.
#ifndef MEGATWIN_SCENARIOS_QUANTITY_H_
#define MEGATWIN_SCENARIOS_QUANTITY_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "model/result.h"
#include "model/units.h"

namespace megatwin::scenarios {

// Whether nothing at all (0 s, 0 USD) is a sensible value of a key.
enum class Zero { Refused, Allowed };

model::Result<model::Bytes> parse_bytes(std::string_view text, Zero zero = Zero::Refused);
model::Result<model::BytesPerSecond> parse_bandwidth(std::string_view text,
                                                     Zero zero = Zero::Refused);
model::Result<model::FlopPerSecond> parse_flop_rate(std::string_view text,
                                                    Zero zero = Zero::Refused);
model::Result<model::Seconds> parse_time(std::string_view text, Zero zero = Zero::Refused);
model::Result<model::Watts> parse_power(std::string_view text, Zero zero = Zero::Refused);
model::Result<model::Hertz> parse_frequency(std::string_view text, Zero zero = Zero::Refused);
model::Result<model::Usd> parse_money(std::string_view text, Zero zero = Zero::Refused);

struct IntegerRange {
  std::int64_t min = 1;
  std::int64_t max = 10'000'000;
};

// Decimal digits only. `010` is refused: YAML readers disagree whether it means 8 or 10.
model::Result<std::int64_t> parse_integer(std::string_view text, IntegerRange range = {});

struct NumberRange {
  double min = 0;
  double max = 1e15;
};

// A plain decimal number without a unit, such as an oversubscription of 1.5.
model::Result<double> parse_number(std::string_view text, NumberRange range);

// `5 %` or `0.05`, both 0.05; from 0 to 1.
model::Result<double> parse_fraction(std::string_view text);

// `true` or `false`. YAML's other words are refused: yes, NO, on and off surprise somebody.
model::Result<bool> parse_boolean(std::string_view text);

// The other way, for what messages allow: at most six digits, "1.98", "6.25e-05".
std::string short_number(double value);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_QUANTITY_H_
