// A command that several processes carry out together, started by mpirun or srun. MPI is loaded
// from the plug-in beside the program, and only then: to link it costs each start 15 ms and 3 MB.
#ifndef MEGATWIN_CLI_LAUNCHED_H_
#define MEGATWIN_CLI_LAUNCHED_H_

#include <functional>
#include <optional>
#include <string>

#include "cli/console.h"
#include "model/processes.h"

namespace megatwin::cli {

// The number that the launcher gave this process, from the environment; 0 without a launcher. Only
// process 0 prints answers and faults of the input, which all of them find alike.
int launched_rank();

// Whether mpirun started this process and others beside it.
bool is_launched_with_others();

// The cores for this process, when the others of its machine get as many.
int cores_of_this_process();

// Whether all processes say the same, such as what they read. The first knows who does not.
struct Agreement {
  bool reached = true;
  int dissenter = 0;
  std::string saying;  // Of the dissenter.
};
// To be called in every process.
Agreement agree(model::Processes& processes, const std::string& saying);

// Joins the processes of the job and runs `body` in each, which must end in all of them. With only
// one it runs too. Returns what it returns.
// Errors: throws IoError when the plug-in cannot be loaded. When the body throws it or runs out of
// memory, says so with the number of the process and ends the whole job with kExitMachine.
int run_together(Console& console, const std::function<int(model::Processes&)>& body);

// The MPI library that the plug-in was linked with; nothing without plug-in or library.
std::optional<std::string> mpi_plugin_version();

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_LAUNCHED_H_
