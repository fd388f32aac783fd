#include "cli/report/html_network.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "cli/report/format.h"
#include "cli/report/html_bars.h"
#include "cli/report/html_page.h"
#include "cli/report/network_text.h"
#include "cli/report/utf8.h"

namespace megatwin::cli {
namespace {

std::string row(const std::string& label, const std::string& bar, const std::string& value) {
  return fmt::format(
      "<div class=\"row wide\"><span class=\"label\">{}</span><div class=\"track\">{}</div>"
      "<span class=\"value\">{}</span></div>",
      escape_html(label), bar, value);
}

std::string step_row(const std::string& label, const std::string& css_class, model::Seconds time,
                     model::Seconds full_width) {
  return row(label,
             stacked_bar({{css_class, format_time(time), model::ratio(time / full_width)}}, label),
             format_time(time));
}

std::string disturbance_part(const sim::SimulationReport& report) {
  const sim::DisturbanceReport& disturbed = *report.disturbed;
  const model::Seconds before = disturbed.undisturbed_step_time;
  const model::Seconds longest = std::max(before, report.step_time);
  return html_section(
      "What the disturbances do",
      fmt::format("The step changes by {}.",
                  format_percent_change(model::ratio(report.step_time / before) - 1)),
      step_row("without them", "n-before", before, longest) +
          step_row("with them", "n-after", report.step_time, longest) + "<h3>Cause</h3>" +
          html_list(disturbed.causes) + "<h3>How it reaches the step</h3>" +
          html_list(disturbed.chain));
}

// Its delay beside the worst; of a closed form only how many times as long it takes is known.
std::string link_row(const sim::LinkLoad& load, model::Seconds worst) {
  if (load.of_one_collective) return row(load.link, "", format_factor(load.slowdown));
  const double share = worst.value > 0 ? model::ratio(load.delay / worst) : 0;
  return row(
      load.link, stacked_bar({{"n-delay", format_time(load.delay), share}}, load.link),
      fmt::format("{} <small>{} busy</small>", format_time(load.delay), format_percent(load.full)));
}

std::string links_part(const sim::SimulationReport& report) {
  const model::Seconds worst = report.links.front().delay;
  std::string html;
  for (const sim::LinkLoad& load : report.links) {
    html += link_row(load, worst);
    html += fmt::format("<details class=\"users\"><summary>{}</summary>{}</details>",
                        link_users(load), html_list(load.users));
  }
  return html_section("Links that delay traffic",
                      "The worst first: the delay that its users suffer in all, and the share of "
                      "the step that the link is full. Of collectives that are known by closed "
                      "forms, how many times as long they take as alone.",
                      html);
}

struct SpanPart {
  std::string css_class, name;
  double share = 0;  // Of the span.
};

std::vector<SpanPart> span_parts(const sim::GoodputSpread& spread) {
  std::vector<SpanPart> parts = {{"g-kept", "work that is kept", spread.mean},
                                 {"g-redone", "work done again", spread.redone},
                                 {"g-checkpoints", "checkpoints", spread.checkpoints},
                                 {"g-restarts", "detection and restart", spread.restarts},
                                 {"g-waiting", "waiting for a node", spread.waiting},
                                 {"g-shrunk", "missing replicas", spread.shrunk}};
  std::erase_if(parts, [](const SpanPart& part) { return part.share <= 0; });
  return parts;
}

// Nine of ten runs, with the mean as a mark, from the worst of them to 100 %.
std::string spread_row(const sim::GoodputReport& goodput) {
  const sim::GoodputSpread& spread = goodput.spread;
  return row(
      "nine of ten runs",
      stacked_bar({{"none", "", spread.p05},
                   {"g-kept",
                    fmt::format("{} to {}", format_percent(spread.p05), format_percent(spread.p95)),
                    spread.p95 - spread.p05}},
                  "spread of goodput"),
      fmt::format("{}–{}", format_percent(spread.p05), format_percent(spread.p95)));
}

std::string goodput_part(const sim::GoodputReport& goodput, const ReportSection& text) {
  std::vector<Slice> slices;
  std::string rows;
  for (const SpanPart& part : span_parts(goodput.spread)) {
    const std::string share = format_percent(part.share);
    slices.push_back({part.css_class, part.name + ": " + share, part.share});
    rows += fmt::format(
        "<tr><td><i class=\"key {}\"></i>{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td>"
        "</tr>",
        part.css_class, part.name, share, format_duration(part.share * goodput.job.span));
  }
  return html_section(text.title,
                      fmt::format("Where the time goes, on average over {}.",
                                  format_counted(goodput.seeds, "seed")),
                      "<div class=\"tall\">" + stacked_bar(slices, "where the time goes") +
                          "</div><table class=\"values\"><tbody>" + rows + "</tbody></table>" +
                          spread_row(goodput) + html_list(text.lines));
}

}  // namespace

std::string network_parts(const sim::SimulationReport& report) {
  std::string html;
  if (report.disturbed) html += disturbance_part(report);
  if (!report.links.empty()) html += links_part(report);
  if (report.goodput) html += goodput_part(*report.goodput, network_sections(report).back());
  return html;
}

}  // namespace megatwin::cli
