// Every input that a fuzzer once found interesting, in every build. A crash prints the file's name
// first, so that it can be run alone.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/fuzz/fuzz_targets.h"

namespace megatwin::fuzz {
namespace {

void replay(const std::string& target, void (*function)(std::string_view)) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("tests/fuzz/corpus/" + target)) {
    files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  ASSERT_FALSE(files.empty());
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    function(text.str());
  }
}

TEST(ReplayCorpus, Scenario) { replay("scenario", scenario); }
TEST(ReplayCorpus, Quantity) { replay("quantity", quantity); }
TEST(ReplayCorpus, HfConfig) { replay("hf_config", hf_config); }
TEST(ReplayCorpus, Launch) { replay("launch", launch); }
TEST(ReplayCorpus, MeasuredRows) { replay("measured_rows", measured_rows); }
TEST(ReplayCorpus, OperationRows) { replay("operation_rows", operation_rows); }
TEST(ReplayCorpus, ClusterDescriptions) { replay("cluster_descriptions", cluster_descriptions); }

}  // namespace
}  // namespace megatwin::fuzz
