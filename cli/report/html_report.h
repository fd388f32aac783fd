// One HTML file that stands alone: no script, no network, light and dark, from a phone to a desk.
// Several answers become a comparison with scaling curves, followed by each run. Pure: the caller
// writes the file.
#ifndef MEGATWIN_CLI_REPORT_HTML_REPORT_H_
#define MEGATWIN_CLI_REPORT_HTML_REPORT_H_

#include <span>
#include <string>

#include "cli/report/answer.h"

namespace megatwin::cli {

// Requires: at least one answer.
std::string html_report(std::span<const NamedAnswer> answers);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_HTML_REPORT_H_
