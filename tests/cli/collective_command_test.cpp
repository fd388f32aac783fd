// `megatwin collective` from the command line on, over the real scenarios: every algorithm, by hand
// where it is short, and what it refuses.
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "cli/command_line.h"
#include "cli/real_world.h"
#include "tests/temporary_folder.h"

namespace megatwin::cli {
namespace {

class CollectiveCommand : public testing::Test {
 protected:
  struct Outcome {
    int code = 0;
    std::string out, err;
  };
  Outcome run(std::vector<std::string> words) const {
    const std::string file = folder_.path("job.yaml");
    std::ofstream(file) << "model: {name: llama-3-8b}\n"
                           "cluster: {nodes: [{type: dgx-h100, count: 4}], fabric: {type: "
                           "rail-optimized-fat-tree, switch_latency: 300 ns}}\n"
                           "plan: {tensor: 8, data: 4, global_batch: 4}\n";
    words.insert(words.begin(), "collective");
    words.insert(words.end(), {"--cluster", file});
    std::ostringstream out, err;
    Console console{.out = out, .err = err};
    const int code = run_command_line(words, RealWorld(), console);
    return {code, out.str(), err.str()};
  }
  rapidjson::Document json(std::vector<std::string> words) const {
    words.emplace_back("--json");
    const Outcome outcome = run(std::move(words));
    EXPECT_EQ(outcome.code, kExitAnswer) << outcome.err;
    rapidjson::Document document;
    document.Parse(outcome.out.c_str());
    EXPECT_FALSE(document.HasParseError()) << outcome.out << outcome.err;
    return document;
  }
  tests::TemporaryFolder folder_;
};

// Four GPUs on each of two machines: SHARP sends a quarter of 800 MB over each of their adapters of
// 50 GB/s, 4 ms, plus the links' latencies of a few µs; its bus bandwidth counts 2 · 7/8 of it. A
// ring sends 2 · 7/8.
TEST_F(CollectiveCommand, GivesTimeAndBusBandwidthByHand) {
  const auto by = [&](const char* algorithm) {
    return json(
        {"all-reduce", "--size", "800 MB", "--ranks", "0-3,8-11", "--algorithm", algorithm});
  };
  const auto sharp = by("sharp");
  EXPECT_NEAR(sharp["time_s"].GetDouble(), 4e-3, 10e-6);
  EXPECT_NEAR(sharp["busbw_bytes_per_s"].GetDouble(), 1.75 * 800e6 / sharp["time_s"].GetDouble(),
              1);
  EXPECT_STREQ(sharp["algorithm"].GetString(), "sharp");
  ASSERT_EQ(sharp["links"].Size(), 8U);
  for (const auto& link : sharp["links"].GetArray()) {
    EXPECT_NEAR(link["carried_bytes"].GetDouble(), 200e6, 1);
    EXPECT_GT(link["busy_fraction"].GetDouble(), 0.99);
    EXPECT_NE(std::string(link["link"].GetString()).find("/nic"), std::string::npos);
  }
  EXPECT_NEAR(by("ring")["time_s"].GetDouble(), 1.75 * 4e-3, 100e-6);
}

TEST_F(CollectiveCommand, RunsEveryAlgorithm) {
  const std::vector<std::vector<std::string>> all = {
      {"all-reduce", "--algorithm", "auto"},
      {"all-reduce", "--algorithm", "tree"},
      {"all-reduce", "--algorithm", "nvls-tree"},
      {"all-reduce", "--algorithm", "nvls", "--ranks", "8"},
      {"all-reduce", "--algorithm", "hierarchical"},
      {"all-gather", "--algorithm", "ring"},
      {"reduce-scatter", "--algorithm", "pat", "--ranks", "0,8,16,24"},
      {"all-to-all", "--algorithm", "direct", "--ranks", "0-7,16-23"},
      {"all-to-all", "--algorithm", "pairwise"}};
  for (const auto& words : all) {
    const auto answer = json(words);
    EXPECT_GT(answer["time_s"].GetDouble(), 0) << words[2];
    EXPECT_GT(answer["closed_form"]["time_s"].GetDouble(), 0) << words[2];
    const auto alone = [&] {
      std::vector<std::string> again = words;
      again.insert(again.end(), {"--network", "analytic"});
      return json(again);
    }();
    EXPECT_LE(alone["time_s"].GetDouble(), answer["time_s"].GetDouble() * (1 + 1e-9)) << words[2];
  }
  EXPECT_NE(run({"all-reduce", "--ranks", "8"}).out.find("busiest links"), std::string::npos);
}

// Four ranks, one a machine, that send everything to rank 0: three rows of 64 MB arrive by its one
// adapter, where evenly a quarter of each would.
TEST_F(CollectiveCommand, TakesATableOfTokens) {
  const std::string tokens = folder_.path("tokens.csv");
  std::ofstream(tokens) << "# all to the first\n1, 0, 0, 0\n1,0,0,0\n1,0,0,0\n1,0,0,0\n";
  const auto uneven = json({"all-to-all", "--ranks", "0,8,16,24", "--tokens", tokens});
  EXPECT_NEAR(uneven["time_s"].GetDouble(), 3 * 64e6 / 50e9, 5e-6);
  const auto even = json({"all-to-all", "--ranks", "0,8,16,24"});
  EXPECT_NEAR(even["time_s"].GetDouble(), 0.75 * 64e6 / 50e9, 5e-6);
}

// What stays on its rank needs no network: no time and no bandwidth, in text and JSON alike.
TEST_F(CollectiveCommand, ATableThatSendsNothingTakesNoTime) {
  const std::string tokens = folder_.path("tokens.csv");
  std::ofstream(tokens) << "5, 0\n0, 3\n";
  const auto answer = json({"all-to-all", "--ranks", "0,8", "--tokens", tokens});
  EXPECT_EQ(answer["time_s"].GetDouble(), 0);
  EXPECT_TRUE(answer["busbw_bytes_per_s"].IsNull());
  EXPECT_EQ(answer["closed_form"]["time_s"].GetDouble(), 0);
  EXPECT_TRUE(answer["closed_form"]["busbw_bytes_per_s"].IsNull());
  EXPECT_EQ(answer["links"].Size(), 0U);
  const Outcome text = run({"all-to-all", "--ranks", "0,8", "--tokens", tokens});
  EXPECT_EQ(text.code, kExitAnswer);
  EXPECT_NE(text.out.find("nothing leaves a rank"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("bus bandwidth  not defined"), std::string::npos) << text.out;
}

TEST_F(CollectiveCommand, RefusesTablesThatSayNothing) {
  const std::string tokens = folder_.path("tokens.csv");
  const auto refusal = [&](const std::string& table, const std::string& kind) {
    std::ofstream(tokens) << table;
    const Outcome outcome = run({kind, "--ranks", "0,8", "--tokens", tokens});
    EXPECT_EQ(outcome.code, kExitBadInput) << table;
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(refusal("0,0\n0,0\n", "all-to-all"), "sends no tokens");
  has(refusal("0,nan\n1,0\n", "all-to-all"), "'nan' is no number of tokens");
  has(refusal("0,1e308\n1,0\n", "all-to-all"), "numbers from 0 to 1e15");
  has(refusal("0,1,1\n1,0,1\n", "all-to-all"), "holds 2 × 3 numbers for 2 ranks");
  has(refusal("0,1\n1,0\n", "all-reduce"), "with all-to-all");
  // Every fault at once, each where it is.
  const std::string all = refusal("1, x\n2\n-1,,3\n", "all-to-all");
  has(all, "tokens.csv:1:4: error: 'x' is no number of tokens");
  has(all, "tokens.csv:2: error: has 1 number, the first row 2");
  has(all, "tokens.csv:3:1: error: '-1' is no number of tokens");
  has(all, "tokens.csv:3:4: error: '' is no number of tokens");
  has(all, "5 errors");
}

// More pairs than are laid out one by one, and in rounds.
TEST_F(CollectiveCommand, LaysManyRanksOutByMachines) {
  const std::vector<std::string> large = {"--set", "cluster.nodes[0].count=130",
                                          "--set", "plan.data=130",
                                          "--set", "plan.global_batch=130"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), large.begin(), large.end());
    return words;
  };
  const auto answer = json(with({"all-to-all", "--size", "1.04 GB"}));
  EXPECT_TRUE(answer["by_machines"].GetBool());
  // 1,032 of 1,040 parts of a million bytes through every adapter, and the latencies of the links.
  EXPECT_NEAR(answer["time_s"].GetDouble(), 1032e6 / 50e9, 10e-6);
  EXPECT_EQ(answer["flows"].GetInt(), 1 + 1040 * (129 + 7));
  const Outcome rounds = run(with({"all-to-all", "--algorithm", "pairwise"}));
  EXPECT_EQ(rounds.code, kExitBadInput);
  EXPECT_NE(rounds.err.find("1,080,560 flows in rounds"), std::string::npos) << rounds.err;
  EXPECT_NE(rounds.err.find("at most 1,048,576 flows: 1024 ranks"), std::string::npos);
}

TEST_F(CollectiveCommand, RefusesWhatItCannotDo) {
  const auto refuses = [&](const std::vector<std::string>& words, const std::string& what) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, kExitBadInput) << what;
    EXPECT_NE(outcome.err.find(what), std::string::npos) << outcome.err;
  };
  refuses({"all-reduce", "--size", "64"}, "--size");
  refuses({"all-reduce", "--ranks", "x"}, "'x' names no ranks");
  refuses({"all-reduce", "--ranks", "7-3"}, "'7-3' names no ranks");
  refuses({"all-reduce", "--ranks", "33"}, "rank 32 is not in the cluster");
  refuses({"all-reduce", "--ranks", "1"}, "one rank does nothing");
  refuses({"all-reduce", "--ranks", ""}, "--ranks");
  refuses({"all-reduce", "--ranks", "0,0,1"}, "rank 0 is named twice");
  refuses({"all-reduce", "--ranks", "0,8,1"}, "rank 1 stands apart from the others of its machine");
  refuses({"all-reduce", "--size", "0.5 B"}, "'0.5 B' is less than a byte");
  refuses({"all-reduce", "--algorithm", "direct"}, "direct does not do all-reduce");
  refuses({"all-to-all", "--algorithm", "tree"}, "tree does not do all-to-all");
  refuses({"all-to-all", "--algorithm", "nvls"}, "nvls does not do all-to-all");
  refuses({"all-reduce", "--algorithm", "sharp", "--ranks", "8"},
          "sharp adds between machines, the ranks are on one");
  refuses({"all-gather", "--algorithm", "pat"}, "pat is of one rank a machine");
  refuses({"gather"}, "gather");
}

}  // namespace
}  // namespace megatwin::cli
