#include "exec/running_clock.h"

#include <algorithm>

namespace megatwin::exec {

RunningClock::RunningClock() : thread_([this] { tick(); }) {}

RunningClock::~RunningClock() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  end_.notify_one();
  thread_.join();
}

void RunningClock::tick() {
  using Clock = std::chrono::steady_clock;
  Clock::time_point last = begun_;
  std::unique_lock lock(mutex_);
  while (!end_.wait_for(lock, kTick, [&] { return ends_; })) {
    const Clock::time_point now = Clock::now();
    const Duration passed = now - last;
    const Duration counted = std::min<Duration>(passed, kTickMax);
    ran_ += counted.count();
    stopped_ += (passed - counted).count();
    last = now;
  }
}

}  // namespace megatwin::exec
