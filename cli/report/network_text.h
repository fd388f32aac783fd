// The parts of a report that speak of the network, of disturbances and of failures, in text and as
// JSON members. Nothing where a run had none.
#ifndef MEGATWIN_CLI_REPORT_NETWORK_TEXT_H_
#define MEGATWIN_CLI_REPORT_NETWORK_TEXT_H_

#include <string>
#include <vector>

#include "cli/report/json_writer.h"
#include "sim/simulation_report.h"

namespace megatwin::cli {

// A title and its lines, ready to be indented.
struct ReportSection {
  std::string title;
  std::vector<std::string> lines;
};
std::vector<ReportSection> network_sections(const sim::SimulationReport& report);

// "12.5 GB/s, 8 users would want 46.44 GB/s".
std::string link_users(const sim::LinkLoad& load);

// network_flows, links, disturbances, goodput.
void write_network_members(JsonWriter& json, const sim::SimulationReport& report);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_NETWORK_TEXT_H_
