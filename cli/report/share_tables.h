// Tables of what the stages, replicas, sides or components of a job have apart, for reports in text
// and HTML.
#ifndef MEGATWIN_CLI_REPORT_SHARE_TABLES_H_
#define MEGATWIN_CLI_REPORT_SHARE_TABLES_H_

#include <string>
#include <vector>

#include "sim/simulation_report.h"

namespace megatwin::cli {

struct ShareTable {
  std::string title, lead;                     // What it lists, and what its columns mean.
  std::vector<std::vector<std::string>> rows;  // The first names the columns.
  std::vector<bool> right;                     // Columns flush right, as format_table() takes them.
};

// Stages that run alike have none, and components are those of --explain.
std::vector<ShareTable> share_tables(const sim::SimulationReport& report);

// "2", or "2 of replica 5" where the replicas differ.
std::string stage_name(const sim::SimulationReport& report, const sim::StageMemory& stage);

// Whether every stage has the same limit of memory.
bool one_memory_limit(const sim::SimulationReport& report);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_SHARE_TABLES_H_
