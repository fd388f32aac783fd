// `mpirun megatwin train`: the bits of one process, checkpoints included, and faults that end all
// processes with rank, task and step named and the last checkpoint whole.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <thread>

#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/program_run.h"

namespace megatwin::exec {
namespace {

namespace fs = std::filesystem;
using tests::Outcome;
using tests::ProgramRun;
using tests::run_program;
using Clock = std::chrono::steady_clock;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class MpirunTrain : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = tests::why_no_mpirun(); !reason.empty()) GTEST_SKIP() << reason;
    std::ofstream text(path("text.txt"));
    for (int i = 0; i < 300; ++i) text << "a rose is a rose is a rose " << i % 5 << "\n";
    std::ofstream(path("job.yaml"))
        << "model: {num_layers: 4, hidden_size: 16, ffn_hidden_size: 24, num_attention_heads: 2,\n"
           "        vocab_size: 256, sequence_length: 16}\n"
           "plan: {micro_batch: 1, global_batch: 4, zero: 0}\n"
           "data: {text: text.txt, held_out: 10 %}\n"
           "training: {steps: 4, learning_rate: 0.01, evaluate_every: 2}\n";
  }
  std::string path(const std::string& name) const { return folder_.path(name); }
  std::vector<std::string> words(const std::string& plan, const std::string& checkpoints) const {
    return {"train",
            path("job.yaml"),
            "--json",
            "--set",
            "plan={" + plan + ", micro_batch: 1, global_batch: 4}",
            "--set",
            "training.checkpoint={folder: " + path(checkpoints) + ", every: 2, keep: 9}"};
  }
  rapidjson::Document json(const std::string& text) const {
    rapidjson::Document document;
    document.Parse(text.c_str());
    EXPECT_FALSE(document.HasParseError()) << text;
    return document;
  }
  // Losses, held-out losses, weights and every byte of every checkpoint.
  void expect_alike(const Outcome& together, const Outcome& alone, const std::string& folder) {
    ASSERT_EQ(together.code, 0) << together.err;
    ASSERT_EQ(alone.code, 0) << alone.err;
    const auto ours = json(together.out);
    const auto other = json(alone.out);
    EXPECT_STREQ(ours["weights_hash"].GetString(), other["weights_hash"].GetString());
    ASSERT_EQ(ours["steps"].Size(), other["steps"].Size());
    for (rapidjson::SizeType i = 0; i < ours["steps"].Size(); ++i) {
      EXPECT_EQ(ours["steps"][i]["loss"].GetDouble(), other["steps"][i]["loss"].GetDouble());
    }
    EXPECT_EQ(ours["held_out_loss"].GetDouble(), other["held_out_loss"].GetDouble());
    EXPECT_TRUE(ours["memory"] == other["memory"]);
    int files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(path(folder))) {
      if (!entry.is_regular_file()) continue;
      ++files;
      const fs::path twin = fs::path(path(folder + "-alone")) / fs::relative(entry, path(folder));
      EXPECT_EQ(contents(entry.path()), contents(twin)) << entry.path();
    }
    EXPECT_EQ(files, 2 * 4);
  }

  // The last step that was saved; 0 for none.
  int newest(const std::string& checkpoints) const {
    int step = 0;
    std::error_code not_there_yet;
    for (const auto& entry : fs::directory_iterator(path(checkpoints), not_there_yet)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("step-")) step = std::max(step, std::stoi(name.substr(5)));
    }
    return step;
  }
  // A long run of four processes in which something happens after a checkpoint was saved.
  struct Ended {
    Outcome outcome;
    std::chrono::duration<double> time;  // From the event on.
  };
  Ended run_until_hit(const std::string& checkpoints, int rank, int signal) {
    auto line = words("data: 2, pipeline: 2", checkpoints);
    line.insert(line.end(), {"--set", "training.steps=1000000", "--set", "training.watchdog=4 s"});
    ProgramRun run(4, line);
    while (run.process(rank) == 0 || newest(checkpoints) < 4) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    const auto start = Clock::now();
    kill(run.process(rank), signal);
    Outcome outcome = run.wait();
    return {std::move(outcome), Clock::now() - start};
  }
  // The newest checkpoint is whole: one process goes on from it for two steps.
  void expect_goes_on(const std::string& checkpoints) {
    const int step = newest(checkpoints);
    ASSERT_GT(step, 0);
    auto line = words("data: 2, pipeline: 2", checkpoints);
    line.insert(line.end(), {"--resume", "--set", "training.steps=" + std::to_string(step + 2)});
    const Outcome more = run_program(0, line);
    ASSERT_EQ(more.code, 0) << more.err;
    EXPECT_EQ(json(more.out)["first_step"].GetInt(), step);
  }

  tests::TemporaryFolder folder_;
};

