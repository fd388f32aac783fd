#include "cli/progress.h"

#include "cli/report/format.h"

namespace megatwin::cli {

Progress::Progress(Console& console, std::string what, std::int64_t total)
    : console_(console), what_(std::move(what)), total_(total) {}

Progress::~Progress() {
  if (visible_) console_.err << "\r\x1b[K" << std::flush;
}

void Progress::advance() {
  ++done_;
  if (!console_.err_is_terminal || done_ >= total_) return;
  const Clock::time_point now = Clock::now();
  const std::chrono::duration<double> since_shown = now - shown_;
  if (since_shown.count() < 0.5) return;
  shown_ = now;
  visible_ = true;
  const std::chrono::duration<double> spent = now - start_;
  const double left =
      spent.count() * static_cast<double>(total_ - done_) / static_cast<double>(done_);
  console_.err << "\r\x1b[K" << what_ << " " << format_count(done_) << " of "
               << format_count(total_) << ", " << format_time({left}) << " left" << std::flush;
}

}  // namespace megatwin::cli
