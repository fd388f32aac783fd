#include "scenarios/quantity.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>
#include <system_error>

#include "scenarios/document.h"

namespace megatwin::scenarios {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kKibi = 1024;

constexpr Unit kByteUnits[] = {
    {"B", 1},         {"kB", 1e3},      {"MB", 1e6},
    {"GB", 1e9},      {"TB", 1e12},     {"KiB", kKibi},
    {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1024.0 * (1 << 30)},
};
constexpr Unit kBandwidthUnits[] = {
    {"B/s", 1},          {"kB/s", 1e3},        {"MB/s", 1e6},       {"GB/s", 1e9},
    {"TB/s", 1e12},      {"bit/s", 1 / 8.0},   {"kbit/s", 1e3 / 8}, {"Mbit/s", 1e6 / 8},
    {"Gbit/s", 1e9 / 8}, {"Tbit/s", 1e12 / 8},
};
constexpr Unit kFlopRateUnits[] = {
    {"FLOP/s", 1},
    {"GFLOP/s", 1e9},
    {"TFLOP/s", 1e12},
    {"PFLOP/s", 1e15},
};
constexpr Unit kTimeUnits[] = {
    {"ns", 1e-9}, {"us", 1e-6}, {"µs", 1e-6}, {"ms", 1e-3},
    {"s", 1},     {"min", 60},  {"h", 3600},  {"d", 86400},
};
constexpr Unit kPowerUnits[] = {{"W", 1}, {"kW", 1e3}, {"MW", 1e6}};
constexpr Unit kFrequencyUnits[] = {{"Hz", 1}, {"MHz", 1e6}, {"GHz", 1e9}};
constexpr Unit kMoneyUnits[] = {{"USD", 1}, {"USD/h", 1}};

// Far above every machine that will be built, far below where a double loses its exponent.
constexpr double kQuantityMax = 1e30;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::string shortest(double value) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value);
  return {digits, end.ptr};
}

std::string list_of(std::span<const Unit> units) {
  std::string list;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (i > 0) list += i + 1 == units.size() ? " or " : ", ";
    list += units[i].name;
  }
  return list;
}

model::Diagnostic refusal(std::string message, std::string allowed) {
  return {.message = std::move(message), .allowed = std::move(allowed)};
}

// The number at the start of `text` and what follows it.
struct NumberAndRest {
  double value = 0;
  std::string_view rest;
};

// Errors: not a decimal number; out of the range of a double.
model::Result<NumberAndRest> split_number(std::string_view text, const std::string& allowed) {
  const bool negative = !text.empty() && text.front() == '-';
  const std::string_view digits = negative ? text.substr(1) : text;
  // from_chars also reads "inf" and "nan", and stops at the x of "0x10": both are refused here.
  const bool starts_with_digit = !digits.empty() && digits.front() >= '0' && digits.front() <= '9';
  const bool hexadecimal =
      digits.size() > 1 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
  if (!starts_with_digit || hexadecimal) {
    return model::fail(refusal(quoted(text) + " does not start with a decimal number", allowed));
  }
  NumberAndRest result;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result.value);
  if (error != std::errc{}) {
    return model::fail(refusal(quoted(text) + " is out of range", allowed));
  }
  result.rest = trimmed(text.substr(static_cast<std::size_t>(end - text.data())));
  return result;
}

model::Result<double> parse_quantity(std::string_view text, std::span<const Unit> units,
                                     Zero zero) {
  text = trimmed(text);
  const std::string allowed = "a number with " + list_of(units) +
                              (zero == Zero::Allowed ? ", at least 0" : ", greater than 0");
  if (text.empty()) return model::fail(refusal("nothing is given", allowed));
  MEGATWIN_TRY(const NumberAndRest number, split_number(text, allowed));
  if (number.rest.empty()) return model::fail(refusal(quoted(text) + " has no unit", allowed));
  for (const Unit& unit : units) {
    if (unit.name != number.rest) continue;
    const double value = number.value * unit.factor;
    if (std::signbit(value) && value != 0) {
      return model::fail(refusal(quoted(text) + " is negative", allowed));
    }
    if (value == 0 && zero == Zero::Refused) {
      return model::fail(refusal(quoted(text) + " is zero", allowed));
    }
    if (value > kQuantityMax) return model::fail(refusal(quoted(text) + " is too large", allowed));
    return std::abs(value);
  }
  return model::fail(refusal(quoted(number.rest) + " is not a unit that this key takes", allowed));
}

