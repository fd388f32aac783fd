// A process that was stopped and goes on does not count the time of the stop.
#include "exec/running_clock.h"

#include <csignal>
#include <cstdlib>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

namespace megatwin::exec {
namespace {

using std::chrono::milliseconds;

TEST(RunningClock, PassesWhileTheProcessRuns) {
  const RunningClock clock;
  const auto start = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(milliseconds(300));
  const std::chrono::nanoseconds ran = clock.now();
  EXPECT_GT(ran, milliseconds(150));
  EXPECT_LE(ran, std::chrono::steady_clock::now() - start + RunningClock::kTickMax);
}

// The child stops itself for a second; of that kTickMax may count.
TEST(RunningClock, StandsStillWhileTheProcessIsStopped) {
  const pid_t child = ::fork();
  if (child == 0) {
    const RunningClock clock;
    ::raise(SIGSTOP);
    std::this_thread::sleep_for(milliseconds(100));
    const bool still = clock.now() < milliseconds(600) && clock.stopped() > milliseconds(500);
    std::_Exit(still ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  std::this_thread::sleep_for(milliseconds(1000));
  ::kill(child, SIGCONT);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace megatwin::exec
