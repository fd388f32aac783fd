// A CSV of measured steps, and the job of each of its rows.
#include "model/assert.h"
#include "scenarios/hardware_catalogue.h"
#include "scenarios/measured_rows.h"
#include "tests/fuzz/fuzz_targets.h"

namespace megatwin::fuzz {

void measured_rows(std::string_view text) {
  const auto rows = scenarios::parse_measured_rows(std::string(text), "fuzz.csv");
  if (!rows) {
    MEGATWIN_ASSERT(model::has_error(rows.error()), "refused without a reason");
    return;
  }
  for (const scenarios::MeasuredRow& row : *rows) {
    MEGATWIN_ASSERT(row.line > 1, row.line);
    const scenarios::Measurement measured = scenarios::measurement_of(row);
    if (measured.step_time) MEGATWIN_ASSERT(measured.step_time->value > 0, row.id());
    if (measured.memory) MEGATWIN_ASSERT(measured.memory->value > 0, row.id());
    const auto job = scenarios::job_of(row, scenarios::shipped_hardware());
    MEGATWIN_ASSERT(!job || job->cluster.num_gpus() > 0, row.id());
    MEGATWIN_ASSERT(job || model::has_error(job.error()), row.id());
  }
}

}  // namespace megatwin::fuzz

MEGATWIN_FUZZ_ENTRY(measured_rows);
