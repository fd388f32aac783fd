// `megatwin plan` and `megatwin search` from the command line on: exit codes, JSON and text, over
// the real model.
#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "cli/command_line.h"
#include "tests/cli/fake_world.h"
#include "tests/temporary_folder.h"

namespace megatwin::cli {
namespace {

constexpr const char* kJob =
    "name: small\n"
    "model: {name: gpt-3.6b, sequence_length: 2048}\n"
    "cluster: {nodes: [{type: dgx-a100-80g, count: 2, price_per_hour: 30 USD/h}]}\n"
    "software: {framework: megatron-core}\n"
    "plan: {tensor: 1, data: auto, micro_batch: 1, global_batch: 64, zero: 1}\n"
    "search: {tensor: [1, 2], pipeline: [1, 2], context: [1], model_chunks: [1, 2],\n"
    "         recompute: [none, full], zero: [1], micro_batch: [1, 2]}\n";

class PurchaseCommands : public testing::Test {
 protected:
  struct Outcome {
    int code = 0;
    std::string out, err;
  };

  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path(name)) << text;
    return folder_.path(name);
  }
  std::string path(const std::string& name) const { return folder_.path(name); }

  // Deadlines are of the tests' 1e9 tokens.
  std::string planned(const std::string& name, const std::string& limits) const {
    return file(name, kJob + std::string("target: {tokens: 1e9") + limits + "}\n");
  }

  static Outcome run(const std::vector<std::string>& words) {
    std::ostringstream out, err;
    Console console{.out = out, .err = err};
    const int code = run_command_line(words, tests::FakeWorld(), console);
    return {code, out.str(), err.str()};
  }
  static rapidjson::Document json(const Outcome& outcome) {
    rapidjson::Document document;
    document.Parse(outcome.out.c_str());
    EXPECT_FALSE(document.HasParseError()) << outcome.out << outcome.err;
    return document;
  }

 private:
  tests::TemporaryFolder folder_;
};

