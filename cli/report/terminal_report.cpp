#include "cli/report/terminal_report.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "cli/report/breakdown.h"
#include "cli/report/format.h"
#include "cli/report/network_text.h"
#include "cli/report/plan_text.h"
#include "cli/report/priced_ops.h"
#include "cli/report/share_tables.h"

namespace megatwin::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;
constexpr int kBarWidth = 32;

std::string heading(const std::string& text, const TerminalStyle& style) {
  return style.colour ? "\n\x1b[1m" + text + "\x1b[0m\n" : "\n" + text + "\n";
}

std::string alarm(const std::string& text, const TerminalStyle& style) {
  return style.colour ? "\x1b[31m" + text + "\x1b[0m" : text;
}

std::string head(const sim::SimulationReport& report, const TerminalStyle& style) {
  std::string text = style.colour ? "\x1b[1m" + report.name + "\x1b[0m\n" : report.name + "\n";
  text +=
      fmt::format("  {} on {} × {}", report.model_name, format_count(report.gpus), report.gpu_name);
  if (!report.node_name.empty()) text += " in " + report.node_name;
  text += fmt::format(", {}\n  {}\n\n", report.software_name, describe(report.plan));
  return text;
}

std::string headline(const sim::SimulationReport& report, const TerminalStyle& style) {
  Rows rows;
  rows.push_back({"step time", format_time(report.step_time),
                  fmt::format("between {} and {}", format_time(report.step_time_low),
                              format_time(report.step_time_high))});
  rows.push_back({"throughput", format_tokens_per_second(report.tokens_per_s),
                  format_tokens_per_second(report.tokens_per_s_per_gpu) + " per GPU"});
  rows.push_back(
      {"MFU", format_percent(report.mfu),
       fmt::format("{} per GPU; FLOP counted as {}", format_flop_rate(report.model_flops_per_gpu),
                   report.flop_convention)});
  if (report.hfu > report.mfu) {
    rows.push_back({"HFU", format_percent(report.hfu), "with the recomputed FLOP"});
  }
  const std::string verdict = report.fits ? "fits" : alarm("does not fit", style);
  rows.push_back({"memory", format_memory(report.memory_peak),
                  fmt::format("{}: {}", memory_limit_text(report), verdict)});
  rows.push_back(
      {"bubble", format_percent(report.bubble_fraction), "idle over total of the critical rank"});
  if (report.power_per_gpu.value > 0) {
    rows.push_back({"power", format_power(report.power_per_gpu) + " per GPU",
                    format_energy(report.energy_per_step) + " a step"});
  }
  if (report.carbon_kg_per_step > 0) {
    rows.push_back({"carbon", fmt::format("{:.4g} kg CO2e", report.carbon_kg_per_step),
                    fmt::format("a step: {} at the meter, {} a machine",
                                format_energy(report.facility_energy_per_step),
                                format_power(report.power_per_node))});
  }
  if (report.cost_per_step.value > 0) {
    rows.push_back({"cost", format_usd(report.cost_per_step), "a step"});
  }
  return format_table(rows, {});
}

std::string breakdown_text(const sim::SimulationReport& report, const TerminalStyle& style) {
  const TimeUnit unit = time_unit_for(report.step_time);
  Rows rows;
  const auto add = [&](const std::string& name, model::Seconds time, bool bar) {
    const double share = model::ratio(time / report.step_time);
    rows.push_back({name, format_time_in(time, unit), format_percent(share),
                    bar ? format_bar(share, kBarWidth) : ""});
  };
  for (const BreakdownPart& part : nonzero_parts(report.breakdown)) {
    add(part.name, part.time, true);
    if (part.key != "compute") continue;
    for (const sim::ComputeShare& share : nonzero_shares(report)) {
      add("  " + share.name, share.time, false);
    }
  }
  add("step", report.step_time, false);
  return heading(
             fmt::format("Where the step goes (stage {}, the critical one)", report.critical_stage),
             style) +
         format_table(rows, {false, true, true, false});
}

std::string memory_text(const sim::SimulationReport& report, const TerminalStyle& style) {
  Rows rows = {{"stage", "peak", "of limit"}};
  for (const MemoryPart& part : memory_parts({})) rows.front().push_back(part.name);
  rows.front().push_back("largest term");
  const std::size_t numbers = rows.front().size() - 1;
  for (const sim::StageMemory& stage : report.memory) {
    const model::Bytes limit = stage.limit.value > 0 ? stage.limit : report.memory_limit;
    std::vector<std::string> row = {stage_name(report, stage), format_memory_number(stage.peak),
                                    format_percent(model::ratio(stage.peak / limit))};
    for (const MemoryPart& part : memory_parts(stage)) {
      row.push_back(format_memory_number(part.amount));
    }
    row.push_back(stage.largest_term);
    rows.push_back(std::move(row));
  }
  const std::string limit =
      one_memory_limit(report) ? format_memory(report.memory_limit) : "that of each stage's GPU";
  return heading(fmt::format("Memory of a rank by stage (GiB; limit {})", limit), style) +
         format_table(rows, std::vector<bool>(numbers, true));
}

