// `megatwin simulate --sweep` from the command line on: points that are illegal, do not fit or are
// no scenario beside points that run.
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

class SweepCommand : public testing::Test {
 protected:
  struct Outcome {
    int code = 0;
    std::string out, err;
  };
  // Four experts on two machines whose second one has a slow GPU; a table of tokens of four ranks.
  Outcome run(const std::vector<std::string>& sweeps) const {
    const std::string file = folder_.path("job.yaml");
    std::ofstream(file) << "name: job\nmodel: {name: mixtral-8x7b, num_layers: 4}\n"
                           "cluster: {nodes: [{type: dgx-h100, count: 2}]}\n"
                           "plan: {expert: 4, global_batch: 32}\n"
                           "disturbances:\n"
                           "  - {kind: slow-gpu, gpu: n1/gpu3, factor: 2}\n"
                           "  - {kind: expert-imbalance, tokens: [[2, 1, 1, 1], [2, 1, 1, 1], "
                           "[2, 1, 1, 1], [2, 1, 1, 1]]}\n";
    std::vector<std::string> words = {"simulate", file, "--json"};
    for (const std::string& sweep : sweeps) words.insert(words.end(), {"--sweep", sweep});
    std::ostringstream out, err;
    Console console{.out = out, .err = err};
    const int code = run_command_line(words, RealWorld(), console);
    return {code, out.str(), err.str()};
  }
  tests::TemporaryFolder folder_;
};

TEST_F(SweepCommand, EveryPointIsARunInItsPlace) {
  const Outcome outcome = run({"plan.expert=8,4,x", "plan.tensor=1,3"});
  EXPECT_EQ(outcome.code, kExitAnswer) << outcome.err;
  rapidjson::Document json;
  json.Parse(outcome.out.c_str());
  ASSERT_FALSE(json.HasParseError()) << outcome.out;
  const auto& runs = json["runs"];
  ASSERT_EQ(runs.Size(), 6U);
  const std::vector<std::string> names = {
      "job plan.expert=8 plan.tensor=1", "job plan.expert=8 plan.tensor=3",
      "job plan.expert=4 plan.tensor=1", "job plan.expert=4 plan.tensor=3",
      "job plan.expert=x plan.tensor=1", "job plan.expert=x plan.tensor=3"};
  const std::vector<std::string> codes = {
      "unreadable_point", "unreadable_point", "",
      "illegal_plan",     "unreadable_point", "unreadable_point"};
  for (unsigned i = 0; i < 6; ++i) {
    EXPECT_EQ(runs[i]["name"].GetString(), names[i]);
    ASSERT_EQ(runs[i].HasMember("error"), !codes[i].empty()) << names[i];
    if (codes[i].empty()) continue;
    EXPECT_EQ(runs[i]["error"]["code"].GetString(), codes[i]) << names[i];
  }
  EXPECT_STREQ(runs[0]["error"]["message"].GetString(),
               "the scenario with plan.expert=8 plan.tensor=1 is none");
  const std::string reason = runs[0]["error"]["reasons"][0].GetString();
  EXPECT_NE(reason.find("job.yaml:7: disturbances[1].tokens: is a table of 4 × 4"),
            std::string::npos)
      << reason;
}

TEST_F(SweepCommand, TheCodeSaysWhetherAnyPointRan) {
  // One machine alone has no second one.
  EXPECT_EQ(run({"cluster.nodes[0].count=1,2"}).code, kExitAnswer);
  EXPECT_EQ(run({"cluster.nodes[0].count=1,2", "plan.tensor=3"}).code, kExitRefused);
  const Outcome none = run({"cluster.nodes[0].count=1,zero", "plan.expert=8,4"});
  EXPECT_EQ(none.code, kExitBadInput);
  EXPECT_TRUE(none.out.empty()) << none.out;
  for (const char* fault : {"no part 'n1/gpu3'\n", "'zero' is not a whole number\n",
                            "(with cluster.nodes[0].count=1 plan.expert=8)\n"}) {
    const std::size_t place = none.err.find(fault);
    EXPECT_NE(place, std::string::npos) << none.err;
    EXPECT_EQ(none.err.find(fault, place + 1), std::string::npos) << none.err;
  }
}

}  // namespace
}  // namespace megatwin::cli
