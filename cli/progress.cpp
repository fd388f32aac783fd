#include "cli/progress.h"

#include <algorithm>
#include <utility>

#include "cli/report/format.h"

namespace megatwin::cli {

Progress::Progress(Console& console, std::string what, std::int64_t total)
    : console_(console), what_(std::move(what)), total_(total) {
  if (console_.err_is_terminal) watcher_ = std::jthread([this](const auto& stop) { watch(stop); });
}

Progress::~Progress() {
  if (watcher_.joinable()) {
    watcher_.request_stop();
    watcher_.join();
  }
  if (visible_) console_.err << "\r\x1b[K" << std::flush;
}

void Progress::watch(const std::stop_token& stop) {
  constexpr std::chrono::seconds kSilence{2}, kBetween{1};
  std::unique_lock lock(mutex_);
  const auto never = [] { return false; };
  while (!wake_.wait_for(lock, stop, kBetween, never)) {
    if (stop.stop_requested()) return;
    const Clock::time_point now = Clock::now();
    if (now - std::max(shown_, start_) < kSilence && !counting_) continue;
    counting_ = true;
    visible_ = true;
    const auto spent = std::chrono::duration_cast<std::chrono::seconds>(now - start_);
    console_.err << "\r\x1b[K" << what_;
    if (total_ > 1) {
      console_.err << " " << format_count(done_ + 1) << " of " << format_count(total_);
    }
    console_.err << ", " << format_count(spent.count()) << " s so far" << std::flush;
  }
}

void Progress::advance() {
  const std::lock_guard lock(mutex_);
  counting_ = false;
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