TEST_F(MpirunTrain, GivesTheBitsOfOneProcess) {
  const struct {
    const char* plan;
    int processes;
  } kRuns[] = {{"data: 2", 2},
               {"pipeline: 2", 2},
               {"tensor: 2", 2},
               {"data: 2, pipeline: 2, zero: 1", 4},
               {"data: 2, pipeline: 2, zero: 1", 2}};
  for (const auto& [plan, processes] : kRuns) {
    SCOPED_TRACE(plan);
    fs::remove_all(path("saved"));
    fs::remove_all(path("saved-alone"));
    const Outcome alone = run_program(0, words(plan, "saved-alone"));
    expect_alike(run_program(processes, words(plan, "saved")), alone, "saved");
  }
}

// By messages over TCP, as between hosts, and going on from a checkpoint of another plan.
TEST_F(MpirunTrain, GoesOnOverTcp) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread runs here.
  setenv("OMPI_MCA_btl", "tcp,self", 1);
  const Outcome first = run_program(4, words("data: 2, pipeline: 2", "saved"));
  ASSERT_EQ(first.code, 0) << first.err;
  fs::copy(path("saved"), path("saved-alone"), fs::copy_options::recursive);
  auto line = words("tensor: 2", "saved");
  auto line_alone = words("tensor: 2", "saved-alone");
  for (auto* each : {&line, &line_alone}) {
    each->insert(each->end(), {"--resume", "--set", "training.steps=6"});
  }
  const Outcome together = run_program(2, line);
  unsetenv("OMPI_MCA_btl");  // NOLINT(concurrency-mt-unsafe)
  const Outcome alone = run_program(0, line_alone);
  ASSERT_EQ(together.code, 0) << together.err;
  EXPECT_STREQ(json(together.out)["weights_hash"].GetString(),
               json(alone.out)["weights_hash"].GetString());
}

