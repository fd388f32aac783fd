// A search over several processes, which are threads here: the same answer and the same store for
// any number of them, and no piece of work done twice or not at all.
#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "sim/search/result_store.h"
#include "sim/search/search.h"
#include "sim/search/shared_work.h"
#include "tests/search/search_jobs.h"
#include "tests/temporary_folder.h"
#include "tests/thread_processes.h"

namespace megatwin::tests {
namespace {

const model::Job& job() { return sixteen_gpu_job(); }

const sim::SearchSpace& space() {
  static const sim::SearchSpace the_space = sixteen_gpu_space({1, 5});
  return the_space;
}

sim::SearchResult search_over(int processes, int threads, sim::ResultStore* store = nullptr) {
  sim::SearchResult result;
  ThreadProcesses::run(processes, [&](model::Processes& end) {
    const sim::SearchOptions options{
        .num_threads = threads + end.rank(), .store = store, .processes = &end, .progress = {}};
    if (end.rank() == 0) {
      result = sim::search(job(), space(), options);
    } else {
      help_search(job(), space(), options);
    }
  });
  return result;
}

TEST(SharedSearch, IsTheSameForAnyNumberOfProcessesAndThreads) {
  const TemporaryFolder folder;
  sim::ResultStore alone(folder.path("alone.db"), "test");
  const auto expected =
      summary_of(sim::search(job(), space(), {.num_threads = 1, .store = &alone}));
  ASSERT_GT(expected.size(), 50U);
  for (const int processes : {1, 2, 3}) {
    for (const int threads : {1, 2}) {
      const std::string name = std::to_string(processes) + "x" + std::to_string(threads);
      sim::ResultStore store(folder.path(name), "test");
      EXPECT_EQ(summary_of(search_over(processes, threads, &store)), expected) << name;
      EXPECT_EQ(store.load(), alone.load()) << name;
    }
  }
}

TEST(SharedSearch, GoesOnFromAStore) {
  const TemporaryFolder folder;
  sim::ResultStore store(folder.path("search.db"), "test");
  const auto expected = summary_of(search_over(2, 1, &store));
  const auto times = store.load();
  EXPECT_GT(times.size(), 100U);
  EXPECT_EQ(summary_of(search_over(3, 1, &store)), expected);
  EXPECT_EQ(store.load(), times);
}

// 1,000 pieces in each of a few rounds; helping threads stay idle between them.
TEST(SharedWork, EveryPieceIsDoneOnce) {
  constexpr std::size_t kPieces = 1000;
  for (const int processes : {1, 2, 4}) {
    std::vector<std::atomic<int>> done(kPieces);
    std::atomic<int> elsewhere = 0;
    ThreadProcesses::run(processes, [&](model::Processes& end) {
      if (end.rank() > 0) {
        sim::help(end, 2,
                  [&](sim::WorkKind /*kind*/, std::size_t piece, int /*thread*/,
                      sim::ByteReader& request, sim::ByteWriter& result) {
                    ++elsewhere;
                    result.put(request.get<std::size_t>() + piece);
                  });
        return;
      }
      sim::SharedWork shared(&end);
      for (std::size_t round = 0; round < 3; ++round) {
        shared.run({.kind = sim::WorkKind::Times,
                    .count = kPieces,
                    .here =
                        [&](std::size_t piece, int /*thread*/) {
                          while (processes > 1 && elsewhere == 0) std::this_thread::yield();
                          ++done[piece];
                        },
                    .request = [&](std::size_t /*piece*/, sim::ByteWriter& out) { out.put(round); },
                    .take =
                        [&](std::size_t piece, sim::ByteReader& in) {
                          EXPECT_EQ(in.get<std::size_t>(), round + piece);
                          ++done[piece];
                        }},
                   2);
        for (const auto& times : done) ASSERT_EQ(times, static_cast<int>(round) + 1);
      }
      shared.run({.kind = sim::WorkKind::Times, .count = 0, .here = {}, .request = {}, .take = {}},
                 2);
    });
    EXPECT_EQ(elsewhere > 0, processes > 1);
  }
}

// Nobody is left waiting when one process cannot go on, or the first cannot keep what others found.
TEST(SharedWork, AFaultAnywhereEndsIt) {
  for (const bool helper_fails : {true, false}) {
    std::string fault;
    ThreadProcesses::run(3, [&](model::Processes& end) {
      if (end.rank() > 0) {
        sim::help(end, 1,
                  [&](sim::WorkKind /*kind*/, std::size_t /*piece*/, int /*thread*/,
                      sim::ByteReader& /*request*/, sim::ByteWriter& /*result*/) {
                    if (helper_fails && end.rank() == 2) throw std::runtime_error("out of paper");
                  });
        return;
      }
      sim::SharedWork shared(&end);
      try {
        // More pieces than this process does before it hears of the fault.
        shared.run({.kind = sim::WorkKind::Times,
                    .count = std::size_t{1} << 40U,
                    .here = [](std::size_t /*piece*/, int /*thread*/) {},
                    .request = [](std::size_t /*piece*/, sim::ByteWriter& /*out*/) {},
                    .take =
                        [&](std::size_t /*piece*/, sim::ByteReader& /*in*/) {
                          if (!helper_fails) throw std::runtime_error("the disk is full");
                        }},
                   1);
      } catch (const std::runtime_error& error) {
        fault = error.what();
      }
    });
    EXPECT_EQ(fault, helper_fails ? "process 2: out of paper" : "the disk is full");
  }
}

}  // namespace
}  // namespace megatwin::tests
