// Searches to run under mpirun, and what they leave behind.
#ifndef MEGATWIN_TESTS_SEARCH_MPIRUN_H_
#define MEGATWIN_TESTS_SEARCH_MPIRUN_H_

#include <string>
#include <vector>

#include "tests/program_run.h"

namespace megatwin::tests {

// A search of some thousands of plans, in a file of the folder.
std::string search_file(const TemporaryFolder& folder);

// Every step time that a store holds, as text; empty while there is no store.
std::vector<std::string> stored_times(const std::string& path);

// An answer without the time that it took.
std::string without_elapsed(const std::string& text);

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_SEARCH_MPIRUN_H_
