// A search whose process is killed at any moment, again and again, ends with the answer of one that
// was left alone, and works nothing out twice that was finished.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "sim/search/result_store.h"
#include "sim/search/search.h"
#include "tests/search/search_jobs.h"
#include "tests/temporary_folder.h"

namespace megatwin::tests {
namespace {

const model::Job& job() { return sixteen_gpu_job(); }

const sim::SearchSpace& space() {
  static const sim::SearchSpace the_space = sixteen_gpu_space({1, 2, 5});
  return the_space;
}

sim::SearchResult answer(sim::ResultStore* store, int threads) {
  return sim::search(job(), space(),
                     {.num_threads = threads,
                      .num_losers = 5,
                      .exhaustive = true,
                      .store = store,
                      .progress = {}});
}

// Everything that the answer says, but for the time it took.
std::string summary_of(const sim::SearchResult& result) {
  std::string text = std::to_string(result.candidates) + " " + std::to_string(result.fit) + " " +
                     std::to_string(result.evaluated.dataflow) + "\n";
  for (const sim::FoundPlan& found : result.best) {
    text += std::to_string(found.report.step_time.value * 1e9) + " " +
            std::to_string(found.report.memory_peak.value) + "\n";
  }
  for (const sim::Loser& loser : result.losers) text += loser.reason + "\n";
  for (const sim::Candidate& plan : result.plans) text += std::to_string(plan.time.ns) + " ";
  return text;
}

// Searches in a process of its own, which is killed after so many microseconds, or kills itself
// when it is done. Gives the time it had.
std::chrono::microseconds search_and_die(const std::string& path,
                                         std::optional<useconds_t> after = {}) {
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = fork();
  EXPECT_GE(child, 0);
  if (child == 0) {
    sim::ResultStore store(path, "test");
    answer(&store, 2);
    kill(getpid(), SIGKILL);
  }
  if (after) {
    usleep(*after);
    kill(child, SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() -
                                                               start);
}

// The thread sanitizer makes a search ten times as long; what it looks for shows in a few.
#ifdef __SANITIZE_THREAD__
constexpr int kKills = 5;
#else
constexpr int kKills = 50;
#endif

TEST(Resume, AfterFiftyKillsAtRandomMomentsTheAnswerIsTheSame) {
  const TemporaryFolder folder;
  const std::string file = folder.path("search.db");
  auto longest = search_and_die(folder.path("other.db")).count();
  Dice dice(1);
  std::size_t before = 0;
  int grown = 0;
  for (int i = 0; i < kKills; ++i) {
    search_and_die(file, static_cast<useconds_t>(dice.below(static_cast<int>(longest))));
    const std::size_t stored = sim::ResultStore(file, "test").load().size();
    ASSERT_GE(stored, before) << "finished work was lost at kill " << i;
    grown += stored > before ? 1 : 0;
    // The machine may have become busier since the first run was timed.
    if (grown == 0) longest += longest / 4;
    before = stored;
  }
  EXPECT_GT(grown, 0);
  sim::ResultStore store(file, "test");
  const std::string expected = summary_of(answer(nullptr, 2));
  EXPECT_EQ(summary_of(answer(&store, 2)), expected);
  EXPECT_EQ(summary_of(answer(&store, 3)), expected);
}

TEST(Resume, WhatIsStoredIsTakenAndSearchesAreKeptApart) {
  const TemporaryFolder folder;
  const std::string file = folder.path("search.db");
  sim::ResultStore store(file, "one");
  const std::string expected = summary_of(answer(&store, 2));
  const auto times = store.load();
  EXPECT_GT(times.size(), 100U);
  EXPECT_TRUE(sim::ResultStore(file, "other").load().empty());
  EXPECT_EQ(summary_of(answer(&store, 2)), expected);
  EXPECT_EQ(store.load(), times);
}

// Times of another version of the program would come out as the answer: three are tried first.
TEST(Resume, TimesThatAreNotOursAreForgotten) {
  const TemporaryFolder folder;
  const std::string file = folder.path("search.db");
  sim::ResultStore store(file, "test");
  const std::string expected = summary_of(answer(&store, 2));
  auto times = store.load();
  for (sim::StoredTime& time : times) time.time.ns += 1;
  store.add(times);
  EXPECT_EQ(summary_of(answer(&store, 2)), expected);
}

TEST(Resume, AFileThatIsNoStoreSaysSo) {
  const TemporaryFolder folder;
  const std::string file = folder.path("search.db");
  std::FILE* out = std::fopen(file.c_str(), "w");
  std::fputs("this is no database, and long enough not to be taken for an empty one\n", out);
  std::fclose(out);
  EXPECT_THROW(sim::ResultStore(file, "test"), sim::StoreError);
  EXPECT_THROW(sim::ResultStore("no/such/folder/file.db", "test"), sim::StoreError);
}

}  // namespace
}  // namespace megatwin::tests
