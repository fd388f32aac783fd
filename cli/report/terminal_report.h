// Reports for a person at a terminal: one run in full, several side by side, a refusal. Plain text
// ending in a newline; colours only when asked for. Pure: the caller prints.
#ifndef MEGATWIN_CLI_REPORT_TERMINAL_REPORT_H_
#define MEGATWIN_CLI_REPORT_TERMINAL_REPORT_H_

#include <span>
#include <string>

#include "sim/simulation_report.h"

namespace megatwin::cli {

struct TerminalStyle {
  bool colour = false;
  bool explain = false;  // List the priced operations, the dearest first.
};

std::string terminal_report(const sim::SimulationReport& report, const TerminalStyle& style = {});

// One column a run, the first is the one that the others are compared with; then the scaling table
// where the runs differ in GPUs.
std::string terminal_comparison(std::span<const sim::SimulationReport> reports,
                                const TerminalStyle& style = {});

std::string terminal_refusal(const sim::PlanRefusal& refusal, const TerminalStyle& style = {});

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_TERMINAL_REPORT_H_
