#include "sim/validate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <variant>

#include "model/step_constants.h"
#include "scenarios/gpu_profile_reader.h"
#include "sim/rank_correlation.h"
#include "sim/simulate.h"

namespace megatwin::sim {
namespace {

using model::Seconds;
using scenarios::MeasuredRow;

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

// Equal configuration: everything but where and when it was measured.
std::string configuration_key(const MeasuredRow& row) {
  std::string key;
  for (const char* column : {"framework", "model_name", "gpu", "gpus", "tp", "sp", "cp", "pp",
                             "vpp", "ep", "dp", "zero_stage", "micro_batch", "global_batch",
                             "precision", "recompute", "overlap", "seq_len", "layers"}) {
    key += row.text(column) + "|";
  }
  return key;
}

// Rows whose configuration a newer release of the framework repeats.
std::vector<bool> superseded(const std::vector<MeasuredRow>& rows) {
  std::map<std::string, std::string> newest;
  for (const MeasuredRow& row : rows) {
    const std::string version = row.framework_version();
    if (version.empty()) continue;
    std::string& known = newest[configuration_key(row)];
    if (known.empty() || scenarios::is_older(known, version)) known = version;
  }
  std::vector<bool> result;
  for (const MeasuredRow& row : rows) {
    const std::string version = row.framework_version();
    result.push_back(!version.empty() && version != newest[configuration_key(row)]);
  }
  return result;
}

std::string first_reason(const model::Diagnostics& diagnostics) {
  std::string text;
  for (const model::Diagnostic& diagnostic : diagnostics) {
    if (!text.empty()) text += "; ";
    text += diagnostic.message;
  }
  return text;
}

void predict(const MeasuredRow& row, const model::HardwareCatalogue& catalogue,
             const ValidateOptions& options, std::map<std::string, model::GpuProfile>& profiles,
             ValidatedRow& result) {
  auto job = scenarios::job_of(row, catalogue);
  if (!job) {
    result.status = "not_predicted";
    result.reason = first_reason(job.error());
    return;
  }
  const model::Gpu& gpu = job->cluster.groups.front().gpu;
  auto profile = profiles.find(gpu.name);
  if (profile == profiles.end()) {
    auto loaded = scenarios::gpu_profile(gpu);
    if (!loaded) {
      result.status = "not_predicted";
      result.reason = first_reason(loaded.error());
      return;
    }
    profile = profiles.emplace(gpu.name, *std::move(loaded)).first;
  }
  job->profile = profile->second;
  if (!options.leave_out.empty()) model::forget_steps_of(options.leave_out, *job);
  if (options.adjust) options.adjust(*job);
  result.assumptions = job->assumptions;
  const auto answer = simulate(*job, {.effects = options.effects, .sensitivities = false});
  const SimulationReport* report = std::get_if<SimulationReport>(&answer);
  if (const auto* refusal = std::get_if<PlanRefusal>(&answer)) {
    // A plan that was run fits: a prediction of more memory than there is, is scored all the same.
    if (refusal->report) report = &*refusal->report;
    result.reason = refusal->report ? "predicted not to fit, though it ran: " + refusal->message
                                    : refusal->reasons.front();
  }
  if (report == nullptr) {
    result.status = "not_predicted";
    return;
  }
  result.predicted = report->step_time;
  // What published tables state: the framework's allocator, without context and NCCL.
  result.predicted_memory = report->memory_allocated;
}

}  // namespace

ValidatedGroup score_group(const std::string& name, const std::vector<const ValidatedRow*>& rows) {
  ValidatedGroup group{.group = name, .rows = static_cast<int>(rows.size())};
  std::vector<double> magnitudes, predicted, measured;
  for (const ValidatedRow* row : rows) {
    if (row->status != "scored") continue;
    const double error = *row->error;
    magnitudes.push_back(std::abs(error));
    predicted.push_back(row->predicted->value);
    measured.push_back(row->measured->value);
    group.bias += error;
    if (std::abs(error) > std::abs(group.worst)) group.worst = error;
  }
  group.scored = static_cast<int>(magnitudes.size());
  if (group.scored == 0) return group;
  group.bias /= group.scored;
  group.median_abs_error = percentile(magnitudes, 0.5);
  group.p90_abs_error = percentile(magnitudes, 0.9);
  group.rank_correlation = rank_correlation(predicted, measured);
  return group;
}

namespace {

void score_all(const ValidateOptions& options, Validation& validation) {
  std::map<std::string, std::vector<const ValidatedRow*>> by_group;
  std::map<std::string, int> reasons;
  std::vector<std::string> order;
  for (const ValidatedRow& row : validation.rows) {
    if (!by_group.contains(row.group)) order.push_back(row.group);
    by_group[row.group].push_back(&row);
    if (options.apart.contains(row.group)) continue;
    ++validation.coverage_rows;
    if (row.predicted) {
      ++validation.coverage_predicted;
    } else {
      ++reasons[row.reason.empty() ? row.status : row.reason];
    }
  }
  int groups = 0;
  for (const std::string& name : order) {
    ValidatedGroup group = score_group(name, by_group[name]);
    group.apart = options.apart.contains(name);
    if (!group.apart && group.scored > 0) {
      validation.mean_of_group_medians += group.median_abs_error;
      ++groups;
    }
    validation.groups.push_back(std::move(group));
  }
  if (groups > 0) validation.mean_of_group_medians /= groups;
  if (validation.coverage_rows > 0) {
    validation.coverage_fraction =
        static_cast<double>(validation.coverage_predicted) / validation.coverage_rows;
  }
  validation.coverage_reasons.assign(reasons.begin(), reasons.end());
  std::stable_sort(validation.coverage_reasons.begin(), validation.coverage_reasons.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
}

void score_memory(Validation& validation) {
  std::vector<ValidatedRow> memory_rows;
  for (const ValidatedRow& row : validation.rows) {
    if (!row.measured_memory || !row.predicted_memory) continue;
    ValidatedRow memory = row;
    memory.predicted = Seconds{row.predicted_memory->value};
    memory.measured = Seconds{row.measured_memory->value};
    memory.error = row.predicted_memory->value / row.measured_memory->value - 1;
    memory.status = "scored";
    memory_rows.push_back(std::move(memory));
  }
  std::vector<const ValidatedRow*> pointers;
  pointers.reserve(memory_rows.size());
  for (const ValidatedRow& row : memory_rows) pointers.push_back(&row);
  validation.memory = score_group("memory", pointers);
}

}  // namespace

Validation validate_steps(const std::vector<MeasuredRow>& rows,
                          const model::HardwareCatalogue& catalogue,
                          const ValidateOptions& options) {
  Validation validation;
  std::map<std::string, model::GpuProfile> profiles;
  const std::vector<bool> repeated = superseded(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const scenarios::Measurement measured = scenarios::measurement_of(rows[i]);
    ValidatedRow row{.id = rows[i].id(), .group = rows[i].group()};
    row.measured = measured.step_time;
    row.measured_memory = measured.memory;
    predict(rows[i], catalogue, options, profiles, row);
    if (row.predicted && row.measured) {
      row.error = row.predicted->value / row.measured->value - 1;
      row.status = repeated[i] ? "repeated" : "scored";
    } else if (row.predicted) {
      row.status = "not_measured";
    }
    validation.rows.push_back(std::move(row));
  }
  score_all(options, validation);
  score_memory(validation);
  return validation;
}

}  // namespace megatwin::sim
