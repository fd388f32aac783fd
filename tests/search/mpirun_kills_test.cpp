// Fifty times a process of a search is killed at a random moment, the first as often as others.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/search/mpirun.h"
#include "tests/search/search_jobs.h"

namespace megatwin::tests {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

void wait_for(const ProgramRun& run, int rank) {
  while (!run.process(rank)) std::this_thread::sleep_for(milliseconds(1));
}

// From the start of the first process to the end of all.
milliseconds life_of(const std::vector<std::string>& words) {
  ProgramRun run(3, words);
  wait_for(run, 0);
  const Clock::time_point start = Clock::now();
  EXPECT_EQ(run.wait().code, 0);
  return std::chrono::duration_cast<milliseconds>(Clock::now() - start);
}

TEST(MpirunKills, AfterFiftyOfThemTheAnswerIsTheSame) {
  if (const std::string reason = why_no_mpirun(); !reason.empty()) GTEST_SKIP() << reason;
  const TemporaryFolder folder;
  std::vector<std::string> words = {"search", search_file(folder), "--exhaustive", "--threads", "1",
                                    "--json"};
  const Outcome alone = run_program(0, words);
  ASSERT_EQ(alone.code, 0) << alone.err;
  words.insert(words.end(), {"--store", folder.path("other.db")});
  const milliseconds life = life_of(words);
  const auto whole = stored_times(words.back());

  words.back() = folder.path("search.db");
  Dice dice(1);
  std::vector<std::string> before;
  int killed = 0, grown = 0;
  for (int tries = 0; killed < 50 && tries < 200; ++tries) {
    if (before.size() == whole.size()) {  // All is done: from the start again.
      for (const char* file : {"search.db", "search.db-wal", "search.db-shm"}) {
        std::filesystem::remove(folder.path(file));
      }
      before.clear();
    }
    ProgramRun run(3, words);
    wait_for(run, 0);
    std::this_thread::sleep_for(milliseconds(dice.below(static_cast<int>(life.count()))));
    if (run.kill(dice.below(2) == 0 ? 0 : 1 + dice.below(2))) ++killed;
    run.wait_past_a_stuck_launcher(3);
    const auto kept = stored_times(words.back());
    ASSERT_TRUE(std::includes(kept.begin(), kept.end(), before.begin(), before.end()))
        << "finished work was lost at kill " << killed;
    grown += kept.size() > before.size() ? 1 : 0;
    before = kept;
  }
  EXPECT_EQ(killed, 50);
  EXPECT_GT(grown, 5);
  const Outcome resumed = run_program(3, words);
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(without_elapsed(resumed.out), without_elapsed(alone.out));
  EXPECT_EQ(stored_times(words.back()), whole);
}

}  // namespace
}  // namespace megatwin::tests
