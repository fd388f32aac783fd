// Published measurements of training steps: reads a CSV with the columns of
// scenarios/measured/*.csv and turns each row into a job, or says why it cannot. What a row leaves
// blank is filled from the software stack that it names and from nowhere else; every such choice
// becomes an assumption.
#ifndef MEGATWIN_SCENARIOS_MEASURED_ROWS_H_
#define MEGATWIN_SCENARIOS_MEASURED_ROWS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/hardware.h"
#include "model/job.h"
#include "model/result.h"
#include "model/units.h"

namespace megatwin::scenarios {

// One data row; unknown columns are carried through.
struct MeasuredRow {
  int line = 0;                              // In its file, from 1.
  std::map<std::string, std::string> cells;  // Column → text; absent or empty: not stated.

  const std::string& text(const std::string& column) const;
  std::string id() const { return text("id"); }
  // The id up to the first '-': the source that the row comes from.
  std::string group() const;
  // The framework's release as the row states it ("26.06", "2025-06"): its column
  // framework_version, else the NeMo container that its title names. Empty: not stated.
  std::string framework_version() const;
};

// What was measured, as far as the row says so.
struct Measurement {
  std::optional<model::Seconds> step_time;
  std::string step_time_source;  // "measured_iteration_s", "tokens/s" or "derived".
  std::optional<model::Bytes> memory;
};

// A plan that leaves no choice: the job; where a setting is not stated, one job a plausible value
// and the chosen one first.
struct RowJob {
  model::Job job;
  Measurement measured;
};

// Errors: not a CSV, or a required column is missing; line and column are given.
model::Result<std::vector<MeasuredRow>> parse_measured_rows(const std::string& text,
                                                            const std::string& file);
model::Result<std::vector<MeasuredRow>> read_measured_rows(const std::string& path);

// Whether a release is older than another; "2025-06" and "26.06" are read number by number, a
// missing part as 0.
bool is_older(const std::string& version, const std::string& than);

Measurement measurement_of(const MeasuredRow& row);

// Errors: one diagnostic a reason ("sequence length not stated", "unknown GPU …").
model::Result<model::Job> job_of(const MeasuredRow& row, const model::HardwareCatalogue& catalogue);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_MEASURED_ROWS_H_
