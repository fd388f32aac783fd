#include "cli/report/html_report.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "cli/report/breakdown.h"
#include "cli/report/format.h"
#include "cli/report/html_bars.h"
#include "cli/report/html_curves.h"
#include "cli/report/html_network.h"
#include "cli/report/html_page.h"
#include "cli/report/html_timeline.h"
#include "cli/report/plan_text.h"
#include "cli/report/priced_ops.h"
#include "cli/report/scaling.h"
#include "cli/report/share_tables.h"
#include "cli/report/utf8.h"
#include "model/assert.h"

namespace megatwin::cli {
namespace {

std::string tiles(const sim::SimulationReport& report) {
  std::string html = "<div class=\"tiles\">";
  html += html_tile("Step time", format_time(report.step_time),
                    fmt::format("between {} and {}", format_time(report.step_time_low),
                                format_time(report.step_time_high)));
  html += html_tile("Throughput", format_short(report.tokens_per_s) + " tokens/s",
                    format_tokens_per_second(report.tokens_per_s_per_gpu) + " per GPU");
  html += html_tile("MFU", format_percent(report.mfu),
                    fmt::format("{} per GPU; {}", format_flop_rate(report.model_flops_per_gpu),
                                report.flop_convention));
  html += html_tile(
      "Memory", format_memory(report.memory_peak),
      fmt::format("{}; {}", memory_limit_text(report), report.fits ? "fits" : "does not fit"),
      report.fits ? "" : "bad");
  html += html_tile("Bubble", format_percent(report.bubble_fraction),
                    "idle share of the critical rank");
  if (report.power_per_gpu.value > 0) {
    html += html_tile("Energy", format_energy_kwh(report.energy_per_step),
                      fmt::format("a step, at {} per GPU", format_power(report.power_per_gpu)));
  }
  if (report.cost_per_step.value > 0) {
    html += html_tile("Cost", format_usd(report.cost_per_step), "a step");
  }
  return html + "</div>\n";
}

std::string chips(const model::Plan& plan) {
  std::string html = "<p class=\"chips\">";
  std::string rest = describe(plan);
  constexpr std::string_view kSeparator = " · ";
  while (!rest.empty()) {
    const std::size_t end = rest.find(kSeparator);
    html += "<span>" + escape_html(rest.substr(0, end)) + "</span>";
    rest = end == std::string::npos ? "" : rest.substr(end + kSeparator.size());
  }
  return html + "</p>\n";
}

std::string title_of(const sim::SimulationReport& report) {
  std::string text =
      fmt::format("{} on {} × {}", report.model_name, format_count(report.gpus), report.gpu_name);
  if (!report.node_name.empty()) text += " in " + report.node_name;
  return text + ", " + report.software_name;
}

std::string convention_table(const sim::SimulationReport& report) {
  if (report.mfu_by_convention.empty()) return "";
  std::string html = "<table class=\"values\"><tbody>";
  for (const auto& [name, mfu] : report.mfu_by_convention) {
    html += fmt::format("<tr><td>{}</td><td class=\"num\">{}</td></tr>", escape_html(name),
                        format_percent(mfu));
  }
  return html + "</tbody></table>";
}

std::string ops_table(const sim::SimulationReport& report) {
  if (report.priced_ops.empty()) return "";
  std::string html =
      "<div class=\"scroll\"><table class=\"ops\"><thead><tr><th class=\"num\">time</th>"
      "<th class=\"num\">each</th><th>stage.chunk</th><th>task</th><th>operation</th>"
      "<th>kind</th><th class=\"num\">count</th><th>shape</th></tr></thead><tbody>";
  for (const sim::PricedOp& op : dearest_first(report.priced_ops)) {
    html += fmt::format(
        "<tr><td class=\"num\">{}</td><td class=\"num\">{}</td><td>{}.{}</td><td>{}</td><td>{}</td>"
        "<td>{}</td><td class=\"num\">{}</td><td>{}</td></tr>",
        format_time(op.time), format_time(op.time / std::max(1, op.op.count)), op.stage, op.chunk,
        escape_html(op.task), escape_html(op.op.name), kind_text(op.op.kind), op.op.count,
        escape_html(shape_text(op.op)));
  }
  return html + "</tbody></table></div>";
}

std::string share_table(const ShareTable& table) {
  std::string html = "<div class=\"scroll\"><table class=\"ops\">";
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    html += row == 0 ? "<thead><tr>" : "<tr>";
    for (std::size_t column = 0; column < table.rows[row].size(); ++column) {
      html += fmt::format("<{0}{1}>{2}</{0}>", row == 0 ? "th" : "td",
                          table.right[column] ? " class=\"num\"" : "",
                          escape_html(table.rows[row][column]));
    }
    html += row == 0 ? "</tr></thead><tbody>" : "</tr>";
  }
  return html + "</tbody></table></div>";
}

std::string footer(const sim::SimulationReport& report) {
  return fmt::format(
      "<p class=\"hint\">{} parameters, {} of them active. Every figure is simulated: engine {}, "
      "network {}, {}, {}.</p>\n",
      format_parameters(report.parameters_total), format_parameters(report.parameters_active),
      escape_html(report.engine), escape_html(report.network),
      format_counted(report.ranks_simulated, "rank"), format_counted(report.events, "event"));
}

std::string run_body(const sim::SimulationReport& report) {
  std::string html = tiles(report);
  if (!report.warnings.empty()) {
    html += "<aside><b>Warnings</b>" + html_list(report.warnings) + "</aside>\n";
  }
  html +=
      html_section("Where the step goes",
                   fmt::format("On stage {}, which decides the step time.", report.critical_stage),
                   breakdown_chart(report));
  for (const ShareTable& table : share_tables(report)) {
    html += html_section(table.title, table.lead + ".", share_table(table));
  }
  if (!report.memory.empty()) {
    html += html_section("Memory of a rank, by stage", "At its peak within the step.",
                         memory_chart(report));
  }
  html += html_section("Pipeline timeline", "", timeline_chart(report));
  html += network_parts(report);
  html += html_section("What would change it most", "Step time when one assumption changes.",
                       sensitivity_chart(report));
  html += html_section("MFU by other conventions",
                       "Publications count FLOP differently; compare like with like.",
                       convention_table(report));
  html += html_section("Assumed, because it was not given", "", html_list(report.assumptions));
  html +=
      html_section("Priced operations", "Of one task each, the dearest first.", ops_table(report));
  return html + footer(report);
}

std::string refusal_body(const sim::PlanRefusal& refusal) {
  const char* kind = refusal.code == "does_not_fit"   ? "Does not fit:"
                     : refusal.code == "illegal_plan" ? "Illegal plan:"
                                                      : "Cannot be simulated:";
  std::string html =
      fmt::format("<p class=\"verdict\"><b>{}</b> {}</p>", kind, escape_html(refusal.message));
  html += html_section("Why", "", html_list(refusal.reasons));
  std::string nearest;
  for (const auto& near : refusal.nearest) {
    nearest += fmt::format("<li><b>{}</b><br>{}</li>", escape_html(near.change),
                           escape_html(describe(near.plan)));
  }
  if (!nearest.empty()) nearest = "<ul class=\"plain\">" + nearest + "</ul>";
  html += html_section("Nearest plans that are legal and fit", "", nearest);
  return refusal.report ? html + run_body(*refusal.report) : html;
}

std::string run(const NamedAnswer& named, bool folded) {
  const auto* report = std::get_if<sim::SimulationReport>(&named.answer);
  std::string subtitle;
  std::string body;
  if (report != nullptr) {
    subtitle =
        "<p class=\"subtitle\">" + escape_html(title_of(*report)) + "</p>" + chips(report->plan);
    body = run_body(*report);
  } else {
    body = refusal_body(std::get<sim::PlanRefusal>(named.answer));
  }
  if (!folded) return "<h1>" + escape_html(named.name) + "</h1>" + subtitle + body;
  return "<details class=\"run\"><summary>" + escape_html(named.name) + "</summary>" + subtitle +
         body + "</details>\n";
}

// The words that all names begin with, and a space; what follows is what tells the runs apart.
std::string common_words(std::span<const NamedAnswer> answers) {
  std::string common = answers.front().name;
  for (const NamedAnswer& named : answers) {
    const auto [end, other] =
        std::mismatch(common.begin(), common.end(), named.name.begin(), named.name.end());
    common.erase(end, common.end());
  }
  const std::size_t space = common.find_last_of(' ');
  return space == std::string::npos ? "" : common.substr(0, space + 1);
}

std::string comparison_table(std::span<const NamedAnswer> answers) {
  std::string html =
      "<div class=\"scroll\"><table class=\"ops\"><thead><tr><th>run</th>"
      "<th class=\"num\">step time</th><th class=\"num\">MFU</th>"
      "<th class=\"num\">memory</th><th class=\"num\">GPUs</th><th>plan</th>"
      "<th class=\"num\">throughput</th><th class=\"num\">per GPU</th>"
      "<th class=\"num\">bubble</th></tr></thead><tbody>";
  for (const NamedAnswer& named : answers) {
    const auto* report = std::get_if<sim::SimulationReport>(&named.answer);
    if (report == nullptr) {
      html += fmt::format(
          "<tr><td class=\"words\">{}</td><td colspan=\"8\" class=\"bad\">{}</td></tr>",
          escape_html(named.name), escape_html(std::get<sim::PlanRefusal>(named.answer).message));
      continue;
    }
    html += fmt::format(
        "<tr><td class=\"words\">{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td>"
        "<td class=\"num\">{}</td><td class=\"num\">{}</td><td>{}</td><td class=\"num\">{}</td>"
        "<td class=\"num\">{}</td><td class=\"num\">{}</td></tr>",
        escape_html(named.name), format_time(report->step_time), format_percent(report->mfu),
        format_memory(report->memory_peak), format_count(report->gpus),
        describe_short(report->plan), format_tokens_per_second(report->tokens_per_s),
        format_tokens_per_second(report->tokens_per_s_per_gpu),
        format_percent(report->bubble_fraction));
  }
  return html + "</tbody></table></div>";
}

std::string comparison(std::vector<NamedAnswer> answers) {
  const std::string common = common_words(answers);
  for (NamedAnswer& named : answers) named.name.erase(0, common.size());
  std::vector<sim::SimulationReport> reports;
  for (const NamedAnswer& named : answers) {
    if (const auto* report = std::get_if<sim::SimulationReport>(&named.answer)) {
      reports.push_back(*report);
      reports.back().name = named.name;
    }
  }
  std::vector<const sim::SimulationReport*> pointers;
  pointers.reserve(reports.size());
  for (const auto& report : reports) pointers.push_back(&report);
  std::string html = fmt::format("<h1>{} runs compared</h1>", answers.size());
  if (!common.empty()) html += "<p class=\"subtitle\">" + escape_html(common) + "</p>";
  html += html_section("Side by side", "", comparison_table(answers));
  if (!reports.empty()) {
    html += html_section("Step time", "Bars are to one scale.", comparison_chart(pointers));
    if (const auto curve = scaling_curve(reports)) {
      html += html_section("Scaling", std::string(name_of(curve->kind)), scaling_charts(*curve));
    }
  }
  return html;
}

}  // namespace

std::string html_report(std::span<const NamedAnswer> answers) {
  MEGATWIN_ASSERT(!answers.empty(), "nothing to write");
  const bool many = answers.size() > 1;
  const std::string title = many ? fmt::format("{} runs", answers.size()) : answers.front().name;
  std::string html;
  if (many) html += comparison({answers.begin(), answers.end()});
  for (const NamedAnswer& named : answers) html += run(named, many);
  return html_page({.title = title, .head = "simulated training step", .body = html});
}

}  // namespace megatwin::cli
