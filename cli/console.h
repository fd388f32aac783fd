// Where a sub-command writes: answers to `out`, messages to `err`. Tests pass string streams.
#ifndef MEGATWIN_CLI_CONSOLE_H_
#define MEGATWIN_CLI_CONSOLE_H_

#include <ostream>

namespace megatwin::cli {

struct Console {
  std::ostream& out;
  std::ostream& err;
  bool out_is_terminal = false;  // Colours are allowed.
  bool err_is_terminal = false;  // Progress is shown.
};

// What a process returns, by who can mend it.
enum ExitCode {
  kExitAnswer = 0,
  kExitRefused = 1,   // A well-formed plan is illegal or does not fit.
  kExitBadInput = 2,  // A file or the command line cannot be read as what it should be.
  kExitMachine = 3,   // Disk, driver, peer.
};

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_CONSOLE_H_
