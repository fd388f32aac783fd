// Runs `megatwin`, alone or under mpirun, as a process that a test can watch, kill and stop.
#ifndef MEGATWIN_TESTS_PROGRAM_RUN_H_
#define MEGATWIN_TESTS_PROGRAM_RUN_H_

#include <string>
#include <sys/types.h>
#include <vector>

#include "tests/temporary_folder.h"

namespace megatwin::tests {

// Why nothing can be started with mpirun here; empty when it can.
std::string why_no_mpirun();

struct Outcome {
  int code = 0;  // 128 + signal when it was killed.
  std::string out, err;
};

class ProgramRun {
 public:
  // In so many processes; 0: without mpirun.
  ProgramRun(int processes, const std::vector<std::string>& words);
  // A line for the shell.
  explicit ProgramRun(const std::string& line);
  ~ProgramRun();  // Waits for the end.
  ProgramRun(const ProgramRun&) = delete;
  ProgramRun& operator=(const ProgramRun&) = delete;

  Outcome wait();
  // As wait(), but kills a launcher that is still there ten seconds after the last of so many
  // processes has gone: Open MPI 4.1 with PMIx 4.2 can lock itself in PMIx_server_finalize().
  Outcome wait_past_a_stuck_launcher(int processes);
  // The process of this rank of MPI; 0 while it is not there yet, or not any more.
  pid_t process(int rank) const;
  // Whether it was there to be killed.
  bool kill(int rank) const;

 private:
  void start(std::vector<std::string> line);

  TemporaryFolder folder_;
  pid_t pid_ = -1;
};

inline Outcome run_program(int processes, const std::vector<std::string>& words) {
  return ProgramRun(processes, words).wait();
}

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_PROGRAM_RUN_H_
