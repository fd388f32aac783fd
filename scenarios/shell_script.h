// The part of bash that launch scripts are written in, read without running anything: assignments,
// arrays, defaults, arithmetic, quotes, comments, continued lines. Gives the commands of a script
// with their words expanded. What only a run could tell (the environment, output of commands,
// positional arguments) stays unresolved and is said.
#ifndef MEGATWIN_SCENARIOS_SHELL_SCRIPT_H_
#define MEGATWIN_SCENARIOS_SHELL_SCRIPT_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/result.h"

namespace megatwin::scenarios {

// A word after expansion. What could not be resolved is in the text as it was written.
struct ShellWord {
  std::string text;
  bool resolved = true;
};

struct ShellCommand {
  int line = 0;  // Of its first word, from 1.
  std::vector<ShellWord> words;
};

struct ShellScript {
  std::vector<ShellCommand> commands;  // In order; assignments are not among them.
  std::map<std::string, std::vector<ShellWord>> arrays;  // As they are at the end,
  std::vector<std::string> array_order;                  // in the order of their first line.
  std::map<std::string, ShellWord> variables;            // As they are at the end.
  std::vector<std::string> sbatch;                       // What follows #SBATCH, one a line.
  // Names that the script takes from outside, in the order of their use.
  std::vector<std::string> unset;
  std::vector<std::string> warnings;
};

// Errors: not text, or a quote or bracket that is never closed.
model::Result<ShellScript> parse_shell_script(const std::string& file, std::string_view text);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_SHELL_SCRIPT_H_
