#include "cli/diagnostics.h"

#include "cli/report/json_report.h"

namespace megatwin::cli {

void print_diagnostics(const model::Diagnostics& diagnostics, bool as_json, Console& console) {
  console.err << (as_json ? json_diagnostics(diagnostics) : model::to_text(diagnostics));
}

}  // namespace megatwin::cli
