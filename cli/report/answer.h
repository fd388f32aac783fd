// What one prediction gives: a report, or a refusal of the plan, with the name of the run.
#ifndef MEGATWIN_CLI_REPORT_ANSWER_H_
#define MEGATWIN_CLI_REPORT_ANSWER_H_

#include <string>
#include <variant>

#include "sim/simulation_report.h"

namespace megatwin::cli {

using Answer = std::variant<sim::SimulationReport, sim::PlanRefusal>;

struct NamedAnswer {
  std::string name;  // Which run it is: the file, and the sweep's values.
  Answer answer;
};

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_ANSWER_H_
