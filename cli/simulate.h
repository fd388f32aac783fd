// `megatwin simulate`: one job or many, a sweep over keys, to the terminal, as JSON, HTML or trace.
#ifndef MEGATWIN_CLI_SIMULATE_H_
#define MEGATWIN_CLI_SIMULATE_H_

#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/world.h"

namespace megatwin::cli {

struct SimulateArguments {
  std::vector<std::string> files;
  std::vector<std::string> settings;  // As given to --set.
  std::vector<std::string> sweeps;    // As given to --sweep.
  std::vector<std::string> without;
  std::string engine = "auto";
  std::string html, trace;  // Paths; empty: not written.
  bool json = false;
  bool explain = false;
  bool json_diagnostics = false;
};

// Returns the exit code: refused only when no run has an answer.
// Errors: throws IoError when a file cannot be written.
int simulate_command(const SimulateArguments& arguments, const World& world, Console& console);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_SIMULATE_H_
