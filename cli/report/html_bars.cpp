#include "cli/report/html_bars.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/report/breakdown.h"
#include "cli/report/format.h"
#include "cli/report/share_tables.h"
#include "cli/report/utf8.h"

namespace megatwin::cli {
namespace {

constexpr double kBarUnits = 10'000;  // Width of every bar's view box.
constexpr int kStagesShown = 16;

std::vector<Slice> step_slices(const sim::SimulationReport& report, model::Seconds full_width) {
  std::vector<Slice> slices;
  for (const BreakdownPart& part : nonzero_parts(report.breakdown)) {
    slices.push_back({"c-" + part.key,
                      fmt::format("{}: {} ({})", part.name, format_time(part.time),
                                  format_percent(model::ratio(part.time / report.step_time))),
                      model::ratio(part.time / full_width)});
  }
  return slices;
}

std::string value_row(const std::string& css_class, const std::string& name, model::Seconds time,
                      const sim::SimulationReport& report) {
  const TimeUnit unit = time_unit_for(report.step_time);
  return fmt::format(
      "<tr><td><i class=\"key {}\"></i>{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td>"
      "</tr>",
      css_class, escape_html(name), format_time_in(time, unit),
      format_percent(model::ratio(time / report.step_time)));
}

std::string memory_row(const std::string& name, const sim::StageMemory& stage, model::Bytes scale,
                       model::Bytes limit) {
  std::vector<Slice> slices;
  for (const MemoryPart& part : memory_parts(stage)) {
    slices.push_back({"m-" + part.key, fmt::format("{}: {}", part.name, format_memory(part.amount)),
                      model::ratio(part.amount / scale)});
  }
  const bool over = stage.peak > limit;
  return fmt::format(
      "<div class=\"row\"><span class=\"label\">stage {}</span><div class=\"track\">{}"
      "<b class=\"limit\" style=\"left:{:.2f}%\"></b></div><span class=\"value{}\">{}</span></div>"
      "<p class=\"hint indent\">{}</p>",
      name, stacked_bar(slices, fmt::format("memory of stage {}", name)),
      model::ratio(limit / scale) * 100, over ? " bad" : "", format_memory(stage.peak),
      escape_html(stage.largest_term));
}

}  // namespace

std::string stacked_bar(const std::vector<Slice>& slices, const std::string& label) {
  std::string svg = fmt::format(
      "<svg class=\"bar\" viewBox=\"0 0 {:.0f} 10\" preserveAspectRatio=\"none\" role=\"img\" "
      "aria-label=\"{}\">",
      kBarUnits, escape_html(label));
  double at = 0;
  for (const Slice& slice : slices) {
    const double width = slice.share * kBarUnits;
    svg += fmt::format(
        "<rect class=\"{}\" x=\"{:.1f}\" y=\"0\" width=\"{:.1f}\" height=\"10\"><title>{}</title>"
        "</rect>",
        slice.css_class, at, width, escape_html(slice.title));
    at += width;
  }
  return svg + "</svg>";
}

std::vector<int> evenly_spaced(int count, int most) {
  std::vector<int> chosen;
  if (count <= most) {
    for (int i = 0; i < count; ++i) chosen.push_back(i);
    return chosen;
  }
  for (int i = 0; i < most; ++i) {
    chosen.push_back(static_cast<int>(std::lround(i * (count - 1.0) / (most - 1))));
  }
  return chosen;
}

std::string legend(const std::vector<LegendEntry>& entries) {
  std::string html = "<ul class=\"legend\">";
  for (const LegendEntry& entry : entries) {
    html += fmt::format("<li><i class=\"key {}\"></i>{}</li>", entry.css_class,
                        escape_html(entry.name));
  }
  return html + "</ul>";
}

std::string breakdown_chart(const sim::SimulationReport& report) {
  std::string html = "<div class=\"tall\">" +
                     stacked_bar(step_slices(report, report.step_time), "parts of the step") +
                     "</div><div class=\"columns\"><table class=\"values\"><tbody>";
  for (const BreakdownPart& part : nonzero_parts(report.breakdown)) {
    html += value_row("c-" + part.key, part.name, part.time, report);
  }
  html += value_row("none", "step", report.step_time, report) + "</tbody></table>";
  const std::vector<sim::ComputeShare> shares = nonzero_shares(report);
  if (shares.empty()) return html + "</div>";
  std::vector<Slice> slices;
  std::string rows;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const sim::ComputeShare& share = shares[i];
    const std::string css_class = fmt::format("s-{}", i % 6);
    slices.push_back({css_class, fmt::format("{}: {}", share.name, format_time(share.time)),
                      model::ratio(share.time / report.breakdown.compute)});
    rows += value_row(css_class, share.name, share.time, report);
  }
  return html + "<div><h3>Compute, by kind of kernel</h3>" + stacked_bar(slices, "compute") +
         "<table class=\"values\"><tbody>" + rows + "</tbody></table></div></div>";
}

