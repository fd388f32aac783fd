// The machine-readable answer: one JSON object. Other programs read it, so keys are added and never
// renamed. Times in seconds, sizes in bytes, rates per second, all decimal; absent values are left
// out, never null or zero as a sign. docs/user-guide.md lists the keys.
#ifndef MEGATWIN_CLI_REPORT_JSON_REPORT_H_
#define MEGATWIN_CLI_REPORT_JSON_REPORT_H_

#include <span>
#include <string>

#include "cli/report/answer.h"
#include "model/diagnostic.h"
#include "sim/simulation_report.h"

namespace megatwin::cli {

class JsonWriter;

// One answer: its object. Several: {"runs": […]}, each with its "name".
// Requires: at least one.
std::string json_answers(std::span<const NamedAnswer> answers);

// For --diagnostics=json: {"diagnostics": [{severity, file, line, column, key, message, allowed}]}.
std::string json_diagnostics(const model::Diagnostics& diagnostics);

// The members of one report inside an object that is open already, for search and validate.
void write_report_members(JsonWriter& json, const sim::SimulationReport& report);
void write_plan(JsonWriter& json, const model::Plan& plan);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_JSON_REPORT_H_
