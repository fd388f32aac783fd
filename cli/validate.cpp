#include "cli/validate.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "cli/diagnostics.h"
#include "cli/report/validation_report.h"
#include "model/step_constants.h"
#include "scenarios/collective_rows.h"
#include "scenarios/document.h"
#include "scenarios/gpu_profile_reader.h"
#include "scenarios/hardware_catalogue.h"
#include "scenarios/measured_rows.h"
#include "scenarios/operation_rows.h"
#include "sim/leave_out.h"
#include "sim/simulate.h"
#include "sim/validate.h"
#include "sim/validate_collectives.h"
#include "sim/validate_operations.h"

namespace megatwin::cli {
namespace {

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// A group to leave out or to list apart is one of the file's, or one that a constant was read from.
std::optional<model::Diagnostic> unknown_group(const std::string& option,
                                               const std::set<std::string>& groups,
                                               const std::vector<scenarios::MeasuredRow>& rows) {
  std::set<std::string> known;
  for (const scenarios::MeasuredRow& row : rows) known.insert(row.group());
  for (const model::StepConstant& constant : model::step_constants()) {
    known.insert(constant.groups.begin(), constant.groups.end());
  }
  for (const std::string& group : groups) {
    if (known.contains(group)) continue;
    return model::Diagnostic{.file = option,
                             .message = "unknown group '" + group + "'",
                             .allowed = join({known.begin(), known.end()})};
  }
  return std::nullopt;
}

model::Result<sim::Validation> validate_csv(const ValidateArguments& arguments) {
  const auto effects = sim::effects_without({arguments.without.begin(), arguments.without.end()});
  if (!effects) {
    return model::fail(
        model::Diagnostic{.file = "--without",
                          .message = "unknown effect in '" + join(arguments.without) + "'",
                          .allowed = join(sim::effect_names())});
  }
  MEGATWIN_TRY(const auto rows, scenarios::read_measured_rows(arguments.file));
  if (rows.empty()) {
    return model::fail(model::Diagnostic{.file = arguments.file,
                                         .message = "holds a header but no rows",
                                         .allowed = "one measured step a line"});
  }
  const std::set<std::string> left_out(arguments.leave_out.begin(), arguments.leave_out.end());
  const std::set<std::string> apart(arguments.apart.begin(), arguments.apart.end());
  for (const auto& [option, groups] :
       {std::pair("--leave-out", left_out), std::pair("--apart", apart)}) {
    if (auto unknown = unknown_group(option, groups, rows)) {
      return model::fail(*std::move(unknown));
    }
  }
  const model::HardwareCatalogue catalogue = scenarios::load_hardware_catalogue();
  const sim::ValidateOptions options{
      .apart = apart, .effects = *effects, .leave_out = left_out, .adjust = {}};
  sim::Validation validation = sim::validate_steps(rows, catalogue, options);
  if (arguments.leave_each_out) sim::leave_each_out(rows, catalogue, options, validation);
  return validation;
}

model::Result<model::Gpu> find_gpu(const std::string& name) {
  const model::HardwareCatalogue catalogue = scenarios::load_hardware_catalogue();
  const auto alias = catalogue.gpu_aliases.find(name);
  const auto found =
      catalogue.gpus.find(alias == catalogue.gpu_aliases.end() ? name : alias->second);
  if (found != catalogue.gpus.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [key, gpu] : catalogue.gpus) names.push_back(key);
  std::string allowed = join(names);
  const std::string near = model::nearest_word(name, names);
  if (!near.empty()) allowed += "; did you mean '" + near + "'?";
  const std::string message =
      name.empty() ? "which GPU the lines were measured on" : "unknown GPU '" + name + "'";
  return model::fail(
      model::Diagnostic{.file = "--gpu", .message = message, .allowed = std::move(allowed)});
}

// The same shape as a validation of steps, so that one writer serves both.
sim::Validation as_validation(const sim::OperationValidation& operations) {
  sim::Validation validation{.subject = "Time of single operations"};
  std::map<std::string, int> reasons;
  for (const sim::OperationCheck& check : operations.rows) {
    sim::ValidatedRow row{.id = check.id, .group = check.group};
    row.measured = check.measured;
    row.status = check.scored ? "scored" : "not_predicted";
    row.reason = check.reason;
    row.assumptions = check.assumptions;
    if (check.scored) {
      row.predicted = check.predicted;
      row.error = check.error;
    } else {
      ++reasons[check.reason];
    }
    validation.rows.push_back(std::move(row));
  }
  for (const sim::OperationGroup& group : operations.groups) {
    validation.groups.push_back({.group = group.group,
                                 .rows = group.rows,
                                 .scored = group.scored,
                                 .median_abs_error = group.median_abs_error,
                                 .p90_abs_error = group.p90_abs_error,
                                 .worst = group.worst,
                                 .bias = group.bias,
                                 .rank_correlation = group.rank_correlation});
  }
  validation.mean_of_group_medians = operations.mean_of_group_medians;
  validation.coverage_predicted = operations.predicted;
  validation.coverage_rows = static_cast<int>(operations.rows.size());
  if (!operations.rows.empty()) {
    validation.coverage_fraction =
        static_cast<double>(operations.predicted) / static_cast<double>(operations.rows.size());
  }
  validation.coverage_reasons.assign(reasons.begin(), reasons.end());
  std::stable_sort(validation.coverage_reasons.begin(), validation.coverage_reasons.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return validation;
}

model::Result<sim::Validation> validate_jsonl(const ValidateArguments& arguments) {
  model::Diagnostics faults;
  const auto gpu = find_gpu(arguments.gpu);
  if (!gpu) faults = gpu.error();
  const auto text = scenarios::read_file(arguments.file);
  if (!text) faults.insert(faults.end(), text.error().begin(), text.error().end());
  if (!faults.empty()) return model::fail(std::move(faults));
  MEGATWIN_TRY(const auto rows, scenarios::parse_operation_rows(*text, arguments.file));
  if (rows.empty()) {
    return model::fail(model::Diagnostic{.file = arguments.file,
                                         .message = "holds no operations",
                                         .allowed = "one JSON object a line"});
  }
  MEGATWIN_TRY(const auto profile, scenarios::gpu_profile(*gpu));
  const sim::HostPace pace(rows, *gpu, profile);
  return as_validation(sim::validate_operations(rows, *gpu, profile, pace));
}

// Logs of nccl-tests, and tables of collectives among microbenchmarks.
model::Result<sim::Validation> validate_collective_file(const ValidateArguments& arguments,
                                                        const std::string& text) {
  const model::HardwareCatalogue catalogue = scenarios::load_hardware_catalogue();
  if (!arguments.machine.empty() && !catalogue.nodes.contains(arguments.machine)) {
    std::vector<std::string> names;
    for (const auto& [name, node] : catalogue.nodes) names.push_back(name);
    return model::fail(model::Diagnostic{.file = "--machine",
                                         .message = "unknown node type '" + arguments.machine + "'",
                                         .allowed = join(names)});
  }
  MEGATWIN_TRY(const auto rows, scenarios::is_collective_csv(text)
                                    ? scenarios::parse_collective_csv(arguments.file, text)
                                    : scenarios::parse_nccl_log(arguments.file, text));
  return as_validation(sim::validate_collectives(rows, catalogue, arguments.machine));
}

model::Result<sim::Validation> validate_file(const ValidateArguments& arguments) {
  const auto extension = std::filesystem::path(arguments.file).extension();
  if (extension == ".jsonl") return validate_jsonl(arguments);
  MEGATWIN_TRY(const std::string text, scenarios::read_file(arguments.file));
  const bool log = extension == ".log" || extension == ".txt";
  if (log || scenarios::is_collective_csv(text)) return validate_collective_file(arguments, text);
  return validate_csv(arguments);
}

}  // namespace

int validate_command(const ValidateArguments& arguments, Console& console) {
  const auto validation = validate_file(arguments);
  if (!validation) {
    print_diagnostics(validation.error(), arguments.json_diagnostics, console);
    return kExitBadInput;
  }
  console.out << (arguments.json ? json_validation(*validation)
                                 : terminal_validation(*validation, arguments.all));
  return kExitAnswer;
}

}  // namespace megatwin::cli
