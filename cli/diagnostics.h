// How the program says what is wrong with an input: text for people, JSON for machines, to stderr.
#ifndef MEGATWIN_CLI_DIAGNOSTICS_H_
#define MEGATWIN_CLI_DIAGNOSTICS_H_

#include "cli/console.h"
#include "model/diagnostic.h"

namespace megatwin::cli {

void print_diagnostics(const model::Diagnostics& diagnostics, bool as_json, Console& console);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_DIAGNOSTICS_H_
