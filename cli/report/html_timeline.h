// The pipeline timeline of the HTML report: a row a stage, compute above and traffic below it. Long
// runs are thinned, and the caption says how.
#ifndef MEGATWIN_CLI_REPORT_HTML_TIMELINE_H_
#define MEGATWIN_CLI_REPORT_HTML_TIMELINE_H_

#include <string>

#include "sim/simulation_report.h"

namespace megatwin::cli {

struct TimelineLimits {
  int rows = 16;
  int rectangles = 12'000;  // Beyond it columns show shares of time instead of single tasks.
};

// Empty when the report holds no timeline.
std::string timeline_chart(const sim::SimulationReport& report, const TimelineLimits& limits = {});

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_HTML_TIMELINE_H_
