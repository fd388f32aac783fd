// `megatwin train`: really trains what a scenario describes, on this machine or, started by mpirun,
// on several.
#ifndef MEGATWIN_CLI_TRAIN_H_
#define MEGATWIN_CLI_TRAIN_H_

#include <string>
#include <vector>

#include "cli/console.h"

namespace megatwin::cli {

struct TrainArguments {
  std::string file;
  std::vector<std::string> settings;  // As given to --set.
  std::string backend = "host";
  std::string order;         // A file; empty: as the scenario says.
  std::string weights_from;  // A folder as Hugging Face writes it.
  bool resume = false;
  std::string log, replay, trace;  // Paths; empty: not written, not read.
  int trace_steps = 3;
  bool print_launch = false;  // Only says how to start it, one process a rank.
  bool json = false;
  bool json_diagnostics = false;
};

// Returns the exit code. SIGINT and SIGTERM end the run after the step, with a checkpoint. Started
// by mpirun it trains together with the other processes, an equal share of the ranks in each; the
// first prints.
// Errors: throws IoError when a file cannot be written.
int train_command(const TrainArguments& arguments, Console& console);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_TRAIN_H_
