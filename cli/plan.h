// `megatwin plan`: how many machines of which kind for a whole training run, and what it takes.
#ifndef MEGATWIN_CLI_PLAN_H_
#define MEGATWIN_CLI_PLAN_H_

#include <string>
#include <vector>

#include "cli/console.h"

namespace megatwin::cli {

struct PlanArguments {
  // One: which machines it needs. Several: how they share the cluster of the first.
  std::vector<std::string> files;
  std::vector<std::string> settings;  // As given to --set.
  int num_threads = 0;                // 0: all cores.
  double memory_margin = 0;           // Share of a GPU's memory that stays free.
  bool mixes = false;                 // Also two kinds of machines in one job. Of one file only.
  std::string html;                   // Empty: no page. Of one file only.
  bool json = false;
  bool json_diagnostics = false;
};

// Returns the exit code: refused when nothing on offer keeps every limit.
// Errors: throws IoError when a file cannot be written.
int plan_command(const PlanArguments& arguments, Console& console);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_PLAN_H_
