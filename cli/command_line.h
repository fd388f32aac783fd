// From the words of a command line to a sub-command, and from every way it can end to an exit code.
#ifndef MEGATWIN_CLI_COMMAND_LINE_H_
#define MEGATWIN_CLI_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/world.h"

namespace megatwin::cli {

// `words` without the program's name. Returns the exit code (console.h); what the machine refuses
// is told on `err`, and a bug of ours aborts.
int run_command_line(const std::vector<std::string>& words, const World& world, Console& console);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_COMMAND_LINE_H_
