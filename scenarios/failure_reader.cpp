#include "scenarios/failure_reader.h"

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <utility>

namespace megatwin::scenarios {
namespace {

using model::FailurePlan;
using model::PartFailures;

constexpr double kDay = 86400;
constexpr NumberRange kRate{.min = 0, .max = 1e6};
// Llama team, arXiv:2407.21783, table 5: 419 unexpected stops in 54 days on 2,048 machines.
constexpr double kLlamaPerNodeDay = 419.0 / 54 / 2048;

void read_parts(MapReader& reader, const TreeNode& list, FailurePlan& plan) {
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    MapReader item(reader.context(), list.items[i],
                   reader.path_of("parts[" + std::to_string(i) + "]"));
    if (list.items[i].kind != TreeKind::Map) continue;
    PartFailures part;
    item.require("part", "what fails, such as gpu");
    item.require("per_day", "how often one of them fails a day");
    part.part = item.text("part").value_or("");
    part.count = item.number("count", {.min = 0, .max = 1e9}).value_or(1);
    part.per_day = item.number("per_day", kRate).value_or(0);
    item.finish();
    if (part.count * part.per_day > 0) plan.parts.push_back(std::move(part));
  }
}

// The one of `keys` that is given and stands last in the list, or nullptr.
const TreeNode* last_given(MapReader& reader, std::initializer_list<const char*> keys,
                           std::string& key) {
  const TreeNode* found = nullptr;
  for (const char* name : keys) {
    if (!reader.has(name)) continue;
    found = reader.find(name);
    key = name;
  }
  return found;
}

void refuse_several_rates(MapReader& reader) {
  std::string given, last;
  int count = 0;
  for (const char* key : {"parts", "mean_time_between_failures", "per_node_day"}) {
    if (!reader.has(key)) continue;
    given += (given.empty() ? "" : " and ") + std::string(key);
    last = key;
    ++count;
  }
  if (count < 2) return;
  reader.error_at(*reader.find(last), last, given + " both say how often something fails",
                  "one of parts, mean_time_between_failures and per_node_day");
}

void read_rates(MapReader& reader, const model::Cluster& cluster, Remarks& remarks,
                FailurePlan& plan) {
  int nodes = 0;
  for (const model::NodeGroup& group : cluster.groups) nodes += group.count;
  const TreeNode* parts = reader.find("parts");
  const auto between = reader.read("mean_time_between_failures", parse_time);
  const auto per_node_day = reader.number("per_node_day", kRate);
  refuse_several_rates(reader);
  if (parts != nullptr) read_parts(reader, *parts, plan);
  if (between) plan.parts.push_back({"job", 1, kDay / between->value});
  if (per_node_day && *per_node_day > 0) {
    plan.parts.push_back({"node", static_cast<double>(nodes), *per_node_day});
  }
  if (!plan.parts.empty()) return;
  if (parts != nullptr || per_node_day) {
    reader.error_at(parts != nullptr ? *parts : *reader.find("per_node_day"), "parts",
                    "nothing ever fails", "at least one rate greater than 0");
    return;
  }
  plan.parts.push_back({"node", static_cast<double>(nodes), kLlamaPerNodeDay});
  remarks.assumptions.push_back(
      "No failure rate was given: 0.00379 a machine and day is taken, as on 16,384 H100 for 54 "
      "days.");
}

void read_checkpoint(MapReader& failures, FailurePlan& plan) {
  const TreeNode* node = failures.find("checkpoint");
  if (node == nullptr) return;
  MapReader reader(failures.context(), *node, failures.path_of("checkpoint"));
  if (const TreeNode* interval = reader.find("interval");
      interval != nullptr && interval->text != "auto") {
    plan.interval = reader.read("interval", parse_time).value_or(model::Seconds{});
  }
  plan.checkpoint_blocks = reader.read("blocks", parse_time).value_or(model::Seconds{});
  plan.storage = reader.read("storage", parse_bandwidth).value_or(model::BytesPerSecond{});
  plan.asynchronous = reader.boolean("asynchronous").value_or(false);
  if (plan.checkpoint_blocks.value <= 0 && plan.storage.value <= 0 && !reader.has("blocks")) {
    reader.require("storage", "the rate of all writers together, or blocks: a time");
  }
  reader.finish();
}

std::string rough_number(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", number);
  return text;
}

// Every failure of every seed is drawn, and the best interval is looked for in 25 steps of up to
// 100 seeds: about twenty seconds at most.
void refuse_endless(MapReader& failures, const TreeNode& node, const FailurePlan& plan,
                    MapReader& scenario) {
  constexpr double kFailuresMax = 3e8, kIntervals = 25;
  double per_day = 0;
  for (const PartFailures& part : plan.parts) per_day += part.count * part.per_day;
  const double of_a_run = 1 + per_day * plan.span.value / kDay;
  const double runs = plan.seeds + kIntervals * std::min(plan.seeds, 100);
  if (runs * of_a_run <= kFailuresMax) return;
  const std::string message = rough_number(of_a_run) + " failures are expected in the span of " +
                              rough_number(plan.span.value / kDay) + " d, and " +
                              rough_number(runs * of_a_run) + " in the " + rough_number(runs) +
                              " runs of all seeds and intervals";
  const std::string allowed = "at most " + rough_number(kFailuresMax) +
                              " in all: a shorter span, fewer seeds, or fewer failures a day";
  std::string key;
  const TreeNode* place = last_given(
      failures, {"per_node_day", "parts", "mean_time_between_failures", "seeds", "span"}, key);
  if (place != nullptr) return failures.error_at(*place, key, message, allowed);
  scenario.error_at(node, "failures", message, allowed);
}

// What was not given and enters the result.
void remark_defaults(MapReader& reader, Remarks& remarks) {
  constexpr std::pair<const char*, const char*> kDefaults[] = {
      {"span", "30 d is taken"}, {"detection", "5 min is taken"}, {"restart", "10 min is taken"}};
  const auto remark = [&](const char* key, const char* taken) {
    if (reader.has(key)) return;
    remarks.assumptions.push_back(std::string("failures.") + key + " was not given: " + taken +
                                  ".");
  };
  for (const auto& [key, taken] : kDefaults) remark(key, taken);
  remark("spares", "a machine is always in reserve");
  // Nothing waits for a machine where another one is always there.
  if (reader.has("spares")) remark("repair", "1 d is taken");
}

// "414 g/kWh" or "0.414 kg/kWh", in kg.
model::Result<double> parse_carbon(std::string_view text, Zero) {
  for (const auto& [unit, factor] :
       {std::pair<std::string_view, double>{"kg/kWh", 1}, {"g/kWh", 1e-3}}) {
    if (!text.ends_with(unit)) continue;
    std::string_view number = text.substr(0, text.size() - unit.size());
    while (number.ends_with(' ')) number.remove_suffix(1);
    const auto value = parse_number(number, {.min = 0, .max = 1e6});
    if (value) return factor * *value;
  }
  return model::fail(
      model::Diagnostic{.message = "'" + std::string(text) + "' is no carbon intensity",
                        .allowed = "a number with g/kWh or kg/kWh"});
}

}  // namespace