// The three parts that weigh most, then what a changed assumption would do.
std::string why_text(const sim::SimulationReport& report, const TerminalStyle& style) {
  std::vector<BreakdownPart> parts = nonzero_parts(report.breakdown);
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.time > b.time; });
  parts.resize(std::min<std::size_t>(parts.size(), 3));
  std::string text = heading("Why this number", style) + "  largest terms: ";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", parts[i].name, format_time(parts[i].time));
  }
  text += "\n";
  std::vector<sim::Sensitivity> changes = report.sensitivities;
  const auto effect = [&](const sim::Sensitivity& s) {
    return std::abs(s.step_time.value - report.step_time.value);
  };
  std::stable_sort(changes.begin(), changes.end(),
                   [&](const auto& a, const auto& b) { return effect(a) > effect(b); });
  Rows rows;
  for (const sim::Sensitivity& change : changes) {
    rows.push_back({"with " + change.change, format_time(change.step_time),
                    format_percent_change(
                        model::ratio((change.step_time - report.step_time) / report.step_time))});
  }
  text += format_table(rows, {false, true, true});
  rows.clear();
  for (const auto& [convention, mfu] : report.mfu_by_convention) {
    rows.push_back({format_percent(mfu), "MFU by " + convention});
  }
  return text + format_table(rows, {true, false});
}

std::string sentences(const std::string& title, const std::vector<std::string>& lines,
                      const TerminalStyle& style) {
  if (lines.empty()) return "";
  std::string text = heading(title, style);
  for (const std::string& line : lines) text += "  - " + line + "\n";
  return text;
}

std::string ops_text(const sim::SimulationReport& report, const TerminalStyle& style) {
  constexpr std::size_t kShown = 40;
  const std::vector<AlikeOps> ops = dearest_alike(report.priced_ops);
  Rows rows = {{"time", "each", "stage", "task", "operation", "×", "shape"}};
  for (std::size_t i = 0; i < std::min(ops.size(), kShown); ++i) {
    const sim::PricedOp& op = ops[i].first;
    std::string where = fmt::format("{}.{}", op.stage, op.chunk);
    if (ops[i].num_chunks > 1) where = fmt::format("{} chunks from {}", ops[i].num_chunks, where);
    rows.push_back({format_time(op.time), format_time(op.time / std::max(1, op.op.count)), where,
                    op.task, std::string(op.op.name), std::to_string(op.op.count),
                    shape_text(op.op)});
  }
  std::string text = heading("Priced operations of a task, the dearest first", style) +
                     format_table(rows, {true, true, true, false, false, true, false});
  if (ops.size() > kShown) {
    text += fmt::format("  and {} more; --html lists them all\n", ops.size() - kShown);
  }
  return text;
}

std::string provenance(const sim::SimulationReport& report) {
  return fmt::format(
      "\n  {} parameters ({} active); all rows simulated: engine {}, network {}, {}, {}\n",
      format_parameters(report.parameters_total), format_parameters(report.parameters_active),
      report.engine, report.network, format_counted(report.ranks_simulated, "rank"),
      format_counted(report.events, "event"));
}

bool is_decoupled(const sim::SimulationReport& report) {
  return std::any_of(report.memory.begin(), report.memory.end(),
                     [](const sim::StageMemory& stage) { return !stage.side.empty(); });
}

}  // namespace

std::string terminal_report(const sim::SimulationReport& report, const TerminalStyle& style) {
  std::string text = head(report, style) + headline(report, style) + breakdown_text(report, style);
  for (const ShareTable& table : share_tables(report)) {
    text += heading(table.title + " (" + table.lead + ")", style) +
            format_table(table.rows, table.right);
  }
  if (!report.memory.empty()) text += memory_text(report, style);
  text += why_text(report, style);
  if (style.explain && !report.priced_ops.empty()) text += ops_text(report, style);
  if (style.explain && is_decoupled(report)) {
    text += "\n--explain: components and operations are not available for decoupled jobs\n";
  }
  for (const ReportSection& section : network_sections(report)) {
    text += sentences(section.title, section.lines, style);
  }
  text += sentences("Assumed, because it was not given", report.assumptions, style);
  text += sentences("Warnings", report.warnings, style);
  return text + provenance(report);
}

std::string terminal_refusal(const sim::PlanRefusal& refusal, const TerminalStyle& style) {
  const bool illegal = refusal.code == "illegal_plan";
  const std::string kind = refusal.code == "does_not_fit" ? "does not fit"
                           : illegal                      ? "this plan is illegal"
                                                          : "cannot be simulated";
  std::string text = alarm(kind, style) + ": " + refusal.message + "\n";
  for (const std::string& reason : refusal.reasons) text += "  - " + reason + "\n";
  if (refusal.nearest.empty() && refusal.others_tried) {
    text += fmt::format("none of the plans near it is legal and fits; tried: {}",
                        format_count(*refusal.others_tried));
    if (refusal.others_too_large > 0) {
      text += fmt::format("; too many tasks a step to be tried: {}",
                          format_count(refusal.others_too_large));
    }
    text += "\n";
  } else if (!refusal.nearest.empty()) {
    text += "nearest plans that are legal and fit:\n";
    for (const auto& near : refusal.nearest) {
      text += fmt::format("  - {}\n      {}\n", near.change, describe(near.plan));
    }
  }
  if (refusal.report && !refusal.report->memory.empty()) {
    text += memory_text(*refusal.report, style);
  }
  return text;
}

}  // namespace megatwin::cli
