#include "cli/report/perfetto_trace.h"

#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/cli/report_fixture.h"

namespace megatwin::cli {
namespace {

rapidjson::Document trace_of(const sim::SimulationReport& report) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseFullPrecisionFlag>(perfetto_trace(report).c_str());
  EXPECT_FALSE(document.HasParseError());
  return document;
}

std::map<std::string, int> count_by_phase(const rapidjson::Document& trace) {
  std::map<std::string, int> counts;
  for (const auto& event : trace["traceEvents"].GetArray()) ++counts[event["ph"].GetString()];
  return counts;
}

TEST(PerfettoTrace, HasOneSpanARecord) {
  const sim::SimulationReport report = tests::report_fixture();
  auto counts = count_by_phase(trace_of(report));
  EXPECT_EQ(counts["X"], static_cast<int>(report.timeline.size()));
}

TEST(PerfettoTrace, EveryTransferHasItsArrow) {
  // 4 stages × 5 chunks pass 16 micro-batches over 19 boundaries, there and back: 608 transfers.
  auto counts = count_by_phase(trace_of(tests::report_fixture()));
  EXPECT_EQ(counts["s"], 608);
  EXPECT_EQ(counts["f"], 608);
}

TEST(PerfettoTrace, NamesProcessesAndThreads) {
  const rapidjson::Document trace = trace_of(tests::report_fixture());
  std::set<std::string> names;
  for (const auto& event : trace["traceEvents"].GetArray()) {
    if (event["ph"].GetString()[0] != 'M' || !event["args"].HasMember("name")) continue;
    names.insert(event["args"]["name"].GetString());
  }
  EXPECT_EQ(names,
            (std::set<std::string>{"stage 0", "stage 1", "stage 2", "stage 3", "compute",
                                   "send activations", "send gradients", "data-parallel traffic"}));
}

TEST(PerfettoTrace, NamesSideAndStageOfADecoupledPlan) {
  model::Plan plan;
  plan.pipeline = 2;
  EXPECT_EQ(rank_text(plan, 2, 1), "stage 1");
  EXPECT_EQ(rank_text(plan, 4, 3), "stage 1, alike replicas 1");
  plan.data = 3;
  EXPECT_EQ(rank_text(plan, 6, 3), "stage 1, replica 1");
  EXPECT_EQ(rank_text(plan, 4, 3), "stage 1, alike replicas 1");
  plan.pipeline = 1;
  EXPECT_EQ(rank_text(plan, 3, 2), "replica 2");
  plan.pipeline = 2;
  plan.data = 1;
  plan.schedule = model::ScheduleKind::Decoupled;
  EXPECT_EQ(rank_text(plan, 4, 1), "forward stage 1");
  EXPECT_EQ(rank_text(plan, 4, 2), "backward stage 0");
  EXPECT_EQ(rank_text(plan, 8, 2), "rank 2");  // Of larger groups.
  plan.decoupled.backward.instances = 2;
  EXPECT_EQ(rank_text(plan, 6, 5), "backward stage 1 of instance 1");
}

TEST(PerfettoTrace, TimesAreMicrosecondsToTheNanosecond) {
  sim::SimulationReport report = tests::report_fixture();
  report.timeline = {
      {{0}, model::Lane::Compute, model::EventKind::Forward, {7}, {2}, {1'000'001}, {2'500'000}}};
  const std::string text = perfetto_trace(report);
  EXPECT_NE(text.find("\"ts\":1000.001,\"dur\":1499.999"), std::string::npos) << text;
  EXPECT_NE(text.find("\"name\":\"forward 7.2\""), std::string::npos) << text;
  EXPECT_NE(text.find("\"micro_batch\":7,\"chunk\":2"), std::string::npos) << text;
}

TEST(PerfettoTrace, ArrowsFollowTheVOfZeroBubble) {
  sim::SimulationReport report = tests::report_fixture();
  report.plan.pipeline = 2;
  report.plan.schedule = model::ScheduleKind::ZeroBubbleV;
  using model::EventKind;
  using model::Lane;
  // Chunk 1 runs from the last rank back to the first.
  report.timeline = {
      {{1}, Lane::SendForward, EventKind::SendActivation, {0}, {1}, {10}, {20}},
      {{0}, Lane::Compute, EventKind::Forward, {0}, {1}, {20}, {30}},
  };
  EXPECT_EQ(count_by_phase(trace_of(report))["f"], 1);
}

// Rows 2 and 3 are the stages of the second replica.
TEST(PerfettoTrace, ArrowsStayInTheirReplica) {
  sim::SimulationReport report = tests::report_fixture();
  report.plan.pipeline = report.plan.data = 2;
  using model::EventKind;
  using model::Lane;
  report.timeline = {
      {{0}, Lane::Compute, EventKind::Forward, {0}, {1}, {20}, {30}},
      {{2}, Lane::SendForward, EventKind::SendActivation, {0}, {0}, {10}, {20}},
      {{3}, Lane::Compute, EventKind::Forward, {0}, {0}, {20}, {30}},
      {{3}, Lane::SendForward, EventKind::SendActivation, {1}, {0}, {30}, {40}},
  };
  EXPECT_EQ(count_by_phase(trace_of(report))["f"], 1);
}

}  // namespace
}  // namespace megatwin::cli