TEST_F(PurchaseCommands, PlanTakesTheCheapestThatKeepsTheDeadline) {
  const Outcome outcome = run({"plan", planned("job.yaml", ", deadline: 5 d"), "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto answer = json(outcome);
  ASSERT_TRUE(answer.HasMember("choice"));
  const auto& choice = answer["choice"];
  EXPECT_LE(choice["duration_s"].GetDouble(), 5 * 86400.0);
  EXPECT_GT(answer["options"].Size(), 1U);
  for (const auto& option : answer["options"].GetArray()) {
    // Two machines are too few to see more of them stop paying.
    EXPECT_FALSE(option["is_knee"].GetBool());
    if (option["duration_s"].GetDouble() > 5 * 86400.0) continue;
    EXPECT_GE(option["cost_usd"].GetDouble(), choice["cost_usd"].GetDouble());
  }
  const Outcome text = run({"plan", path("job.yaml"), "--html", path("plan.html")});
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.out.find("cost      $"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("no knee yet"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("What holds the MFU up (FLOP counted as model FLOP, causal attention"),
            std::string::npos)
      << text.out;
  ASSERT_GE(answer["mfu_explained"].Size(), 1U);
  EXPECT_EQ(answer["mfu_explained"][0]["planned"].GetDouble(), choice["mfu"].GetDouble());
  EXPECT_TRUE(std::ifstream(path("plan.html")).good());
}

TEST_F(PurchaseCommands, PlanSaysWhatToRelaxWithOne) {
  const Outcome outcome = run({"plan", planned("job.yaml", ", deadline: 1 h"), "--json"});
  EXPECT_EQ(outcome.code, 1);
  const auto answer = json(outcome);
  EXPECT_FALSE(answer.HasMember("choice"));
  ASSERT_TRUE(answer.HasMember("error"));
  const auto& relax = answer["error"]["relax"];
  ASSERT_GE(relax.Size(), 1U);
  EXPECT_STREQ(relax[0]["limit"].GetString(), "deadline");
  EXPECT_GT(relax[0]["needed"].GetDouble(), relax[0]["allowed"].GetDouble());
  EXPECT_EQ(run({"plan", path("job.yaml")}).code, 1);
}

TEST_F(PurchaseCommands, PlanWithoutATargetIsBadInput) {
  const Outcome outcome = run({"plan", file("job.yaml", kJob)});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("target: is missing"), std::string::npos) << outcome.err;
  const Outcome page =
      run({"plan", planned("a.yaml", ""), planned("b.yaml", ""), "--html", path("both.html")});
  EXPECT_EQ(page.code, 2);
  EXPECT_NE(page.err.find("no page"), std::string::npos) << page.err;
}

// Two machines of each kind in one job: what is told is what simulate says of that cluster and
// plan, a run's money is that of both kinds, and a mix is chosen only when it beats a single kind.
TEST_F(PurchaseCommands, PlanTriesTwoKindsInOneJob) {
  const std::string offers =
      ", deadline: 30 d, machines: [{type: dgx-h100, max: 2, price_per_hour: 80 USD/h},"
      " {type: dgx-a100-80g, max: 2, price_per_hour: 30 USD/h}]";
  const Outcome outcome = run({"plan", planned("job.yaml", offers), "--mixes", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto answer = json(outcome);
  ASSERT_EQ(answer["mixes"].Size(), 4U);
  double slowest_alone = 0, fastest_alone = 1e9;
  for (const auto& option : answer["options"].GetArray()) {
    if (option["machines"].GetInt() != 2) continue;
    slowest_alone = std::max(slowest_alone, option["step_time_s"].GetDouble());
    fastest_alone = std::min(fastest_alone, option["step_time_s"].GetDouble());
  }
  int best = 0;
  for (const auto& mix : answer["mixes"].GetArray()) {
    double hourly = 0;
    int machines = 0;
    for (const auto& part : mix["parts"].GetArray()) {
      const bool h100 = std::string(part["node"].GetString()) == "dgx-h100";
      hourly += part["machines"].GetInt() * (h100 ? 80 : 30);
      machines += part["machines"].GetInt();
    }
    EXPECT_EQ(mix["gpus"].GetInt(), 8 * machines);
    const double hours = mix["duration_s"].GetDouble() / 3600;
    const double spares = mix["spares"].GetInt() * hourly / machines;
    EXPECT_NEAR(mix["cost_usd"].GetDouble(), hours * (hourly + spares), 1e-6 * hours * hourly);
    if (mix["is_best"].GetBool()) ++best;
    if (machines < 4) continue;
    // Both kinds together are faster than the slower one alone.
    EXPECT_LT(mix["step_time_s"].GetDouble(), slowest_alone);
    EXPECT_GT(mix["step_time_s"].GetDouble(), 0.5 * fastest_alone);
  }
  EXPECT_LE(best, 1);
  const Outcome text = run({"plan", path("job.yaml"), "--mixes"});
  EXPECT_NE(text.out.find("Two kinds of machines in one job"), std::string::npos);
  EXPECT_EQ(run({"plan", path("job.yaml"), path("job.yaml"), "--mixes"}).code, 2);
  EXPECT_FALSE(json(run({"plan", path("job.yaml"), "--json"})).HasMember("mixes"));
  // What the file's search allows holds for mixes as well.
  const Outcome limited =
      run({"plan", path("job.yaml"), "--mixes", "--json", "--set", "search.tensor=[2]"});
  const auto sizes = json(limited);
  ASSERT_GT(sizes["mixes"].Size(), 0U) << limited.err;
  for (const auto& mix : sizes["mixes"].GetArray()) {
    EXPECT_EQ(mix["plan"]["tensor"].GetInt(), 2);
  }
}

TEST_F(PurchaseCommands, TwoRunsShareTheClusterOfTheFirst) {
  const Outcome outcome = run({"plan", planned("a.yaml", ", deadline: 30 d"),
                               planned("b.yaml", ", deadline: 60 d"), "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto answer = json(outcome);
  EXPECT_EQ(answer["machines"].GetInt(), 2);
  const auto& ways = answer["ways"];
  ASSERT_EQ(ways.Size(), 2U);
  for (const auto& way : ways.GetArray()) {
    int machines = 0;
    double end = 0;
    for (const auto& part : way["runs"].GetArray()) {
      machines += part["machines"].GetInt();
      end = std::max(end, part["end_s"].GetDouble());
      EXPECT_EQ(part["late_s"].GetDouble(), 0);
    }
    EXPECT_EQ(way["makespan_s"].GetDouble(), end);
    EXPECT_TRUE(machines <= 2 || !way["side_by_side"].GetBool());
  }
  const Outcome late = run({"plan", path("a.yaml"), planned("b.yaml", ", deadline: 1 h")});
  EXPECT_EQ(late.code, 1) << late.out;
}

TEST_F(PurchaseCommands, SearchSaysWhatAnotherClusterWouldBuy) {
  const Outcome outcome = run({"search", file("job.yaml", kJob), "--what-if", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto answer = json(outcome);
  const double now = answer["best"][0]["step_time_s"].GetDouble();
  ASSERT_EQ(answer["what_if"].Size(), 5U);
  for (const auto& change : answer["what_if"].GetArray()) {
    if (!change["fits"].GetBool()) continue;
    const std::string what = change["change"].GetString();
    const bool machines = what.find("machine") != std::string::npos;
    EXPECT_EQ(change["gpus"].GetInt() > 16, machines) << what;
    // The same plans on better parts; three machines may divide badly.
    if (what == "one machine more") continue;
    EXPECT_LE(change["step_time_s"].GetDouble(), now) << what;
  }
  const auto& evaluated = answer["evaluated"];
  EXPECT_LE(evaluated["of_fitting"].GetInt64(), answer["fit"].GetInt64());
  const Outcome text = run({"search", path("job.yaml"), "--what-if"});
  EXPECT_NE(text.out.find(" of them fit, " + std::to_string(evaluated["of_fitting"].GetInt64()) +
                          " of those evaluated in full"),
            std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("evaluated besides: the file's own plan, "), std::string::npos);
  EXPECT_NE(text.out.find("What another cluster would buy"), std::string::npos);
  EXPECT_NE(text.out.find("Front of time, memory, energy and cost"), std::string::npos);
  EXPECT_FALSE(answer.HasMember("error"));
  for (const auto& point : answer["pareto"].GetArray()) {
    EXPECT_GT(point["energy_j_per_step"].GetDouble(), 0);
    EXPECT_NEAR(point["cost_usd_per_step"].GetDouble(),
                60.0 / 3600 * point["step_time_s"].GetDouble(), 1e-9);
  }
}

TEST_F(PurchaseCommands, SearchSaysWhatOfAFileItLeavesOut) {
  const std::string dynamic = kJob + std::string("policy: {schedule: dpp}\n");
  const Outcome outcome =
      run({"search", file("job.yaml", dynamic), "--json", "--set", "search.schedule=[1f1b]"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto answer = json(outcome);
  ASSERT_GE(answer["not_searched"].Size(), 1U);
  EXPECT_NE(std::string(answer["not_searched"][0].GetString()).find("dpp"), std::string::npos);
  EXPECT_EQ(json(run({"search", file("plain.yaml", kJob), "--json"}))["not_searched"].Size(), 0U);
  const Outcome text = run({"search", path("job.yaml")});
  EXPECT_NE(text.out.find("not searched: policy.schedule dpp"), std::string::npos) << text.out;
}

TEST_F(PurchaseCommands, AKeyThatSearchDoesNotVaryIsBadInput) {
  const Outcome outcome =
      run({"search", file("job.yaml", kJob), "--set", "search.issue_depth=[1, 2]"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("issue_depth"), std::string::npos) << outcome.err;
  const Outcome order = run({"search", path("job.yaml"), "--set", "search.rank_order=[tp-dp-pp]"});
  EXPECT_EQ(order.code, 2);
  EXPECT_NE(order.err.find("search.rank_order"), std::string::npos) << order.err;
}

}  // namespace
}  // namespace megatwin::cli
