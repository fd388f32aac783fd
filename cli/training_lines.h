// Lines of a training run: a table to `out`, and on a terminal one that says how far it is to
// `err`.
#ifndef MEGATWIN_CLI_TRAINING_LINES_H_
#define MEGATWIN_CLI_TRAINING_LINES_H_

#include <chrono>

#include "cli/console.h"
#include "exec/training.h"

namespace megatwin::cli {

class TrainingLines {
 public:
  // The console is borrowed. Without `table` nothing goes to `out`.
  TrainingLines(Console& console, const exec::HostJob& job, bool table);
  ~TrainingLines() { clear(); }
  TrainingLines(const TrainingLines&) = delete;
  TrainingLines& operator=(const TrainingLines&) = delete;

  void show(const exec::TrainingStep& step);

 private:
  using Clock = std::chrono::steady_clock;
  void show_how_far(const exec::TrainingStep& step, model::Seconds spent);
  void clear();

  Console& console_;
  bool table_;
  int first_step_, num_steps_, every_;
  double tokens_per_step_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
  bool titled_ = false;
  bool visible_ = false;
};

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_TRAINING_LINES_H_
