// `megatwin simulate --replay LOG`: decides a real run again from its log, and simulates its picks.
#ifndef MEGATWIN_CLI_REPLAY_H_
#define MEGATWIN_CLI_REPLAY_H_

#include <string>
#include <vector>

#include "cli/console.h"

namespace megatwin::cli {

struct ReplayArguments {
  std::string file;                   // The scenario that was trained.
  std::vector<std::string> settings;  // As given to --set.
  std::string log;
  bool json = false;
  bool json_diagnostics = false;
};

// Returns the exit code: refused when a pick or a hash differs.
int replay_command(const ReplayArguments& arguments, Console& console);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPLAY_H_
