#include "cli/command_line.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/cli/fake_world.h"
#include "tests/temporary_folder.h"

namespace megatwin::cli {
namespace {

struct Outcome {
  int code = 0;
  std::string out, err;
};

Outcome run(const std::vector<std::string>& words) {
  std::ostringstream out;
  std::ostringstream err;
  Console console{.out = out, .err = err};
  const int code = run_command_line(words, tests::FakeWorld(), console);
  return {code, out.str(), err.str()};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class CommandLine : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }

 private:
  tests::TemporaryFolder folder_;
};

TEST_F(CommandLine, AnswersWithZero) {
  const Outcome outcome = run({"simulate", "a.yaml"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.out, "8.42 s")) << outcome.out;
  EXPECT_EQ(outcome.err, "");
}

TEST_F(CommandLine, RefusesWithOne) {
  const Outcome outcome = run({"simulate", "big.yaml"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(has(outcome.out, "does not fit")) << outcome.out;
}

TEST_F(CommandLine, BadFilesGiveTwoAndEveryFault) {
  const Outcome outcome = run({"simulate", "bad.yaml", "a.yaml", "--json"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(has(outcome.err, "bad.yaml:3: error: plan.tensr: unknown key")) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "2 errors; nothing was run")) << outcome.err;
}

TEST_F(CommandLine, DiagnosticsForMachinesAreJsonOnStderr) {
  const Outcome outcome = run({"simulate", "bad.yaml", "--diagnostics=json"});
  rapidjson::Document json;
  json.Parse(outcome.err.c_str());
  ASSERT_FALSE(json.HasParseError()) << outcome.err;
  EXPECT_EQ(json["diagnostics"].Size(), 2U);
}

TEST_F(CommandLine, SweepBecomesRunsInJsonAndAScalingTableInText) {
  rapidjson::Document json;
  json.Parse(run({"simulate", "a.yaml", "--sweep", "gpus=512,1024", "--json"}).out.c_str());
  ASSERT_FALSE(json.HasParseError());
  EXPECT_EQ(json["runs"].Size(), 2U);
  EXPECT_STREQ(json["runs"][1]["name"].GetString(), "a.yaml gpus=1024");
  const Outcome outcome = run({"simulate", "a.yaml", "--sweep", "gpus=512,1024"});
  EXPECT_TRUE(has(outcome.out, "Strong scaling")) << outcome.out;
}

TEST_F(CommandLine, OneAnswerAmongRefusalsIsAnAnswer) {
  const Outcome outcome = run({"simulate", "a.yaml", "big.yaml"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(has(outcome.out, "big.yaml: does not fit")) << outcome.out;
}

TEST_F(CommandLine, WritesHtmlAndTraceIntoNewFolders) {
  const Outcome outcome = run(
      {"simulate", "a.yaml", "--html", path("new/a.html"), "--trace", path("new/a.trace.json")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(has(read(path("new/a.html")), "Pipeline timeline"));
  EXPECT_TRUE(has(read(path("new/a.trace.json")), "traceEvents"));
}

TEST_F(CommandLine, TraceOfASweepIsRefused) {
  const Outcome outcome =
      run({"simulate", "a.yaml", "--sweep", "gpus=8,16", "--trace", path("a.json")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(has(outcome.err, "2 runs have no common timeline")) << outcome.err;
}

TEST_F(CommandLine, OutputsOverwriteNothing) {
  Outcome outcome = run({"simulate", "a.yaml", "--html", "./a.yaml"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(has(outcome.err, "--html: error: './a.yaml' would overwrite a.yaml")) << outcome.err;
  outcome = run({"simulate", "a.yaml", "--html", path("x"), "--trace", path("x")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(has(outcome.err, "would overwrite the file of --html")) << outcome.err;
}

// An empty name read as if the option were not there, and the file was not written.
TEST_F(CommandLine, EmptyNamesOfFilesAreRefused) {
  const std::vector<std::vector<std::string>> lines = {
      {"simulate", "a.yaml", "--html", ""},   {"simulate", "a.yaml", "--trace", ""},
      {"simulate", "a.yaml", "--replay", ""}, {"search", "a.yaml", "--store", ""},
      {"search", "a.yaml", "--export", ""},   {"plan", "a.yaml", "--html", ""},
      {"train", "a.yaml", "--log", ""},       {"train", "a.yaml", "--trace", ""},
      {"train", "a.yaml", "--from", ""},      {"topology", "show", "a.yaml", "--svg", ""}};
  for (const std::vector<std::string>& words : lines) {
    const Outcome outcome = run(words);
    const std::string& option = words[words.size() - 2];
    EXPECT_EQ(outcome.code, 2) << option;
    EXPECT_EQ(outcome.out, "") << option;
    EXPECT_TRUE(has(outcome.err, option + ": has an empty value; allowed: a name")) << outcome.err;
  }
}

// It stands for a key, but the user wrote an option.
TEST_F(CommandLine, PoliciesAreRefusedByTheNameOfTheirOption) {
  Outcome outcome = run({"simulate", "a.yaml", "--policy", ""});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(has(outcome.err,
                  "--policy: has an empty value; allowed: a library, my_policy.so, or "
                  "gpipe, 1f1b, interleaved, "))
      << outcome.err;
  outcome = run({"simulate", "a.yaml", "--policy", "gpip"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(has(outcome.err, "--policy: unknown schedule 'gpip'")) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "did you mean 'gpipe'?")) << outcome.err;
}

// The kind is told by the first character, which was the mark's.
TEST_F(CommandLine, ImportsWhatBeginsWithAByteOrderMark) {
  std::ofstream(path("gpt2.json"), std::ios::binary)
      << "\xEF\xBB\xBF{\"model_type\": \"gpt2\", \"n_embd\": 768,\r\n \"n_head\": 12, "
         "\"n_layer\": 12, \"n_positions\": 1024, \"vocab_size\": 50257}\r\n";
  const Outcome outcome = run({"import", path("gpt2.json")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.out, "124,439,808")) << outcome.out;
}

// Every command's own file, too.
TEST_F(CommandLine, AnEmptyNameOfTheFileIsRefused) {
  for (const char* command : {"simulate", "search", "plan", "train", "validate", "import"}) {
    const Outcome outcome = run({command, ""});
    EXPECT_EQ(outcome.code, 2) << command;
    EXPECT_TRUE(has(outcome.err, "has an empty value; allowed: a name")) << command << outcome.err;
  }
}

// As the scenario's key takes it.
TEST_F(CommandLine, AMarginMayBeInPercent) {
  const auto err = [&](const char* margin) {
    return run({"search", "none-such.yaml", "--memory-margin", margin}).err;
  };
  EXPECT_FALSE(has(err("5 %"), "margin")) << err("5 %");
  EXPECT_FALSE(has(err("0.05"), "margin")) << err("0.05");
  EXPECT_TRUE(has(err("100 %"), "--memory-margin: error: is no share")) << err("100 %");
  EXPECT_TRUE(has(err("5 GB"), "--memory-margin")) << err("5 GB");
  EXPECT_TRUE(has(err("150 %"), "'150 %' is no share of the memory")) << err("150 %");
}

// A record is no description; the command that reads it is named.
TEST_F(CommandLine, ImportSendsALogOfNcclTestsToValidate) {
  std::ofstream(path("all_reduce.log")) << "#                          out-of-place\n"
                                           "#   size  count  type  time  algbw  busbw\n"
                                           "    1024    256 float  25.1   0.04   0.07\n";
  const Outcome outcome = run({"import", path("all_reduce.log")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(has(outcome.err, "megatwin validate FILE")) << outcome.err;
}

TEST_F(CommandLine, HelpShowsExamplesOfItsOwnCommand) {
  for (const char* command : {"validate", "import", "topology", "doctor"}) {
    const Outcome help = run({command, "--help"});
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_FALSE(has(help.out, "megatwin simulate ")) << help.out;
  }
  EXPECT_TRUE(has(run({"import", "--help"}).out, "megatwin import "));
}

TEST_F(CommandLine, AFullDiskGivesThree) {
  const Outcome outcome = run({"simulate", "a.yaml", "--html", "/dev/full"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_TRUE(has(outcome.err, "cannot write '/dev/full'")) << outcome.err;
}

TEST_F(CommandLine, UnknownCommandsAndOptionsSayWhatThereIs) {
  Outcome outcome = run({"simulat", "a.yaml"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(has(outcome.err, "unknown command 'simulat'")) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "did you mean 'simulate'")) << outcome.err;
  outcome = run({"simulate", "a.yaml", "--jsn"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(has(outcome.err, "unknown option '--jsn' of simulate")) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "did you mean '--json'")) << outcome.err;
  EXPECT_EQ(run({}).code, 2);
  EXPECT_EQ(run({"simulate"}).code, 2);
  EXPECT_EQ(run({"--frobnicate"}).code, 2);
}

TEST_F(CommandLine, BadValuesOfOptionsGiveTwo) {
  EXPECT_EQ(run({"simulate", "a.yaml", "--engine", "warp"}).code, 2);
  const Outcome outcome = run({"simulate", "a.yaml", "--without", "tensr,wave"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(has(outcome.err, "did you mean 'tensor'")) << outcome.err;
}

TEST_F(CommandLine, HelpAndVersionAreAnswers) {
  const Outcome help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_TRUE(has(help.out, "Examples:")) << help.out;
  const Outcome version = run({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out.rfind("megatwin ", 0), 0U) << version.out;
  EXPECT_TRUE(has(run({"simulate", "--help"}).out, "--sweep"));
}

TEST_F(CommandLine, DoctorNamesTheCompiler) {
  const Outcome outcome = run({"doctor", "--json"});
  rapidjson::Document json;
  json.Parse(outcome.out.c_str());
  ASSERT_FALSE(json.HasParseError()) << outcome.out;
  EXPECT_STREQ(json["findings"][0]["name"].GetString(), "C++ compiler");
}

}  // namespace
}  // namespace megatwin::cli
