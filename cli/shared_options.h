// Options that several commands have. What they fill must live as long as the command.
#ifndef MEGATWIN_CLI_SHARED_OPTIONS_H_
#define MEGATWIN_CLI_SHARED_OPTIONS_H_

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace megatwin::cli {

void add_settings(CLI::App& command, std::vector<std::string>& settings, const char* help);
// The same names for every world: adds to the settings. After add_settings().
CLI::Option* add_policy(CLI::App& command, std::vector<std::string>& settings);
void add_memory_margin(CLI::App& command, double& margin);
void add_threads(CLI::App& command, int& num_threads);
void add_diagnostics(CLI::App& command, bool& as_json);
// The check of an option that names a file or a folder. Empty, as a shell variable that is not set
// leaves it, it would read as if the option were not there.
CLI::Validator has_name();

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_SHARED_OPTIONS_H_