std::optional<FailurePlan> read_failures(MapReader& scenario, const model::Cluster& cluster,
                                         Remarks& remarks) {
  const TreeNode* node = scenario.find("failures");
  if (node == nullptr) return std::nullopt;
  MapReader reader(scenario.context(), *node, scenario.path_of("failures"));
  FailurePlan plan;
  read_rates(reader, cluster, remarks, plan);
  reader.require("checkpoint", "a map with storage or blocks");
  read_checkpoint(reader, plan);
  const auto time = [&](const char* key, model::Seconds& field, Zero zero) {
    if (const auto value = reader.read(key, parse_time, zero)) field = *value;
  };
  time("span", plan.span, Zero::Refused);
  time("detection", plan.detection, Zero::Allowed);
  time("restart", plan.restart, Zero::Allowed);
  time("repair", plan.repair, Zero::Allowed);
  time("reconfiguration", plan.reconfiguration, Zero::Allowed);
  remark_defaults(reader, remarks);
  plan.restart_can_fail = reader.boolean("restart_can_fail").value_or(true);
  plan.elastic = reader.boolean("elastic").value_or(false);
  if (const auto spares = reader.integer("spares", {.min = 0, .max = 1'000'000})) {
    plan.spares = static_cast<int>(*spares);
  }
  if (const auto seeds = reader.integer("seeds", {.min = 1, .max = 1'000'000})) {
    plan.seeds = static_cast<int>(*seeds);
  }
  refuse_endless(reader, *node, plan, scenario);
  reader.finish();
  return plan;
}

model::Facility read_facility(MapReader& scenario) {
  model::Facility facility;
  const TreeNode* node = scenario.find("energy");
  if (node == nullptr) return facility;
  MapReader reader(scenario.context(), *node, scenario.path_of("energy"));
  if (const auto ratio = reader.number("power_usage_effectiveness", {.min = 1, .max = 10})) {
    facility.power_usage_effectiveness = *ratio;
  }
  if (const auto carbon = reader.read<double>("carbon", parse_carbon)) {
    facility.carbon_kg_per_kilowatt_hour = *carbon;
  }
  reader.finish();
  return facility;
}

}  // namespace megatwin::scenarios
