#include "cli/report/json_report.h"

#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/cli/report_fixture.h"

namespace megatwin::cli {
namespace {

using tests::refusal_fixture;
using tests::report_fixture;

rapidjson::Document parse(const std::string& text) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseFullPrecisionFlag>(text.c_str());
  EXPECT_FALSE(document.HasParseError()) << text;
  return document;
}

TEST(JsonReport, HasEveryKeyOfTheContract) {
  const std::vector<NamedAnswer> answers = {{"a", report_fixture()}};
  const rapidjson::Document json = parse(json_answers(answers));
  for (const char* key : {"step_time_s",
                          "step_time_band_s",
                          "tokens_per_s",
                          "tokens_per_s_per_gpu",
                          "model_flop_per_step",
                          "model_tflops_per_gpu",
                          "mfu",
                          "hfu",
                          "flop_convention",
                          "bubble_fraction",
                          "breakdown_s",
                          "memory",
                          "parameters",
                          "gpus",
                          "ranks_simulated",
                          "events",
                          "engine",
                          "network",
                          "assumptions",
                          "warnings"}) {
    EXPECT_TRUE(json.HasMember(key)) << key;
  }
  for (const char* key : {"compute", "exposed_tp", "exposed_pp", "exposed_dp", "exposed_ep",
                          "exposed_cp", "bubble", "optimizer", "other"}) {
    EXPECT_TRUE(json["breakdown_s"].HasMember(key)) << key;
  }
  for (const char* key : {"stage", "peak_bytes", "parameters", "gradients", "optimizer",
                          "activations", "buffers", "overhead"}) {
    EXPECT_TRUE(json["memory"]["ranks"][0].HasMember(key)) << key;
  }
  for (const char* key : {"total", "active", "per_stage"}) {
    EXPECT_TRUE(json["parameters"].HasMember(key)) << key;
  }
}

// A line a stage where stages or replicas differ, and no such key elsewhere.
TEST(JsonReport, StagesThatDifferAreListed) {
  sim::SimulationReport report = report_fixture();
  const std::vector<NamedAnswer> plain = {{"a", report}};
  EXPECT_FALSE(parse(json_answers(plain)).HasMember("stages"));
  report.plan.micro_batches_per_replica = {5, 3};
  report.stages.push_back({.stage = 1,
                           .replica = 4,
                           .num_replicas = 2,
                           .gpu = "V100-SXM2-32GB",
                           .precision = "fp16",
                           .tensor = 8,
                           .layers = 5,
                           .micro_batches = 3,
                           .forward = {0.25},
                           .idle = 0.125});
  const std::vector<NamedAnswer> mixed = {{"a", report}};
  const rapidjson::Document json = parse(json_answers(mixed));
  const auto& stage = json["stages"][0];
  EXPECT_EQ(stage["replica"].GetInt(), 4);
  EXPECT_STREQ(stage["gpu"].GetString(), "V100-SXM2-32GB");
  EXPECT_EQ(stage["forward_s"].GetDouble(), 0.25);
  EXPECT_EQ(stage["idle_fraction"].GetDouble(), 0.125);
  EXPECT_EQ(json["plan"]["micro_batches_per_replica"][1].GetInt(), 3);
}

// ZeRO 3's gathers are inside tasks: links delay them while no flow of the step runs. The text
// named these links and JSON had no key for them.
TEST(JsonReport, LinksAreListedWhereverTheTextNamesThem) {
  sim::SimulationReport report = report_fixture();
  const std::vector<NamedAnswer> none = {{"a", report}};
  EXPECT_FALSE(parse(json_answers(none)).HasMember("links"));
  report.links.push_back({.link = "leaf0 -> spine1", .capacity = {25e9}, .num_users = 2});
  const std::vector<NamedAnswer> some = {{"a", report}};
  const rapidjson::Document json = parse(json_answers(some));
  ASSERT_TRUE(json.HasMember("links"));
  EXPECT_STREQ(json["links"][0]["link"].GetString(), "leaf0 -> spine1");
  EXPECT_EQ(json["links"][0]["capacity_bytes_per_s"].GetDouble(), 25e9);
  EXPECT_EQ(json["network_flows"].GetInt(), 0);
  EXPECT_EQ(json["network_closed_form"].GetInt(), 0);
}

TEST(JsonReport, NumbersAreTheReportsOwn) {
  const sim::SimulationReport report = report_fixture();
  const std::vector<NamedAnswer> answers = {{"a", report}};
  const rapidjson::Document json = parse(json_answers(answers));
  EXPECT_EQ(json["step_time_s"].GetDouble(), report.step_time.value);
  EXPECT_EQ(json["step_time_band_s"][1].GetDouble(), 8.93);
  EXPECT_DOUBLE_EQ(json["model_tflops_per_gpu"].GetDouble(), 426.1);
  EXPECT_EQ(json["parameters"]["total"].GetInt64(), 70'553'706'496);
  EXPECT_EQ(json["memory"]["peak_bytes"].GetDouble(), report.memory_peak.value);
  double sum = 0;
  for (const auto& part : json["breakdown_s"].GetObject()) sum += part.value.GetDouble();
  EXPECT_NEAR(sum, report.step_time.value, 1e-12);
}

TEST(JsonReport, SeveralRunsAreAListWithNames) {
  const std::vector<NamedAnswer> answers = {{"a.yaml", report_fixture()},
                                            {"b.yaml", refusal_fixture()}};
  const rapidjson::Document json = parse(json_answers(answers));
  ASSERT_EQ(json["runs"].Size(), 2U);
  EXPECT_STREQ(json["runs"][0]["name"].GetString(), "a.yaml");
  EXPECT_TRUE(json["runs"][1].HasMember("error"));
}

TEST(JsonReport, RefusalHoldsReasonsNearestAndNumbers) {
  const std::vector<NamedAnswer> answers = {{"a", refusal_fixture()}};
  const rapidjson::Document json = parse(json_answers(answers));
  EXPECT_STREQ(json["error"]["code"].GetString(), "does_not_fit");
  EXPECT_EQ(json["error"]["reasons"].Size(), 2U);
  EXPECT_STREQ(json["error"]["nearest"][0]["plan"]["recompute"].GetString(), "selective");
  EXPECT_FALSE(json["memory"]["fits"].GetBool());
}

TEST(JsonReport, IsTheSameTwice) {
  const std::vector<NamedAnswer> answers = {{"a", report_fixture()}};
  EXPECT_EQ(json_answers(answers), json_answers(answers));
}

TEST(JsonReport, DiagnosticsForMachines) {
  const model::Diagnostics diagnostics = {
      {.file = "a.yaml", .line = 3, .column = 5, .key = "plan.tensr", .message = "unknown key"}};
  const rapidjson::Document json = parse(json_diagnostics(diagnostics));
  EXPECT_STREQ(json["diagnostics"][0]["severity"].GetString(), "error");
  EXPECT_EQ(json["diagnostics"][0]["line"].GetInt(), 3);
}

}  // namespace
}  // namespace megatwin::cli
