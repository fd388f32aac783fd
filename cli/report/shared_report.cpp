#include "cli/report/shared_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/report/format.h"
#include "cli/report/json_report.h"
#include "cli/report/json_writer.h"
#include "cli/report/plan_text.h"

namespace megatwin::cli {
namespace {

const model::Plan& plan_on(const SharedSummary& summary, std::size_t job, int machines) {
  const auto& options = summary.options[job];
  const auto found = std::find_if(options.begin(), options.end(),
                                  [&](const auto& option) { return option.machines == machines; });
  return found->report.plan;
}

const char* way_text(const sim::SharedSchedule& way) {
  return way.side_by_side ? "Side by side" : "One after another";
}

}  // namespace

std::string terminal_shared(const SharedSummary& summary) {
  std::string text = fmt::format("{} runs on {} of {}\n", summary.jobs.size(),
                                 format_count(summary.machines.count), summary.machines.node.name);
  for (const sim::SharedSchedule& way : summary.ways) {
    text += fmt::format("\n{}: all done after {}{}\n", way_text(way), format_duration(way.makespan),
                        way.late_max.value > 0
                            ? fmt::format(", up to {} late", format_duration(way.late_max))
                            : "");
    std::vector<std::vector<std::string>> rows = {
        {"run", "machines", "plan", "starts", "ends", "deadline"}};
    for (std::size_t i = 0; i < way.runs.size(); ++i) {
      const auto& run = way.runs[i];
      const auto& deadline = summary.jobs[i].deadline;
      std::string kept = deadline ? "kept" : "none";
      if (run.late.value > 0) kept = format_duration(run.late) + " late";
      rows.push_back({summary.jobs[i].name, format_count(run.machines),
                      describe_short(plan_on(summary, i, run.machines)), format_duration(run.start),
                      format_duration(run.end), kept});
    }
    text += format_table(rows, {false, true, false, true, true, false});
  }
  return text;
}

std::string json_shared(const SharedSummary& summary) {
  JsonWriter json(JsonWriter::Layout::Indented);
  json.begin_object();
  json.member("node", summary.machines.node.name);
  json.member("machines", summary.machines.count);
  json.key("ways");
  json.begin_array();
  for (const sim::SharedSchedule& way : summary.ways) {
    json.begin_object();
    json.member("side_by_side", way.side_by_side);
    json.member("makespan_s", way.makespan.value);
    json.member("late_max_s", way.late_max.value);
    json.key("runs");
    json.begin_array();
    for (std::size_t i = 0; i < way.runs.size(); ++i) {
      const auto& run = way.runs[i];
      json.begin_object();
      json.member("name", summary.jobs[i].name);
      json.member("machines", run.machines);
      json.member("start_s", run.start.value);
      json.member("end_s", run.end.value);
      json.member("late_s", run.late.value);
      json.key("plan");
      write_plan(json, plan_on(summary, i, run.machines));
      json.end_object();
    }
    json.end_array();
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.finish();
}

}  // namespace megatwin::cli
