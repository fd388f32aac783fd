// Predictions beside measurements as text and as JSON (the `validate` keys of docs/user-guide.md).
// Pure: the caller prints.
#ifndef MEGATWIN_CLI_REPORT_VALIDATION_REPORT_H_
#define MEGATWIN_CLI_REPORT_VALIDATION_REPORT_H_

#include <string>

#include "sim/validate.h"

namespace megatwin::cli {

// Groups with their errors, the worst first; then the rows with the largest errors, all with `all`.
std::string terminal_validation(const sim::Validation& validation, bool all);

std::string json_validation(const sim::Validation& validation);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_VALIDATION_REPORT_H_
