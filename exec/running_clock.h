// Time that passes only while this process runs. A process that was stopped (Ctrl-Z, SIGSTOP) and
// goes on has heard nothing from others meanwhile, and must not take that for their silence.
#ifndef MEGATWIN_EXEC_RUNNING_CLOCK_H_
#define MEGATWIN_EXEC_RUNNING_CLOCK_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace megatwin::exec {

class RunningClock {
 public:
  using Duration = std::chrono::nanoseconds;

  RunningClock();
  ~RunningClock();
  RunningClock(const RunningClock&) = delete;
  RunningClock& operator=(const RunningClock&) = delete;

  // Since the start, to within a tick; from any thread. Between two ticks at most kTickMax counts:
  // more means that no thread of the process ran.
  Duration now() const { return Duration(ran_.load()); }
  // What was left out so far.
  Duration stopped() const { return Duration(stopped_.load()); }

  static constexpr std::chrono::milliseconds kTick{10};
  static constexpr std::chrono::milliseconds kTickMax{250};  // A busy machine may be this late.

 private:
  void tick();

  // Not the thread's own start, before which the process may be stopped.
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::atomic<Duration::rep> ran_{0}, stopped_{0};
  std::mutex mutex_;
  std::condition_variable end_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_RUNNING_CLOCK_H_