template <class Type>
model::Result<Type> parse_as(std::string_view text, std::span<const Unit> units, Zero zero) {
  MEGATWIN_TRY(const double value, parse_quantity(text, units, zero));
  return Type{value};
}

}  // namespace

model::Result<model::Bytes> parse_bytes(std::string_view text, Zero zero) {
  return parse_as<model::Bytes>(text, kByteUnits, zero);
}
model::Result<model::BytesPerSecond> parse_bandwidth(std::string_view text, Zero zero) {
  return parse_as<model::BytesPerSecond>(text, kBandwidthUnits, zero);
}
model::Result<model::FlopPerSecond> parse_flop_rate(std::string_view text, Zero zero) {
  return parse_as<model::FlopPerSecond>(text, kFlopRateUnits, zero);
}
model::Result<model::Seconds> parse_time(std::string_view text, Zero zero) {
  return parse_as<model::Seconds>(text, kTimeUnits, zero);
}
model::Result<model::Watts> parse_power(std::string_view text, Zero zero) {
  return parse_as<model::Watts>(text, kPowerUnits, zero);
}
model::Result<model::Hertz> parse_frequency(std::string_view text, Zero zero) {
  return parse_as<model::Hertz>(text, kFrequencyUnits, zero);
}
model::Result<model::Usd> parse_money(std::string_view text, Zero zero) {
  return parse_as<model::Usd>(text, kMoneyUnits, zero);
}

model::Result<std::int64_t> parse_integer(std::string_view text, IntegerRange range) {
  text = trimmed(text);
  const std::string allowed =
      "a whole number from " + std::to_string(range.min) + " to " + std::to_string(range.max);
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  std::int64_t value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error == std::errc::result_out_of_range && end == last) {
    return model::fail(refusal(quoted(text) + " is out of range", allowed));
  }
  if (error != std::errc{} || end != last) {
    return model::fail(refusal(quoted(text) + " is not a whole number", allowed));
  }
  if (digits.size() > 1 && digits.front() == '0') {
    return model::fail(refusal(
        quoted(text) + " starts with a zero, which some YAML readers take for octal", allowed));
  }
  if (value < range.min || value > range.max) {
    return model::fail(refusal(quoted(text) + " is out of range", allowed));
  }
  return value;
}

model::Result<double> parse_number(std::string_view text, NumberRange range) {
  text = trimmed(text);
  const std::string allowed =
      "a plain number from " + shortest(range.min) + " to " + shortest(range.max);
  if (text.empty()) return model::fail(refusal("nothing is given", allowed));
  MEGATWIN_TRY(const NumberAndRest number, split_number(text, allowed));
  if (!number.rest.empty()) {
    return model::fail(refusal(quoted(text) + " is not a plain number", allowed));
  }
  if (!(number.value >= range.min && number.value <= range.max)) {
    return model::fail(refusal(quoted(text) + " is out of range", allowed));
  }
  return number.value;
}

model::Result<double> parse_fraction(std::string_view text) {
  text = trimmed(text);
  const std::string allowed = "a number from 0 to 1, or from 0 % to 100 %";
  if (text.empty()) return model::fail(refusal("nothing is given", allowed));
  MEGATWIN_TRY(const NumberAndRest number, split_number(text, allowed));
  if (!number.rest.empty() && number.rest != "%") {
    return model::fail(refusal(quoted(text) + " is neither a number nor a percentage", allowed));
  }
  const double value = number.rest == "%" ? number.value / 100 : number.value;
  if (!(value >= 0 && value <= 1)) {
    return model::fail(refusal(quoted(text) + " is out of range", allowed));
  }
  return value;
}

model::Result<bool> parse_boolean(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return model::fail(refusal(quoted(text) + " is neither true nor false", "true or false"));
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

}  // namespace megatwin::scenarios
