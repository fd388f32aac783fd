#include "cli/report/validation_report.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/report/format.h"
#include "cli/report/json_writer.h"

namespace megatwin::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::vector<std::string> group_row(const sim::ValidatedGroup& group) {
  std::vector<std::string> row = {group.group, std::to_string(group.rows),
                                  std::to_string(group.scored)};
  if (group.scored == 0) return row;
  for (const double value : {group.median_abs_error, group.p90_abs_error}) {
    row.push_back(format_percent(value));
  }
  for (const double value : {group.worst, group.bias}) row.push_back(format_percent_change(value));
  row.push_back(group.rank_correlation ? fmt::format("{:.3f}", *group.rank_correlation) : "–");
  if (group.apart) row.emplace_back("apart");
  return row;
}

bool is_scored(const sim::Validation& validation) {
  return std::any_of(
      validation.groups.begin(), validation.groups.end(),
      [](const sim::ValidatedGroup& group) { return !group.apart && group.scored > 0; });
}

std::string groups_text(const sim::Validation& validation) {
  std::vector<sim::ValidatedGroup> groups = validation.groups;
  std::stable_sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return a.apart != b.apart ? b.apart : a.median_abs_error > b.median_abs_error;
  });
  Rows rows = {
      {"group", "rows", "scored", "median |error|", "90 %", "worst", "bias", "rank corr.", ""}};
  for (const sim::ValidatedGroup& group : groups) rows.push_back(group_row(group));
  std::string text = validation.subject + ", predicted against measured\n" +
                     format_table(rows, {false, true, true, true, true, true, true, true, false});
  text += fmt::format("  mean of the groups' medians: {}\n  coverage: {} of {} ({})\n",
                      is_scored(validation) ? format_percent(validation.mean_of_group_medians)
                                            : "– (nothing could be scored)",
                      format_count(validation.coverage_predicted),
                      format_counted(validation.coverage_rows, "row"),
                      format_percent(validation.coverage_fraction));
  for (const auto& [reason, count] : validation.coverage_reasons) {
    text += fmt::format("    {} not predicted: {}\n", count, reason);
  }
  if (validation.memory.scored > 0) {
    text += "\nMemory, predicted against measured\n";
    rows = {rows.front(), group_row(validation.memory)};
    text += format_table(rows, {false, true, true, true, true, true, true, true, false});
  }
  return text;
}

std::string left_out_text(const sim::Validation& validation) {
  if (validation.left_out.empty()) return "";
  Rows rows = {{"left out", "its median", "mean of all", "constants set back"}};
  for (const sim::LeftOutGroup& group : validation.left_out) {
    std::string constants;
    for (const std::string& name : group.constants) {
      constants += (constants.empty() ? "" : ", ") + name;
    }
    rows.push_back({group.group, format_percent(group.median_abs_error),
                    format_percent(group.mean_of_group_medians),
                    constants.empty() ? "none" : constants});
  }
  return "\nEach group with the constants that its steps had a part in set back\n" +
         format_table(rows, {false, true, true, false}) +
         fmt::format("  mean of the left-out groups' medians: {}\n",
                     format_percent(validation.mean_of_left_out_medians));
}

std::string rows_text(const sim::Validation& validation, bool all) {
  constexpr std::size_t kShown = 10;
  std::set<std::string> apart;
  for (const sim::ValidatedGroup& group : validation.groups) {
    if (group.apart) apart.insert(group.group);
  }
  std::vector<const sim::ValidatedRow*> scored;
  for (const sim::ValidatedRow& row : validation.rows) {
    if (row.error && (all || apart.count(row.group) == 0)) scored.push_back(&row);
  }
  std::stable_sort(scored.begin(), scored.end(), [](const auto* a, const auto* b) {
    return std::abs(*a->error) > std::abs(*b->error);
  });
  if (!all) scored.resize(std::min(scored.size(), kShown));
  Rows rows = {{"row", "predicted", "measured", "error", "status"}};
  for (const sim::ValidatedRow* row : scored) {
    rows.push_back({row->id, row->predicted ? format_time(*row->predicted) : "",
                    row->measured ? format_time(*row->measured) : "",
                    format_percent_change(*row->error), row->status});
  }
  return (all ? "\nRows, the largest error first\n" : "\nRows with the largest errors\n") +
         format_table(rows, {false, true, true, true, false});
}

template <class Quantity>
void write_optional(JsonWriter& json, const char* key, const std::optional<Quantity>& quantity) {
  json.key(key);
  quantity ? json.number(quantity->value) : json.null();
}

void write_row(JsonWriter& json, const sim::ValidatedRow& row) {
  json.begin_object();
  json.member("id", row.id);
  json.member("group", row.group);
  write_optional(json, "predicted_s", row.predicted);
  write_optional(json, "measured_s", row.measured);
  json.key("error");
  row.error ? json.number(*row.error) : json.null();
  write_optional(json, "predicted_memory_bytes", row.predicted_memory);
  write_optional(json, "measured_memory_bytes", row.measured_memory);
  json.member("status", row.status);
  json.member("reason", row.reason);
  json.member("assumptions", row.assumptions);
  json.end_object();
}

void write_group(JsonWriter& json, const sim::ValidatedGroup& group) {
  json.begin_object();
  json.member("group", group.group);
  json.member("rows", group.rows);
  json.member("scored", group.scored);
  json.member("median_abs_error", group.median_abs_error);
  json.member("p90_abs_error", group.p90_abs_error);
  json.member("worst", group.worst);
  json.member("bias", group.bias);
  json.key("rank_correlation");
  group.rank_correlation ? json.number(*group.rank_correlation) : json.null();
  json.member("apart", group.apart);
  json.end_object();
}

void write_left_out(JsonWriter& json, const sim::LeftOutGroup& group) {
  json.begin_object();
  json.member("group", group.group);
  json.member("constants", group.constants);
  json.member("median_abs_error", group.median_abs_error);
  json.member("mean_of_group_medians", group.mean_of_group_medians);
  json.end_object();
}

}  // namespace

std::string terminal_validation(const sim::Validation& validation, bool all) {
  return groups_text(validation) + left_out_text(validation) + rows_text(validation, all);
}

std::string json_validation(const sim::Validation& validation) {
  JsonWriter json(JsonWriter::Layout::Indented);
  json.begin_object();
  json.key("rows");
  json.begin_array();
  for (const sim::ValidatedRow& row : validation.rows) write_row(json, row);
  json.end_array();
  json.key("groups");
  json.begin_array();
  for (const sim::ValidatedGroup& group : validation.groups) write_group(json, group);
  json.end_array();
  if (is_scored(validation)) {
    json.member("mean_of_group_medians", validation.mean_of_group_medians);
  } else {
    json.key("mean_of_group_medians");
    json.null();
  }
  json.key("coverage");
  json.begin_object();
  json.member("fraction", validation.coverage_fraction);
  json.member("predicted", validation.coverage_predicted);
  json.member("rows", validation.coverage_rows);
  json.key("reasons");
  json.begin_object();
  for (const auto& [reason, count] : validation.coverage_reasons) json.member(reason, count);
  json.end_object();
  json.end_object();
  json.key("memory");
  write_group(json, validation.memory);
  if (!validation.left_out.empty()) {
    json.key("left_out");
    json.begin_array();
    for (const sim::LeftOutGroup& group : validation.left_out) write_left_out(json, group);
    json.end_array();
    json.member("mean_of_left_out_medians", validation.mean_of_left_out_medians);
  }
  json.end_object();
  return json.finish();
}

}  // namespace megatwin::cli
