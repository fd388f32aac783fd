// Every file of tests/scenarios/bad is refused with exactly the text beside it (x.yaml,
// x.yaml.txt). MEGATWIN_UPDATE_GOLDENS=1 rewrites the texts; the commit that does so says why.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/precision_names.h"
#include "scenarios/huggingface.h"
#include "scenarios/scenario.h"

namespace megatwin::scenarios {
namespace {

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string refusal_of(const std::string& path) {
  if (path.ends_with(".json")) {
    const auto config = load_huggingface_config(path);
    return config ? "accepted\n" : to_text(config.error());
  }
  const auto jobs = load_scenario(path);
  return jobs ? "accepted\n" : to_text(jobs.error());
}

std::vector<std::string> bad_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("tests/scenarios/bad")) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".txt")) files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(BadInput, IsRefusedWithExactlyThisText) {
  ASSERT_GE(bad_files().size(), 12U);
  for (const std::string& path : bad_files()) {
    const std::string refusal = refusal_of(path);
    if (std::getenv("MEGATWIN_UPDATE_GOLDENS") != nullptr) {
      std::ofstream(path + ".txt") << refusal;
      continue;
    }
    EXPECT_EQ(refusal, text_of(path + ".txt")) << path;
  }
}

TEST(BadInput, OptionsOfTheCommandLineAreCheckedLikeTheFile) {
  const auto refusal = [](const ScenarioOptions& options) {
    const auto jobs = load_scenario("scenarios/llama-3-8b-h200.yaml", options);
    return jobs ? "accepted\n" : to_text(jobs.error());
  };
  EXPECT_EQ(refusal({.set = {"plan.micro_batch=-1", "network=etherent"}}),
            "--set: error: plan.micro_batch: '-1' is out of range\n"
            "  allowed: a whole number from 1 to 1000000000\n"
            "--set: error: network: unknown value 'etherent'\n"
            "  allowed: analytic, simgrid, maxmin\n"
            "2 errors; nothing was run\n");
  EXPECT_EQ(refusal({.set = {"plan.tensor"}}),
            "--set: error: 'plan.tensor' sets nothing\n"
            "  allowed: a key and its value, such as plan.tensor=4\n"
            "1 error; nothing was run\n");
  EXPECT_EQ(refusal({.set = {"cluster.nodes[7].count=2"}}),
            "--set: error: cluster.nodes[7]: there is no such item\n"
            "1 error; nothing was run\n");
  EXPECT_EQ(refusal({.set = {"model.name.kind=2"}}),
            "--set: error: model.name: is not a map, so that 'kind' cannot be set in it\n"
            "1 error; nothing was run\n");
  EXPECT_EQ(refusal({.set = {"plan..tensor=2"}}),
            "--set: error: 'plan..tensor' is not the path of a key\n"
            "  allowed: keys joined by dots, items of a list by number: cluster.nodes[1].count\n"
            "1 error; nothing was run\n");
  EXPECT_EQ(refusal({.set = {"plan.tensr=null"}}),
            "--set: error: plan.tensr: is not there to be taken away\n"
            "  allowed: a key of the file\n"
            "1 error; nothing was run\n");
  EXPECT_EQ(refusal({.set = {"plan.layers_per_stage=autoo", "plan.tensor_per_stage=[]",
                             "plan.tensor=null"}}),
            "--set: error: plan.tensor_per_stage: is an empty list\n"
            "  allowed: a size for each stage, such as [4, 4, 2]\n"
            "--set: error: plan.layers_per_stage: holds 'autoo'\n"
            "  allowed: auto, or layers of each stage, such as [4, 4, 5]\n"
            "2 errors; nothing was run\n");
  EXPECT_EQ(refusal({.sweep = {"plan.tensor=1,two"}}),
            "--sweep: error: plan.tensor: 'two' is not a whole number\n"
            "  allowed: a whole number from 1 to 1000000\n"
            "1 error; nothing was run\n");
}

// `--set plan.tensor=$T` with T unset took the key away, as null does, without a word.
TEST(BadInput, AnEmptyValueIsNoNull) {
  for (const char* nothing : {"", "  ", "# 4"}) {
    const auto jobs = load_scenario("scenarios/llama-3-8b-h200.yaml",
                                    {.set = {"plan.tensor=" + std::string(nothing)}});
    ASSERT_FALSE(jobs) << nothing;
    EXPECT_EQ(to_text(jobs.error()),
              "--set: error: plan.tensor: has an empty value\n"
              "  allowed: a value; null takes the key away\n"
              "1 error; nothing was run\n");
  }
  EXPECT_TRUE(load_scenario("scenarios/llama-3-8b-h200.yaml", {.set = {"plan.tensor=~"}}));
}

// Every name that a report prints can be written, and is offered where another is.
TEST(BadInput, EveryPrecisionIsReadByItsName) {
  const std::string file = "scenarios/llama-3-8b-h200.yaml";
  const auto wrong = load_scenario(file, {.set = {"plan.precision=fp7"}});
  ASSERT_FALSE(wrong);
  for (const model::Precision precision : model::kPrecisions) {
    const std::string name(name_of(precision));
    const auto jobs = load_scenario(file, {.set = {"plan.precision=" + name}});
    ASSERT_TRUE(jobs) << to_text(jobs.error());
    EXPECT_EQ(jobs->front().plan.precision, precision) << name;
    EXPECT_NE(to_text(wrong.error()).find(name), std::string::npos) << name;
  }
}

// One of two keys that exclude each other can be tried without touching the file.
TEST(BadInput, NullTakesAKeyAway) {
  const auto jobs = load_scenario(
      "scenarios/llama-3-8b-h200.yaml",
      {.set = {"plan.tensor=null", "plan.tensor_per_stage=[2, 2]", "plan.pipeline=2"}});
  ASSERT_TRUE(jobs) << to_text(jobs.error());
  EXPECT_EQ(jobs->front().plan.tensor_per_stage, (std::vector<int>{2, 2}));
}

TEST(BadInput, SweepsOfNothingOrTwiceTheSame) {
  const auto refusal = [](std::vector<std::string> sweep) {
    const auto result =
        load_scenario("scenarios/llama-3.1-70b-h100.yaml", {.sweep = std::move(sweep)});
    return result ? std::string("accepted") : to_text(result.error());
  };
  EXPECT_EQ(refusal({"plan.tensor="}),
            "--sweep: error: plan.tensor: has an empty value\n"
            "  allowed: values with commas between them, such as plan.tensor=1,2,4\n"
            "1 error; nothing was run\n");
  EXPECT_EQ(refusal({"plan.tensor=4,8,4"}),
            "--sweep: error: plan.tensor: names '4' twice\n"
            "1 error; nothing was run\n");
  EXPECT_EQ(refusal({"plan.tensor=4", "plan.zero=1", "plan.tensor=8"}),
            "--sweep: error: plan.tensor: is swept twice\n"
            "  allowed: all its values in one --sweep\n"
            "1 error; nothing was run\n");
}

TEST(BadInput, FilesThatCannotBeReadSayWhy) {
  const auto missing = load_scenario("no/such/job.yaml");
  ASSERT_FALSE(missing);
  EXPECT_EQ(to_text(missing.error()),
            "no/such/job.yaml: error: cannot be opened: No such file or directory\n"
            "1 error; nothing was run\n");
  const auto folder = load_scenario("scenarios");
  ASSERT_FALSE(folder);
  EXPECT_EQ(to_text(folder.error()),
            "scenarios: error: is a directory, not a file\n"
            "1 error; nothing was run\n");
}

}  // namespace
}  // namespace megatwin::scenarios
