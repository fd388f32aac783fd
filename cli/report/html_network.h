// The parts of the HTML report that speak of links, of disturbances and of failures. Nothing where
// a run had none. HTML sections; thread-safe.
#ifndef MEGATWIN_CLI_REPORT_HTML_NETWORK_H_
#define MEGATWIN_CLI_REPORT_HTML_NETWORK_H_

#include <string>

#include "sim/simulation_report.h"

namespace megatwin::cli {

std::string network_parts(const sim::SimulationReport& report);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_HTML_NETWORK_H_
