// `mpirun -n N megatwin search`: what it prints, keeps and returns is what one process does.
#include "tests/search/mpirun.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "sim/search/result_store.h"

namespace megatwin::tests {
namespace {

class Mpirun : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_mpirun(); !reason.empty()) GTEST_SKIP() << reason;
  }

  TemporaryFolder folder_;
};

std::size_t count_of(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST_F(Mpirun, PrintsWhatOneProcessPrints) {
  const std::string file = search_file(folder_);
  for (const std::vector<std::string>& how :
       {std::vector<std::string>{"--json", "--exhaustive"}, std::vector<std::string>{}}) {
    std::vector<std::string> words = {"search", file, "--losers", "20", "--threads", "1"};
    words.insert(words.end(), how.begin(), how.end());
    const Outcome alone = run_program(0, words);
    ASSERT_EQ(alone.code, 0) << alone.err;
    ASSERT_GT(alone.out.size(), 1000U);
    for (const int processes : {1, 2, 3}) {
      words[5] = processes == 2 ? "2" : "1";  // Threads.
      const Outcome together = run_program(processes, words);
      EXPECT_EQ(together.code, 0) << together.err;
      EXPECT_EQ(without_elapsed(together.out), without_elapsed(alone.out)) << processes;
    }
  }
}

// What a search exports really trains: two replicas of a tiny model, from another folder.
TEST_F(Mpirun, TheExportedLineTrains) {
  std::ofstream(folder_.path("text.txt")) << std::string(9000, 'r') + std::string(9000, 'o');
  std::ofstream(folder_.path("job.yaml"))
      << "model: {family: llama, num_layers: 4, hidden_size: 16, ffn_hidden_size: 24,\n"
         "        num_attention_heads: 2, vocab_size: 256, sequence_length: 16}\n"
         "cluster: {nodes: [{gpu: H100-SXM5-80GB, gpus: 2, count: 1}]}\n"
         "plan: {data: 2, micro_batch: 1, global_batch: 4, zero: 0, precision: fp32}\n"
         "data: {text: text.txt, held_out: 10 %}\n"
         "training: {steps: 3, learning_rate: 0.01, evaluate_every: 2}\n"
         "search: {fix: [tensor, pipeline], sequence_parallel: [false]}\n";
  const std::string exported = folder_.path("exported");
  const Outcome found = run_program(0, {"search", folder_.path("job.yaml"), "--export", exported});
  ASSERT_EQ(found.code, 0) << found.err;
  const Outcome trained = ProgramRun(
                              "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                              "MPIRUN_ARGS=--oversubscribe MEGATWIN=" MEGATWIN_PROGRAM " bash " +
                              exported + "/train.sh --json")
                              .wait();
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(count_of(trained.out, "\"ranks\": 2"), 1U) << trained.out;
  EXPECT_EQ(count_of(trained.out, "\"step\": 3"), 1U) << trained.out;
}

TEST_F(Mpirun, BadInputIsToldOnceAndEveryProcessEndsWithTwo) {
  const std::string file = search_file(folder_);
  const std::vector<std::vector<std::string>> bad = {{"search", folder_.path("none.yaml")},
                                                     {"search", file, "--set", "plan.tensors=4"},
                                                     {"search", file, "--exhausting"},
                                                     {"search", file, "--memory-margin", "7"}};
  for (const auto& words : bad) {
    const Outcome alone = run_program(0, words);
    const Outcome together = run_program(3, words);
    EXPECT_EQ(alone.code, 2);
    EXPECT_EQ(together.code, 2) << together.err;
    EXPECT_EQ(together.out, "");
    EXPECT_EQ(count_of(together.err, alone.err), 1U) << together.err << "\ninstead of\n"
                                                     << alone.err;
    EXPECT_EQ(count_of(together.err, "error:"), count_of(alone.err, "error:")) << together.err;
  }
}

TEST_F(Mpirun, AStoreThatCannotBeKeptEndsAllProcesses) {
  const Outcome outcome =
      run_program(3, {"search", search_file(folder_), "--store", folder_.path("no/such/file.db")});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(count_of(outcome.err, "as a store of results"), 1U) << outcome.err;
}

TEST_F(Mpirun, KeepsWhatOneProcessKeeps) {
  std::vector<std::string> words = {"search", search_file(folder_), "--store"};
  words.push_back(folder_.path("alone.db"));
  EXPECT_EQ(run_program(0, words).code, 0);
  words.back() = folder_.path("together.db");
  EXPECT_EQ(run_program(3, words).code, 0);
  const auto expected = stored_times(folder_.path("alone.db"));
  EXPECT_GT(expected.size(), 40U);
  EXPECT_EQ(stored_times(words.back()), expected);
}

// A process that is killed ends the others; what was finished is kept, and the next run goes on.
TEST_F(Mpirun, AKilledProcessLosesNothingFinished) {
  const std::string file = search_file(folder_);
  std::vector<std::string> words = {"search", file, "--exhaustive", "--threads", "1", "--json"};
  const Outcome alone = run_program(0, words);
  words.emplace_back("--store");
  words.emplace_back();
  for (const int rank : {1, 0}) {
    words.back() = folder_.path("killed" + std::to_string(rank) + ".db");
    std::vector<std::string> before;
    ProgramRun run(3, words);
    // Somewhere in the middle: when the first times have been kept.
    while (before.empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      before = stored_times(words.back());
    }
    const bool killed = run.kill(rank);
    EXPECT_TRUE(!killed || run.wait().code != 0);
    const auto kept = stored_times(words.back());
    EXPECT_TRUE(std::includes(kept.begin(), kept.end(), before.begin(), before.end()));
    const Outcome resumed = run_program(2, words);
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(without_elapsed(resumed.out), without_elapsed(alone.out)) << "rank " << rank;
  }
}

}  // namespace
}  // namespace megatwin::tests
