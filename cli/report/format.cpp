#include "cli/report/format.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace megatwin::cli {
namespace {

// Three significant digits below a thousand, whole numbers with separators from there on.
std::string digits(double value) {
  const double size = std::abs(value);
  if (size >= 999.5) return format_count(std::llround(value));
  if (size >= 99.95) return fmt::format("{:.0f}", value);
  if (size >= 9.995) return fmt::format("{:.1f}", value);
  if (size >= 0.9995 || size == 0) return fmt::format("{:.2f}", value);
  return fmt::format("{:.3g}", value);
}

struct Prefix {
  double factor;
  const char* name;
};
constexpr std::array<Prefix, 7> kDecimal = {
    {{1e18, "E"}, {1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}}};

std::string with_prefix(double value, const char* unit) {
  for (const Prefix& prefix : kDecimal) {
    if (std::abs(value) >= prefix.factor) {
      return fmt::format("{} {}{}", digits(value / prefix.factor), prefix.name, unit);
    }
  }
  return fmt::format("{} {}", digits(value), unit);
}

double scale_of(TimeUnit unit) {
  switch (unit) {
    case TimeUnit::Seconds:
      return 1;
    case TimeUnit::Milliseconds:
      return 1e3;
    case TimeUnit::Microseconds:
      return 1e6;
  }
  return 1;
}

const char* symbol_of(TimeUnit unit) {
  switch (unit) {
    case TimeUnit::Seconds:
      return "s";
    case TimeUnit::Milliseconds:
      return "ms";
    case TimeUnit::Microseconds:
      return "µs";
  }
  return "s";
}

constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;

}  // namespace

TimeUnit time_unit_for(model::Seconds largest) {
  const double size = std::abs(largest.value);
  if (size >= 1) return TimeUnit::Seconds;
  if (size >= 1e-3) return TimeUnit::Milliseconds;
  return TimeUnit::Microseconds;
}

std::string format_time(model::Seconds time) {
  if (time.value == 0) return "0 s";
  const TimeUnit unit = time_unit_for(time);
  return fmt::format("{} {}", digits(time.value * scale_of(unit)), symbol_of(unit));
}

std::string format_duration(model::Seconds time) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
  if (time.value >= kDay) return digits(time.value / kDay) + " days";
  if (time.value >= kHour) return digits(time.value / kHour) + " h";
  if (time.value >= kMinute) return digits(time.value / kMinute) + " min";
  return format_time(time);
}

std::string format_time_in(model::Seconds time, TimeUnit unit) {
  const int decimals = unit == TimeUnit::Seconds ? 3 : 2;
  return fmt::format("{:.{}f} {}", time.value * scale_of(unit), decimals, symbol_of(unit));
}

std::string format_memory(model::Bytes amount) { return format_memory_number(amount) + " GiB"; }

std::string format_memory_number(model::Bytes amount) {
  const double gibibytes = amount.value / kGibibyte;
  if (gibibytes != 0 && std::abs(gibibytes) < 0.995) return fmt::format("{:.2f}", gibibytes);
  return fmt::format("{:.1f}", gibibytes);
}

std::string format_traffic(model::Bytes amount) { return with_prefix(amount.value, "B"); }

std::string format_bandwidth(model::BytesPerSecond rate) {
  return digits(rate.value / 1e9) + " GB/s";
}

std::string format_flop(model::Flop amount) { return with_prefix(amount.value, "FLOP"); }

std::string format_flop_rate(model::FlopPerSecond rate) {
  return digits(rate.value / 1e12) + " TFLOP/s";
}

std::string format_power(model::Watts power) { return digits(power.value) + " W"; }

std::string format_energy(model::Joules energy) {
  return fmt::format("{} ({})", with_prefix(energy.value, "J"), format_energy_kwh(energy));
}

std::string format_energy_kwh(model::Joules energy) {
  return digits(energy.value / 3.6e6) + " kWh";
}

std::string format_large_power(model::Watts power) { return with_prefix(power.value, "W"); }

std::string format_large_energy(model::Joules energy) {
  return with_prefix(energy.value / 3600, "Wh");
}

std::string format_carbon(double kilograms) {
  return kilograms < 1000 ? digits(kilograms) + " kg CO2e" : digits(kilograms / 1000) + " t CO2e";
}

std::string format_usd(model::Usd price) {
  if (std::abs(price.value) >= 1000) return "$" + format_count(std::llround(price.value));
  if (price.value != 0 && std::abs(price.value) < 0.995) {
    return fmt::format("${:.3g}", price.value);
  }
  return fmt::format("${:.2f}", price.value);
}

std::string format_percent(double fraction) { return fmt::format("{:.1f} %", fraction * 100); }

std::string format_percent_change(double fraction) {
  if (std::abs(fraction) < 0.0005) return "0.0 %";
  return fmt::format("{:+.1f} %", fraction * 100);
}

std::string format_factor(double factor) {
  if (factor >= 99.995) return format_count(std::llround(factor)) + "×";
  return fmt::format("{:.2f}×", factor);
}

std::string format_tokens_per_second(double rate) { return digits(rate) + " tokens/s"; }

std::string format_count(std::int64_t count) {
  std::string text = std::to_string(count);
  const std::size_t first = count < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > first + 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

std::string format_counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", format_count(count), noun, count == 1 ? "" : "s");
}

std::string format_parameters(std::int64_t count) {
  const double value = static_cast<double>(count);
  if (value >= 1e12) return digits(value / 1e12) + " trillion";
  if (value >= 1e9) return digits(value / 1e9) + " billion";
  if (value >= 1e6) return digits(value / 1e6) + " million";
  return format_count(count);
}

std::string format_short(double value) {
  for (const Prefix& prefix : kDecimal) {
    if (std::abs(value) >= prefix.factor) {
      return fmt::format("{:.3g}{}", value / prefix.factor, prefix.name);
    }
  }
  return fmt::format("{:.3g}", value);
}

std::string format_percent_short(double fraction) {
  return fmt::format("{:.0f} %", fraction * 100);
}

std::string format_bar(double fraction, int width) {
  static constexpr std::array<const char*, 8> kPart = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double clamped = std::clamp(fraction, 0.0, 1.0);
  const long eighths = std::lround(clamped * width * 8);
  std::string bar;
  for (long i = 0; i < eighths / 8; ++i) bar += "█";
  return bar + kPart[static_cast<std::size_t>(eighths % 8)];
}

std::size_t display_width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;  // Not a continuation byte.
  }));
}

std::string format_table(const std::vector<std::vector<std::string>>& rows,
                         const std::vector<bool>& right, const std::string& indent) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t c = 0; c < row.size(); ++c) {
      widths[c] = std::max(widths[c], display_width(row[c]));
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = indent;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - display_width(row[c]), ' ');
      const bool flush_right = c < right.size() && right[c];
      line += flush_right ? padding + row[c] : row[c] + padding;
      if (c + 1 < row.size()) line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace megatwin::cli
