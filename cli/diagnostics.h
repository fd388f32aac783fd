// How the program says what is wrong with an input: text for people, JSON for machines, to stderr.
#ifndef MEGATWIN_CLI_DIAGNOSTICS_H_
#define MEGATWIN_CLI_DIAGNOSTICS_H_

#include <string>

#include "cli/console.h"
#include "model/diagnostic.h"

namespace megatwin::cli {

// Of an option or a file that the command line names.
model::Diagnostic option_problem(const std::string& option, const std::string& message,
                                 const std::string& allowed);

void print_diagnostics(const model::Diagnostics& diagnostics, bool as_json, Console& console);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_DIAGNOSTICS_H_
