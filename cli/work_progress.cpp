#include "cli/work_progress.h"

#include "cli/report/format.h"

namespace megatwin::cli {
namespace {

constexpr model::Seconds kBetweenLines{0.3};

model::Seconds since(std::chrono::steady_clock::time_point start) {
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  return {spent.count()};
}

}  // namespace

WorkProgressLine::~WorkProgressLine() {
  if (visible_) console_.err << "\r\x1b[K" << std::flush;
}

void WorkProgressLine::show(const sim::WorkProgress& progress) {
  if (!console_.err_is_terminal) return;
  const std::lock_guard lock(mutex_);
  if (progress.phase != phase_) {
    phase_ = progress.phase;
    phase_start_ = Clock::now();
  }
  if (since(shown_) < kBetweenLines) return;
  shown_ = Clock::now();
  visible_ = true;
  console_.err << "\r\x1b[K" << phase_ << " " << format_count(progress.done);
  const double done = static_cast<double>(progress.done) + progress.begun;
  if (progress.total > 0 && done > 0) {
    const double left = (static_cast<double>(progress.total) - done) / done;
    console_.err << " of " << format_count(progress.total) << ", "
                 << format_time(left * since(phase_start_)) << " left at most";
  }
  console_.err << std::flush;
}

}  // namespace megatwin::cli