std::string memory_chart(const sim::SimulationReport& report) {
  const int count = static_cast<int>(report.memory.size());
  std::vector<int> shown = evenly_spaced(count, kStagesShown);
  const auto fullest =
      std::max_element(report.memory.begin(), report.memory.end(),
                       [](const auto& a, const auto& b) { return a.peak < b.peak; });
  const int worst = static_cast<int>(fullest - report.memory.begin());
  if (std::find(shown.begin(), shown.end(), worst) == shown.end()) {
    shown.insert(std::upper_bound(shown.begin(), shown.end(), worst), worst);
  }
  model::Bytes most = std::max(report.memory_limit, report.memory_peak);
  for (const sim::StageMemory& stage : report.memory) {
    most = std::max({most, stage.peak, stage.limit});
  }
  const model::Bytes scale = 1.02 * most;
  std::vector<LegendEntry> entries;
  for (const MemoryPart& part : memory_parts({})) entries.push_back({"m-" + part.key, part.name});
  entries.push_back({"limit-key", one_memory_limit(report)
                                      ? "limit, " + format_memory(report.memory_limit)
                                      : "limit of each stage's GPU"});
  std::string html = legend(entries);
  for (const int index : shown) {
    const sim::StageMemory& stage = report.memory[static_cast<std::size_t>(index)];
    const bool own = stage.limit.value > 0;
    html += memory_row(stage_name(report, stage), stage, scale,
                       own ? stage.limit : report.memory_limit);
  }
  if (static_cast<int>(shown.size()) < count) {
    html += fmt::format("<p class=\"hint\">{} of {} stages are drawn, the fullest among them.</p>",
                        shown.size(), count);
  }
  return html;
}

std::string sensitivity_chart(const sim::SimulationReport& report) {
  const auto effect = [&](const sim::Sensitivity& s) {
    return model::ratio(s.step_time / report.step_time) - 1;
  };
  std::vector<sim::Sensitivity> changes = report.sensitivities;
  std::stable_sort(changes.begin(), changes.end(), [&](const auto& a, const auto& b) {
    return std::abs(effect(a)) > std::abs(effect(b));
  });
  const double largest = changes.empty() ? 0 : std::abs(effect(changes.front()));
  std::string html;
  for (const sim::Sensitivity& change : changes) {
    const double width = largest > 0 ? std::abs(effect(change)) / largest * 50 : 0;
    const bool slower = effect(change) > 0;
    html += fmt::format(
        "<div class=\"row wide\"><span class=\"label\">{}</span><div class=\"track middle\">"
        "<b class=\"{}\" style=\"left:{:.2f}%;width:{:.2f}%\"></b></div>"
        "<span class=\"value\">{} <small>{}</small></span></div>",
        escape_html(change.change), slower ? "slower" : "faster", slower ? 50 : 50 - width, width,
        format_percent_change(effect(change)), format_time(change.step_time));
  }
  return html;
}

std::string comparison_chart(std::span<const sim::SimulationReport* const> reports) {
  model::Seconds longest;
  for (const auto* report : reports) longest = std::max(longest, report->step_time);
  std::vector<LegendEntry> entries;
  const std::vector<BreakdownPart> names = all_parts({});
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool any = std::any_of(reports.begin(), reports.end(), [&](const auto* report) {
      return all_parts(report->breakdown)[i].time.value != 0;
    });
    if (any) entries.push_back({"c-" + names[i].key, names[i].name});
  }
  std::string html = legend(entries);
  for (const auto* report : reports) {
    html += fmt::format(
        "<div class=\"row wide\"><span class=\"label\">{}</span><div class=\"track\">{}</div>"
        "<span class=\"value\">{}</span></div>",
        escape_html(report->name), stacked_bar(step_slices(*report, longest), report->name),
        format_time(report->step_time));
  }
  return html;
}

}  // namespace megatwin::cli
