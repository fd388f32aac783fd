#include "cli/training_lines.h"

#include <algorithm>

#include "cli/report/format.h"
#include "cli/report/training_report.h"

namespace megatwin::cli {

TrainingLines::TrainingLines(Console& console, const exec::HostJob& job, bool table)
    : console_(console),
      table_(table),
      first_step_(job.first_step),
      num_steps_(job.steps),
      every_(std::max(1, (job.steps - job.first_step) / 20)),
      tokens_per_step_(static_cast<double>(job.plan.global_batch) *
                       static_cast<double>(job.transformer.sequence_length)) {}

void TrainingLines::show(const exec::TrainingStep& step) {
  const std::chrono::duration<double> spent = Clock::now() - start_;
  const int done = step.step - first_step_;
  const bool last = step.step == num_steps_;
  if (table_ &&
      (step.held_out_loss || !step.checkpoint.empty() || done % every_ == 0 || last || done == 1)) {
    clear();
    if (!titled_) console_.out << terminal_training_titles();
    titled_ = true;
    console_.out << terminal_training_step(step, tokens_per_step_ * done / spent.count())
                 << std::flush;
  }
  if (console_.err_is_terminal && !last) show_how_far(step, {spent.count()});
}

void TrainingLines::show_how_far(const exec::TrainingStep& step, model::Seconds spent) {
  const std::chrono::duration<double> since_shown = Clock::now() - shown_;
  if (since_shown.count() < 0.3) return;
  shown_ = Clock::now();
  visible_ = true;
  const int done = step.step - first_step_;
  const model::Seconds left{spent.value * (num_steps_ - step.step) / done};
  console_.err << "\r\x1b[Kstep " << format_count(step.step) << " of " << format_count(num_steps_)
               << ", loss " << step.loss << ", "
               << format_tokens_per_second(tokens_per_step_ * done / spent.value) << ", "
               << format_time(left) << " left" << std::flush;
}

void TrainingLines::clear() {
  if (visible_) console_.err << "\r\x1b[K" << std::flush;
  visible_ = false;
}

}  // namespace megatwin::cli
