// `megatwin import FILE`: reads a description that somebody else wrote and says what it is and what
// follows from it. The kind is recognised, or given before the file.
#ifndef MEGATWIN_CLI_IMPORT_H_
#define MEGATWIN_CLI_IMPORT_H_

#include <string>
#include <vector>

#include "cli/console.h"

namespace megatwin::cli {

struct ImportArguments {
  std::vector<std::string> words;  // FILE, or KIND FILE.
  bool json = false;
  bool json_diagnostics = false;
};

int import_command(const ImportArguments& arguments, Console& console);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_IMPORT_H_
