// The four parts of a job that a measured row fills. Private to measured_rows.
#ifndef MEGATWIN_SCENARIOS_MEASURED_ROW_PARTS_H_
#define MEGATWIN_SCENARIOS_MEASURED_ROW_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "scenarios/measured_rows.h"

namespace megatwin::scenarios {

// No published size comes near; beyond it arithmetic on shapes would overflow.
constexpr std::int64_t kSizeMax = 100'000'000;

// The whole text as a decimal number, or nothing.
std::optional<double> number_of(const std::string& text);

std::string lower(std::string text);
bool contains(const std::string& text, const std::string& part);

// The whole number at `at`, which moves behind it and the character after it; 0 where none is.
std::int64_t leading_number(const std::string& text, std::size_t& at);

void problem(const MeasuredRow& row, const std::string& column, const std::string& message,
             model::Diagnostics& problems);

void fill_software(const MeasuredRow& row, model::Job& job, model::Diagnostics& problems);
void fill_transformer(const MeasuredRow& row, model::Job& job, model::Diagnostics& problems);
void fill_cluster(const MeasuredRow& row, const model::HardwareCatalogue& catalogue,
                  model::Job& job, model::Diagnostics& problems);
void fill_plan(const MeasuredRow& row, model::Job& job, model::Diagnostics& problems);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_MEASURED_ROW_PARTS_H_
