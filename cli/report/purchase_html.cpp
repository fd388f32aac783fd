#include "cli/report/purchase_html.h"

#include <vector>

#include <fmt/format.h>

#include "cli/report/format.h"
#include "cli/report/html_curves.h"
#include "cli/report/html_page.h"
#include "cli/report/plan_text.h"
#include "cli/report/scaling.h"
#include "cli/report/utf8.h"

namespace megatwin::cli {
namespace {

using sim::PurchaseOption;

std::string option_tiles(const PurchaseSummary& summary, const PurchaseOption& option) {
  const sim::TrainingRun& run = option.run;
  std::string html = "<div class=\"tiles\">";
  html += html_tile("Machines", fmt::format("{} + {}", option.machines, run.spares),
                    "to train and in reserve");
  html += html_tile("Duration", format_duration(run.duration),
                    fmt::format("{} of {}", format_counted(run.steps, "step"),
                                format_time(option.report.step_time)));
  html += html_tile("Cost", run.cost ? format_usd(*run.cost) : "unknown", "spares included");
  html += html_tile("Goodput", format_percent(run.goodput),
                    run.mean_time_to_failure
                        ? "a failure every " + format_duration(*run.mean_time_to_failure)
                        : "nothing fails");
  html += html_tile("Energy", format_large_energy(run.energy),
                    "at the meter, " + format_large_power(run.power));
  if (run.carbon_kg) html += html_tile("Carbon", format_carbon(*run.carbon_kg), "of the energy");
  html += "</div>\n<p class=\"subtitle\">" + escape_html(machines_text(summary, option)) + "; " +
          escape_html(describe(option.report.plan)) + "</p>\n";
  return html;
}

std::string curve_table(const PurchaseSummary& summary, const sim::OfferCurve& curve) {
  std::string html =
      "<div class=\"scroll\"><table class=\"ops\"><thead><tr><th></th><th class=\"num\">machines"
      "</th><th class=\"num\">GPUs</th><th>plan</th><th class=\"num\">step</th><th class=\"num\">"
      "MFU</th><th class=\"num\">goodput</th><th class=\"num\">duration</th><th class=\"num\">cost"
      "</th></tr></thead><tbody>";
  for (const std::size_t i : curve.options) {
    const PurchaseOption& option = summary.answer.options[i];
    std::string mark = i == summary.answer.choice ? "taken" : "";
    if (i == curve.knee) mark += (mark.empty() ? "" : ", ") + knee_mark(curve);
    html += fmt::format(
        "<tr><td>{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td><td>{}</td>"
        "<td class=\"num\">{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td>"
        "<td class=\"num\">{}</td><td class=\"num\">{}</td></tr>",
        mark, format_count(option.machines), format_count(option.report.gpus),
        describe_short(option.report.plan), format_time(option.report.step_time),
        format_percent(option.report.mfu), format_percent(option.run.goodput),
        format_duration(option.run.duration), option.run.cost ? format_usd(*option.run.cost) : "–");
  }
  return html + "</tbody></table></div>";
}

std::string curves(const PurchaseSummary& summary) {
  std::string html;
  for (const sim::OfferCurve& curve : summary.answer.curves) {
    if (curve.options.empty()) continue;
    std::vector<sim::SimulationReport> reports;
    for (const std::size_t i : curve.options) {
      reports.push_back(summary.answer.options[i].report);
    }
    std::string body = curve_table(summary, curve);
    if (const auto scaling = scaling_curve(reports)) body += scaling_charts(*scaling);
    html += html_section(reports.front().node_name,
                         "The best plan found on each number of machines; before failures.", body);
  }
  return html;
}

std::string utilisations(const PurchaseSummary& summary) {
  std::string table;
  for (const std::vector<std::string>& row : utilisation_rows(summary)) {
    const char* cell = table.empty() ? "th" : "td";
    table += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      table += fmt::format("<{}{}>{}</{}>", cell, i == 0 ? "" : " class=\"num\"",
                           escape_html(row[i]), cell);
    }
    table += "</tr>";
  }
  if (table.empty()) return "";
  return html_section(utilisation_title(summary), kUtilisationNote,
                      "<div class=\"scroll\"><table class=\"ops\">" + table + "</table></div>");
}

std::string unmet_section(const PurchaseSummary& summary, const sim::UnmetWish& unmet) {
  std::vector<std::string> lines = unmet.reasons;
  for (const auto& relaxation : unmet.relaxations) {
    lines.push_back(relaxation_text(relaxation) + " (" +
                    machines_text(summary, summary.answer.options[relaxation.option]) + ")");
  }
  lines.insert(lines.end(), unmet.other_ways.begin(), unmet.other_ways.end());
  return html_section(unmet.together ? "Relax all of these together" : "Relax one of these",
                      unmet.message, html_list(lines));
}

}  // namespace

std::string html_purchase(const PurchaseSummary& summary) {
  const std::string title = summary.job.transformer.name + ", " +
                            format_short(summary.wish.tokens) + " tokens" +
                            limits_text(summary.wish);
  std::string body = "<h1>" + escape_html(title) + "</h1>\n";
  if (summary.answer.choice) {
    body += option_tiles(summary, summary.answer.options[*summary.answer.choice]);
  }
  if (summary.answer.unmet) {
    body += unmet_section(summary, *summary.answer.unmet);
    if (summary.answer.unmet->nearest) {
      body += html_section(
          "The nearest that is possible", "",
          option_tiles(summary, summary.answer.options[*summary.answer.unmet->nearest]));
    }
  }
  body += curves(summary);
  body += utilisations(summary);
  body += html_section("Not counted", "", html_list(summary.answer.not_counted));
  body +=
      html_section("Assumed, because it was not given", "", html_list(summary.wish.assumptions));
  return html_page({.title = title, .head = "planned training run", .body = body});
}

}  // namespace megatwin::cli
