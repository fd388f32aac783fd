// Whole reports against files: nothing moves unseen. A golden says that a result did not move,
// never that it is right. After a change that is meant:
//   MEGATWIN_UPDATE_GOLDENS=1 build/release/tests/golden/golden_test
// and the commit says under "Changed results" in CHANGELOG.md what moved, and why.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/command_line.h"
#include "cli/real_world.h"
#include "cli/report/json_report.h"
#include "cli/report/terminal_report.h"
#include "tests/cli/report_fixture.h"

namespace megatwin {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Tests run in the root of the tree.
void expect_golden(const std::string& name, const std::string& text) {
  const fs::path path = fs::path("tests/golden") / (name + ".txt");
  if (std::getenv("MEGATWIN_UPDATE_GOLDENS") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  EXPECT_TRUE(text == read(path)) << path << " moved; it is now:\n" << text;
}

TEST(Golden, TerminalReport) {
  expect_golden("terminal_report",
                cli::terminal_report(tests::report_fixture(), {.explain = true}));
}

TEST(Golden, TerminalComparison) {
  const std::vector<sim::SimulationReport> reports = {tests::scaled_report(512),
                                                      tests::scaled_report(1024)};
  expect_golden("terminal_comparison", cli::terminal_comparison(reports));
}

TEST(Golden, TerminalRefusal) {
  expect_golden("terminal_refusal", cli::terminal_refusal(tests::refusal_fixture()));
}

TEST(Golden, JsonReport) {
  sim::SimulationReport report = tests::report_fixture();
  const std::vector<cli::NamedAnswer> answers = {{report.name, report}};
  expect_golden("json_report", cli::json_answers(answers));
}

std::vector<std::string> shipped_scenarios() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator("scenarios")) {
    const bool yaml = entry.path().extension() == ".yaml";
    if (yaml && entry.path().filename() != "zoo.yaml")
      names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Every shipped scenario loads and simulates; its report is held.
TEST(Golden, ShippedScenarios) {
  const cli::RealWorld world;
  ASSERT_FALSE(shipped_scenarios().empty());
  for (const std::string& name : shipped_scenarios()) {
    std::ostringstream out;
    std::ostringstream err;
    cli::Console console{.out = out, .err = err};
    const int code =
        cli::run_command_line({"simulate", "scenarios/" + name + ".yaml"}, world, console);
    EXPECT_EQ(code, cli::kExitAnswer) << name << ": " << out.str() << err.str();
    EXPECT_EQ(err.str(), "") << name;
    expect_golden("scenario_" + name, out.str());
  }
}

// The same twice, and in one process or another: byte for byte.
TEST(Golden, IsTheSameTwice) {
  const cli::RealWorld world;
  std::vector<std::string> outputs;
  for (int i = 0; i < 2; ++i) {
    std::ostringstream out;
    cli::Console console{.out = out, .err = out};
    cli::run_command_line({"simulate", "scenarios/llama-3.1-70b-h100.yaml", "--json", "--explain"},
                          world, console);
    outputs.push_back(out.str());
  }
  EXPECT_EQ(outputs[0], outputs[1]);
}

}  // namespace
}  // namespace megatwin
