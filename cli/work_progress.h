// The progress of work that goes through several phases: one line on a terminal, with the time left
// where the phase knows how long it is. Called from any thread.
#ifndef MEGATWIN_CLI_WORK_PROGRESS_H_
#define MEGATWIN_CLI_WORK_PROGRESS_H_

#include <chrono>
#include <mutex>
#include <string>

#include "cli/console.h"
#include "sim/search/candidates.h"

namespace megatwin::cli {

class WorkProgressLine {
 public:
  explicit WorkProgressLine(Console& console) : console_(console) {}
  ~WorkProgressLine();  // Clears the line.
  WorkProgressLine(const WorkProgressLine&) = delete;
  WorkProgressLine& operator=(const WorkProgressLine&) = delete;

  // Silent when the stream is no terminal.
  void show(const sim::WorkProgress& progress);

 private:
  using Clock = std::chrono::steady_clock;

  Console& console_;
  std::mutex mutex_;
  std::string phase_;
  Clock::time_point phase_start_ = Clock::now();
  Clock::time_point shown_ = phase_start_;
  bool visible_ = false;
};

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_WORK_PROGRESS_H_
