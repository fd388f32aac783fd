// The four parts of a job that a measured row fills. Private to measured_rows.
#ifndef MEGATWIN_SCENARIOS_MEASURED_ROW_PARTS_H_
#define MEGATWIN_SCENARIOS_MEASURED_ROW_PARTS_H_

#include <optional>
#include <string>

#include "scenarios/measured_rows.h"

namespace megatwin::scenarios {

// The whole text as a decimal number, or nothing.
std::optional<double> number_of(const std::string& text);

void fill_software(const MeasuredRow& row, model::Job& job, model::Diagnostics& problems);
void fill_transformer(const MeasuredRow& row, model::Job& job, model::Diagnostics& problems);
void fill_cluster(const MeasuredRow& row, const model::HardwareCatalogue& catalogue,
                  model::Job& job, model::Diagnostics& problems);
void fill_plan(const MeasuredRow& row, model::Job& job, model::Diagnostics& problems);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_MEASURED_ROW_PARTS_H_
