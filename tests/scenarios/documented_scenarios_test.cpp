// What the documents show is read: every block of YAML that is a scenario, and every key of a plan
// must be explained.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "scenarios/plan_reader.h"
#include "scenarios/scenario.h"

namespace megatwin::scenarios {
namespace {

std::string text_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::vector<std::string> yaml_blocks(const std::string& text) {
  const std::string open = "```yaml\n";
  std::vector<std::string> blocks;
  for (std::size_t at = text.find(open); at != std::string::npos; at = text.find(open, at)) {
    at += open.size();
    const std::size_t end = text.find("```", at);
    blocks.push_back(text.substr(at, end - at));
  }
  return blocks;
}

TEST(DocumentedScenarios, AreRead) {
  int scenarios_read = 0;
  for (const auto& entry : std::filesystem::directory_iterator("docs")) {
    const std::string file = entry.path().string();
    if (!file.ends_with(".md")) continue;
    for (const std::string& block : yaml_blocks(text_of(file))) {
      const bool whole =
          block.find("model:") != std::string::npos && block.find("cluster:") != std::string::npos;
      if (!whole) continue;
      const auto scenario = parse_scenario("docs/example.yaml", block);
      EXPECT_TRUE(scenario) << file << "\n" << block << to_text(scenario.error());
      ++scenarios_read;
    }
  }
  EXPECT_GE(scenarios_read, 4);
}

TEST(DocumentedScenarios, ReferenceNamesEveryKeyOfAPlan) {
  const std::string text = text_of("docs/scenario-reference.md");
  for (const std::string& key : plan_keys()) {
    EXPECT_NE(text.find("`" + key + "`"), std::string::npos) << key;
  }
}

}  // namespace
}  // namespace megatwin::scenarios
