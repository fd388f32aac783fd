// The printer: the one place where a quantity leaves its type and becomes text with a unit. Memory
// in GiB, traffic and rates in decimal units, times in the unit that reads best. No locale, no
// trailing spaces, always the same digits for the same value.
#ifndef MEGATWIN_CLI_REPORT_FORMAT_H_
#define MEGATWIN_CLI_REPORT_FORMAT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/units.h"

namespace megatwin::cli {

enum class TimeUnit { Seconds, Milliseconds, Microseconds };

// The unit in which a column reads best whose largest entry is `largest`.
TimeUnit time_unit_for(model::Seconds largest);

// "8.43 s", "61.2 ms", "3.10 µs": three significant digits, four from a thousand on.
std::string format_time(model::Seconds time);

// "26.4 days", "5.21 h", "12.0 min": of a run of weeks. Below a minute as format_time().
std::string format_duration(model::Seconds time);

// For a column: fixed decimals in a given unit, so that the points stand below each other.
std::string format_time_in(model::Seconds time, TimeUnit unit);

std::string format_memory(model::Bytes amount);            // "61.3 GiB"
std::string format_memory_number(model::Bytes amount);     // "61.3", for a column headed GiB.
std::string format_traffic(model::Bytes amount);           // "134 MB", decimal.
std::string format_bandwidth(model::BytesPerSecond rate);  // "450 GB/s"
std::string format_flop(model::Flop amount);               // "34.9 PFLOP"
std::string format_flop_rate(model::FlopPerSecond rate);   // "426 TFLOP/s"
std::string format_power(model::Watts power);              // "612 W"
std::string format_energy(model::Joules energy);           // "2.64 MJ (0.733 kWh)"
std::string format_energy_kwh(model::Joules energy);       // "0.733 kWh"
std::string format_large_power(model::Watts power);        // "1.24 MW"
std::string format_large_energy(model::Joules energy);     // "884 MWh"
std::string format_carbon(double kilograms);               // "349 t CO2e"
std::string format_usd(model::Usd price);                  // "$2.41"
std::string format_percent(double fraction);               // 0.431 → "43.1 %"
std::string format_percent_change(double fraction);  // −0.05 → "-5.0 %", 0.1 → "+10.0 %"
std::string format_factor(double factor);            // "1.97×", "1,206,482×"
std::string format_tokens_per_second(double rate);   // "498,073 tokens/s"
std::string format_count(std::int64_t count);        // "1,048,576"
std::string format_counted(std::int64_t count, std::string_view noun);  // "1 step", "2,000 steps"
std::string format_parameters(std::int64_t count);                      // "70.6 billion"

// For the ticks of an axis whose title has the unit: "498k", "1.2M"; "85 %".
std::string format_short(double value);
std::string format_percent_short(double fraction);

// A bar of `fraction` of `width` cells in eighths of a cell; empty for 0.
std::string format_bar(double fraction, int width);

// Characters that a terminal shows, as opposed to bytes of UTF-8.
std::size_t display_width(const std::string& text);

// Rows of cells below each other, columns two spaces apart. `right` says which columns are flush
// right (numbers); missing entries are flush left. Every line ends with '\n', none with a space.
std::string format_table(const std::vector<std::vector<std::string>>& rows,
                         const std::vector<bool>& right, const std::string& indent = "  ");

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_FORMAT_H_
