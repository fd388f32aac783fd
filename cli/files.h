// Writing files, with the one exception for a machine that will not.
#ifndef MEGATWIN_CLI_FILES_H_
#define MEGATWIN_CLI_FILES_H_

#include <optional>
#include <stdexcept>
#include <string>

namespace megatwin::cli {

// A disk that is full, a folder that may not be written. Caught once, in run_command_line().
class IoError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Makes the folders on the way. On return the bytes are handed to the system in full.
// Errors: throws IoError naming the path and the system's reason.
void write_file(const std::string& path, const std::string& bytes);

// Why write_file() would fail, tried without a change to what is there; a device gets a line feed.
// Nothing when it would not.
std::optional<std::string> write_problem(const std::string& path);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_FILES_H_
