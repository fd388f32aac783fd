// Several runs side by side, and the scaling table of a sweep.
#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/report/breakdown.h"
#include "cli/report/format.h"
#include "cli/report/plan_text.h"
#include "cli/report/scaling.h"
#include "cli/report/terminal_report.h"

namespace megatwin::cli {
namespace {

using Reports = std::span<const sim::SimulationReport>;
using Row = std::vector<std::string>;
using Cell = std::function<std::string(const sim::SimulationReport&)>;

Row row_of(const std::string& name, Reports reports, const Cell& cell) {
  Row row = {name};
  for (const sim::SimulationReport& report : reports) row.push_back(cell(report));
  return row;
}

// Runs are called A, B, … above the table, so that long names do not push the numbers apart.
std::string letter(std::size_t index) {
  const std::string last(1, static_cast<char>('A' + index % 26));
  return index < 26 ? last : letter(index / 26 - 1) + last;
}

std::vector<Row> headline_rows(Reports reports) {
  const sim::SimulationReport& first = reports.front();
  std::vector<Row> rows;
  rows.push_back(row_of("GPUs", reports, [](const auto& r) { return format_count(r.gpus); }));
  rows.push_back(row_of("plan", reports, [](const auto& r) { return describe_short(r.plan); }));
  rows.push_back(
      row_of("step time", reports, [](const auto& r) { return format_time(r.step_time); }));
  rows.push_back(
      row_of("  low", reports, [](const auto& r) { return format_time(r.step_time_low); }));
  rows.push_back(
      row_of("  high", reports, [](const auto& r) { return format_time(r.step_time_high); }));
  rows.push_back(row_of("  against A", reports, [&](const auto& r) {
    return format_percent_change(model::ratio(r.step_time / first.step_time) - 1);
  }));
  rows.push_back(row_of("throughput", reports,
                        [](const auto& r) { return format_tokens_per_second(r.tokens_per_s); }));
  rows.push_back(row_of("  per GPU", reports, [](const auto& r) {
    return format_tokens_per_second(r.tokens_per_s_per_gpu);
  }));
  rows.push_back(row_of("MFU", reports, [](const auto& r) { return format_percent(r.mfu); }));
  rows.push_back(
      row_of("memory", reports, [](const auto& r) { return format_memory(r.memory_peak); }));
  rows.push_back(row_of("  of limit", reports, [](const auto& r) {
    return format_percent(model::ratio(r.memory_peak / r.memory_limit)) +
           (r.fits ? "" : " too much");
  }));
  rows.push_back(
      row_of("bubble", reports, [](const auto& r) { return format_percent(r.bubble_fraction); }));
  return rows;
}

// Parts that any of the runs has.
std::vector<Row> part_rows(Reports reports) {
  std::vector<Row> rows;
  const std::vector<BreakdownPart> names = all_parts({});
  for (std::size_t i = 0; i < names.size(); ++i) {
    bool any = false;
    Row row = {"  " + names[i].name};
    for (const sim::SimulationReport& report : reports) {
      const model::Seconds time = all_parts(report.breakdown)[i].time;
      any = any || time.value != 0;
      row.push_back(format_time(time));
    }
    if (any) rows.push_back(std::move(row));
  }
  return rows;
}

std::string scaling_text(const ScalingCurve& curve, const TerminalStyle& style) {
  const std::string title(name_of(curve.kind));
  std::vector<Row> rows = {{"GPUs", "step time", "throughput", "speed-up", "efficiency", ""}};
  for (const ScalingPoint& point : curve.points) {
    rows.push_back({format_count(point.gpus), format_time(point.report->step_time),
                    format_tokens_per_second(point.report->tokens_per_s),
                    format_factor(point.speed_up), format_percent(point.efficiency),
                    format_bar(point.efficiency, 20)});
  }
  return (style.colour ? "\n\x1b[1m" + title + "\x1b[0m\n" : "\n" + title + "\n") +
         format_table(rows, {true, true, true, true, true, false});
}

// Each warning once, with the runs that have it.
std::string warnings_text(Reports reports) {
  std::vector<std::pair<std::string, std::string>> warned;  // Sentence, letters.
  for (std::size_t i = 0; i < reports.size(); ++i) {
    for (const std::string& warning : reports[i].warnings) {
      const auto same = [&](const auto& entry) { return entry.first == warning; };
      const auto found = std::find_if(warned.begin(), warned.end(), same);
      if (found == warned.end()) {
        warned.emplace_back(warning, letter(i));
      } else {
        found->second += " " + letter(i);
      }
    }
  }
  std::string text = warned.empty() ? "" : "\nWarnings\n";
  for (const auto& [warning, letters] : warned) {
    text += fmt::format("  - {}: {}\n", letters, warning);
  }
  return text;
}

}  // namespace

std::string terminal_comparison(Reports reports, const TerminalStyle& style) {
  if (reports.empty()) return "";
  std::string text;
  Row head = {""};
  for (std::size_t i = 0; i < reports.size(); ++i) {
    text += fmt::format("{}: {}, {}\n", letter(i), reports[i].name, describe(reports[i].plan));
    head.push_back(letter(i));
  }
  std::vector<Row> rows = {head};
  for (Row& row : headline_rows(reports)) rows.push_back(std::move(row));
  rows.push_back({"where it goes"});
  for (Row& row : part_rows(reports)) rows.push_back(std::move(row));
  std::vector<bool> right(reports.size() + 1, true);
  right.front() = false;
  text += "\n" + format_table(rows, right);
  if (const auto curve = scaling_curve(reports)) text += scaling_text(*curve, style);
  return text + warnings_text(reports);
}

}  // namespace megatwin::cli
