// `megatwin validate`: predictions beside published measurements, error by group.
#ifndef MEGATWIN_CLI_VALIDATE_H_
#define MEGATWIN_CLI_VALIDATE_H_

#include <string>
#include <vector>

#include "cli/console.h"

namespace megatwin::cli {

struct ValidateArguments {
  // Steps: CSV with the columns of scenarios/measured/*.csv. Single operations: *.jsonl.
  std::string file;
  std::string machine;  // Of the collectives of an nccl-tests log (.log, .txt) or a table of them.
  std::string gpu;      // On which the operations were measured.
  std::vector<std::string> apart;      // Groups outside the mean and the coverage.
  std::vector<std::string> without;    // Effects to leave out.
  std::vector<std::string> leave_out;  // Groups whose constants are set back.
  bool leave_each_out = false;         // Each group in turn.
  bool json = false;
  bool all = false;  // List every row, not only the worst.
  bool json_diagnostics = false;
};

int validate_command(const ValidateArguments& arguments, Console& console);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_VALIDATE_H_
