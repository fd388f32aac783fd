// `megatwin search`: the best plans for a job, why the others lost, what each switch is worth.
#ifndef MEGATWIN_CLI_SEARCH_H_
#define MEGATWIN_CLI_SEARCH_H_

#include <string>
#include <vector>

#include "cli/console.h"

namespace megatwin::cli {

struct SearchArguments {
  std::string file;
  std::vector<std::string> settings;  // As given to --set.
  int num_threads = 0;                // 0: all cores, shared with other processes of the search.
  bool mpi = false;                   // With the processes that a launcher started beside this one.
  int num_best = 10;
  int num_losers = 60;
  double memory_margin = 0;  // Share of a GPU's memory that stays free.
  bool exhaustive = false;
  std::string check;     // "events", "maxmin" or "simgrid" for the finalists; empty: as the file.
  bool what_if = false;  // Also what another cluster would buy.
  std::string store;     // File of results to go on from; empty: none.
  std::string export_folder;  // Empty: nothing is written.
  bool json = false;
  bool json_diagnostics = false;
};

// Returns the exit code: refused when no plan is legal and fits. Started by mpirun it searches
// together with the other processes; the first prints.
// Errors: throws IoError when a file cannot be written.
int search_command(const SearchArguments& arguments, Console& console);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_SEARCH_H_
