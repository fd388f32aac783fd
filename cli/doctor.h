// `megatwin doctor`: what this machine has for building and running Megatwin, which versions, and
// how to get what is missing.
#ifndef MEGATWIN_CLI_DOCTOR_H_
#define MEGATWIN_CLI_DOCTOR_H_

#include <string>
#include <vector>

#include "cli/console.h"

namespace megatwin::cli {

struct Finding {
  std::string name;
  bool found = false;
  std::string version;    // Empty when not found.
  bool required = false;  // To build; the rest adds a world or a check.
  std::string gives;      // What it is for.
  std::string get;        // How to get it.
};

std::vector<Finding> examine_machine();

// Exit code 0 when nothing required is missing, 3 otherwise.
int doctor_command(bool json, Console& console);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_DOCTOR_H_
