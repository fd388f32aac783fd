#include "cli/diagnostics.h"

#include "cli/report/json_report.h"

namespace megatwin::cli {

model::Diagnostic option_problem(const std::string& option, const std::string& message,
                                 const std::string& allowed) {
  return {.file = option, .message = message, .allowed = allowed};
}

void print_diagnostics(const model::Diagnostics& diagnostics, bool as_json, Console& console) {
  console.err << (as_json ? json_diagnostics(diagnostics) : model::to_text(diagnostics));
}

}  // namespace megatwin::cli
