// Looks for what is installed without linking to it: programs by running them, shared libraries by
// loading them for a moment. Nothing here throws; what is not there is an empty optional.
#ifndef MEGATWIN_CLI_PROBE_H_
#define MEGATWIN_CLI_PROBE_H_

#include <optional>
#include <string>
#include <vector>

namespace megatwin::cli {

// First line of what `program arguments` prints, or nothing when it is not in PATH, in one of
// `folders`, or fails. Requires: a fixed text, never a user's.
std::optional<std::string> first_line_of(const std::string& program, const std::string& arguments,
                                         const std::vector<std::string>& folders = {});

// The first piece of `text` that reads as a version ("12.2.0"), or `text` itself.
std::string version_in(const std::string& text);

bool any_exists(const std::vector<std::string>& paths);

struct CudaDevices {
  int count = 0;
  int driver_version = 0;  // 12080 for 12.8.
};

std::optional<std::string> nccl_version();
std::optional<std::string> mpi_version();
std::optional<std::string> simgrid_version();
std::optional<CudaDevices> cuda_devices();  // Nothing without a driver.

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_PROBE_H_
