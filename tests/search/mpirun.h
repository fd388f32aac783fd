// Runs the program alone and under mpirun, and kills processes of it.
#ifndef MEGATWIN_TESTS_SEARCH_MPIRUN_H_
#define MEGATWIN_TESTS_SEARCH_MPIRUN_H_

#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "tests/temporary_folder.h"

namespace megatwin::tests {

// Why there is nothing to test here; empty when there is.
std::string why_no_mpirun();

struct Outcome {
  int code = 0;  // 128 + signal when it was killed.
  std::string out, err;
};

// A run of `megatwin` with these words in so many processes; 0: without mpirun.
class ProgramRun {
 public:
  ProgramRun(int processes, const std::vector<std::string>& words);
  ~ProgramRun();  // Waits for the end.
  ProgramRun(const ProgramRun&) = delete;
  ProgramRun& operator=(const ProgramRun&) = delete;

  Outcome wait();
  // The process of this rank; nothing when it is not there yet, or any more.
  std::optional<pid_t> process(int rank) const;
  // Kills it by SIGKILL; false when it is not there.
  bool kill(int rank) const;

 private:
  TemporaryFolder folder_;
  pid_t pid_ = -1;
};

inline Outcome run_program(int processes, const std::vector<std::string>& words) {
  return ProgramRun(processes, words).wait();
}

// A search of some thousands of plans, in a file of the folder.
std::string search_file(const TemporaryFolder& folder);

// Every step time that a store holds, as text; empty while there is no store.
std::vector<std::string> stored_times(const std::string& path);

// An answer without the time that it took.
std::string without_elapsed(const std::string& text);

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_SEARCH_MPIRUN_H_
