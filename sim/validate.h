// Predictions beside published measurements: every row of a measured-steps table is turned into a
// job, simulated, and scored; groups are the sources that rows come from. Nothing is dropped in
// silence.
#ifndef MEGATWIN_SIM_VALIDATE_H_
#define MEGATWIN_SIM_VALIDATE_H_

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/hardware.h"
#include "model/job.h"
#include "model/program/task_price.h"
#include "model/result.h"
#include "model/units.h"
#include "scenarios/measured_rows.h"

namespace megatwin::sim {

struct ValidatedRow {
  std::string id, group;
  std::optional<model::Seconds> predicted, measured;
  std::optional<double> error;  // predicted ÷ measured − 1.
  std::optional<model::Bytes> predicted_memory, measured_memory;
  // "scored", "repeated" (the same configuration of a newer release), "not_measured",
  // "not_predicted".
  std::string status;
  std::string reason;
  std::vector<std::string> assumptions;
};

struct ValidatedGroup {
  std::string group;
  int rows = 0;
  int scored = 0;
  double median_abs_error = 0;
  double p90_abs_error = 0;
  double worst = 0;  // Of the largest magnitude, signed.
  double bias = 0;   // Mean signed error.
  // Spearman, predicted against measured; nothing below three rows.
  std::optional<double> rank_correlation;
  bool apart = false;  // Outside the mean and the coverage.
};

// A group scored with its own constants set back; see sim/leave_out.h.
struct LeftOutGroup {
  std::string group;
  std::vector<std::string> constants;  // Set to their neutral values: model/step_constants.h.
  double median_abs_error = 0;         // Of the group itself.
  double mean_of_group_medians = 0;    // Of all groups.
};

struct Validation {
  std::string subject = "Step time";  // What was predicted and measured.
  std::vector<ValidatedRow> rows;
  std::vector<ValidatedGroup> groups;
  double mean_of_group_medians = 0;
  double coverage_fraction = 0;
  int coverage_predicted = 0;
  int coverage_rows = 0;
  std::vector<std::pair<std::string, int>> coverage_reasons;  // Reason → rows, most first.
  ValidatedGroup memory;  // All rows that state memory, as one group.
  std::vector<LeftOutGroup> left_out;
  double mean_of_left_out_medians = 0;  // Over left_out, each group's own median.
};

struct ValidateOptions {
  std::set<std::string> apart;
  model::PricedEffects effects;
  // Constants that any of these groups had a part in take their neutral values.
  std::set<std::string> leave_out = {};
  // Changes a job after it is read from its row: the hook by which constants are fitted.
  std::function<void(model::Job&)> adjust;
};

Validation validate_steps(const std::vector<scenarios::MeasuredRow>& rows,
                          const model::HardwareCatalogue& catalogue,
                          const ValidateOptions& options);

// Median, 90th percentile, worst, bias and rank correlation of one group's rows.
ValidatedGroup score_group(const std::string& name, const std::vector<const ValidatedRow*>& rows);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_VALIDATE_H_