// A user's file of parameters lost to ours. Of "self" alone no process reaches another: that the
// run fails shows that it was heard; an exclusion of what is not needed anyway leaves us our
// choice.
TEST_F(MpirunTrain, AUsersParametersAreHeard) {
  const auto run_with = [&](const std::string& parameters) {
    std::ofstream(path("mca-params.conf")) << parameters;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread runs here.
    setenv("OMPI_MCA_mca_base_param_files", path("mca-params.conf").c_str(), 1);
    Outcome outcome = run_program(2, words("data: 2", "saved"));
    unsetenv("OMPI_MCA_mca_base_param_files");  // NOLINT(concurrency-mt-unsafe)
    return outcome;
  };
  EXPECT_NE(run_with("pml = ob1\nbtl = self\n").code, 0);
  const Outcome outcome = run_with("# of the system\npml = ^ucx\nbtl = ^openib,ofi\n");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(MpirunTrain, ThePrintedLineRuns) {
  auto line = words("pipeline: 2", "saved");
  line.emplace_back("--print-launch");
  const Outcome printed = run_program(0, line);
  ASSERT_EQ(printed.code, 0) << printed.err;
  ProgramRun run(printed.out);
  const Outcome together = run.wait();
  line.pop_back();
  line.back() = "training.checkpoint={folder: " + path("saved-alone") + ", every: 2, keep: 9}";
  expect_alike(together, run_program(0, line), "saved");
}

TEST_F(MpirunTrain, LogAndTraceHaveAllRanks) {
  auto line = words("data: 2, pipeline: 2", "saved");
  line.insert(line.end(),
              {"--log", path("run.log"), "--trace", path("run.json"), "--policy", "dpp-breadth"});
  const Outcome together = run_program(4, line);
  ASSERT_EQ(together.code, 0) << together.err;
  const Outcome replayed =
      run_program(0, {"simulate", path("job.yaml"), "--replay", path("run.log"), "--set",
                      "plan={data: 2, pipeline: 2, micro_batch: 1, global_batch: 4}", "--json"});
  ASSERT_EQ(replayed.code, 0) << replayed.out << replayed.err;
  EXPECT_EQ(json(replayed.out)["different"].GetInt(), 0);
  EXPECT_EQ(json(replayed.out)["steps"].GetInt(), 4);
  const std::string trace = contents(path("run.json"));
  for (const char* rank : {"rank 0", "rank 3"}) {
    EXPECT_NE(trace.find(rank), std::string::npos) << rank;
  }
}

TEST_F(MpirunTrain, RefusesInWordsOfTheFirstProcess) {
  const Outcome three = run_program(3, words("data: 2, pipeline: 2", "saved"));
  EXPECT_EQ(three.code, 2) << three.err;
  EXPECT_NE(three.err.find("the plan has 4 ranks, which so many processes cannot share equally"),
            std::string::npos)
      << three.err;
  auto line = words("data: 2", "saved");
  line.insert(line.end(), {"--set", "training.stpes=3"});
  const Outcome wrong = run_program(2, line);
  EXPECT_EQ(wrong.code, 2) << wrong.err;
  const std::string says = "did you mean 'steps'?";
  const std::size_t found = wrong.err.find(says);
  ASSERT_NE(found, std::string::npos) << wrong.err;
  EXPECT_EQ(wrong.err.find(says, found + 1), std::string::npos) << wrong.err;
}

// The one that holds rank 2, and the one that prints.
TEST_F(MpirunTrain, AKilledProcessEndsTheRun) {
  for (const int rank : {2, 0}) {
    const std::string checkpoints = "killed-" + std::to_string(rank);
    const Ended ended = run_until_hit(checkpoints, rank, SIGKILL);
    EXPECT_NE(ended.outcome.code, 0);
    EXPECT_LT(ended.time.count(), 10);
    // Either a process that lives, with step and task, or mpirun, when it saw the kill first and
    // ended the others before one could speak (docs/host-world.md).
    const std::regex says("rank " + std::to_string(rank) +
                          ", step [0-9]+, (waits in or after )?([FB][0-9]+\\.0|optimizer|after "
                          "the step|start): process " +
                          std::to_string(rank) + " is gone|noticed that process rank " +
                          std::to_string(rank) + " .*exited on signal 9");
    EXPECT_TRUE(std::regex_search(ended.outcome.err, says)) << ended.outcome.err;
    expect_goes_on(checkpoints);
  }
}

TEST_F(MpirunTrain, AProcessThatHangsEndsTheRun) {
  const Ended ended = run_until_hit("stopped", 3, SIGSTOP);
  EXPECT_EQ(ended.outcome.code, 3);
  EXPECT_LT(ended.time.count(), 10);
  const std::regex says(
      "rank 3, step [0-9]+, .*: (process 3 gave no sign of life|no rank got anything done) for "
      "4000 ms");
  EXPECT_TRUE(std::regex_search(ended.outcome.err, says)) << ended.outcome.err;
  expect_goes_on("stopped");
}

// A rank throws when its numbers are not finite.
TEST_F(MpirunTrain, ARankThatThrowsEndsTheRun) {
  auto line = words("data: 2, pipeline: 2", "saved");
  line.insert(line.end(), {"--set", "training={steps: 100, learning_rate: 1000}"});
  const Outcome outcome = run_program(4, line);
  EXPECT_EQ(outcome.code, 3);
  const std::regex says("rank [0-3], step [0-9]+, .* not finite");
  EXPECT_TRUE(std::regex_search(outcome.err, says)) << outcome.err;
}

TEST_F(MpirunTrain, AFolderThatCannotBeIsRefusedByTheFirstProcess) {
  std::ofstream(path("file")) << "no folder";
  const Outcome outcome = run_program(4, words("data: 2, pipeline: 2", "file/saved"));
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("is no folder\n"), std::string::npos) << outcome.err;
}

// All four are stopped for longer than the watchdog, as by Ctrl-Z, and go on: none was silent.
TEST_F(MpirunTrain, ProcessesThatWereStoppedTogetherGoOn) {
  auto line = words("data: 2, pipeline: 2", "together");
  line.insert(line.end(), {"--set", "training.steps=1000000", "--set", "training.watchdog=1 s"});
  ProgramRun run(4, line);
  while (newest("together") < 4) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto signal_all = [&](int signal) {
    for (int rank = 0; rank < 4; ++rank) kill(run.process(rank), signal);
  };
  signal_all(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  const int step = newest("together");
  signal_all(SIGCONT);
  const auto start = Clock::now();
  while (newest("together") < step + 4 && Clock::now() - start < std::chrono::seconds(8)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_GE(newest("together"), step + 4);
  signal_all(SIGTERM);
  const Outcome outcome = run.wait();
  EXPECT_EQ(outcome.err.find("megatwin: error"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace megatwin::exec
