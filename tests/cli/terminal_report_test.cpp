#include "cli/report/terminal_report.h"

#include <gtest/gtest.h>

#include "tests/cli/report_fixture.h"

namespace megatwin::cli {
namespace {

using tests::refusal_fixture;
using tests::report_fixture;
using tests::scaled_report;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(TerminalReport, SaysTheHeadlineWithUnits) {
  const std::string text = terminal_report(report_fixture());
  EXPECT_TRUE(has(text, "8.42 s")) << text;
  EXPECT_TRUE(has(text, "between 8.01 s and 8.93 s")) << text;
  EXPECT_TRUE(has(text, "498,133 tokens/s")) << text;
  EXPECT_TRUE(has(text, "43.1 %")) << text;
  EXPECT_TRUE(has(text, "6N + full attention (Megatron-LM)")) << text;
  EXPECT_TRUE(has(text, "of 79.0 GiB: fits")) << text;
}

TEST(TerminalReport, LeavesOutWhatIsNotThere) {
  const std::string text = terminal_report(report_fixture());
  EXPECT_FALSE(has(text, "expert traffic")) << text;
  EXPECT_FALSE(has(text, "\n  cost")) << text;
  EXPECT_FALSE(has(text, "Priced operations")) << text;
  EXPECT_FALSE(has(text, "\x1b[")) << text;
}

TEST(TerminalReport, ColoursAndExplainsWhenAsked) {
  const std::string text = terminal_report(report_fixture(), {.colour = true, .explain = true});
  EXPECT_TRUE(has(text, "\x1b[1m")) << text;
  EXPECT_TRUE(has(text, "14,336 × 8,192 × 8,192 bf16")) << text;
  EXPECT_TRUE(has(text, "all-gather of 134 MB over the tensor group")) << text;
}

// 32 chunks alike filled the whole table with one operation; what differs stays apart.
TEST(TerminalReport, ExplainsAlikeOperationsOnce) {
  sim::SimulationReport report = report_fixture();
  const std::vector<sim::PricedOp> ops = report.priced_ops;
  report.priced_ops.clear();
  for (int stage = 0; stage < 4; ++stage) {
    for (sim::PricedOp op : ops) {
      op.stage = stage;
      if (stage == 3 && op.op.name == "rms_norm") op.op.read = 2.0 * op.op.read;
      op.time = {1e-3};  // All alike, so that the kinds take turns.
      report.priced_ops.push_back(op);
    }
  }
  const std::string text = terminal_report(report, {.explain = true});
  const auto line_of = [&](const std::string& part) {
    const std::size_t at = text.find(part);
    if (at == std::string::npos) return "no line with " + part;
    const std::size_t begin = text.rfind('\n', at) + 1;
    return text.substr(begin, text.find('\n', at) - begin);
  };
  EXPECT_TRUE(has(line_of("qkv.gather"), "4 chunks from 0.0")) << text;
  EXPECT_TRUE(has(line_of("33.6 MB read"), "3 chunks from 0.0")) << text;
  EXPECT_TRUE(has(line_of("67.1 MB read"), " 3.0 ")) << text;
  EXPECT_EQ(text.find("qkv.gather"), text.rfind("qkv.gather")) << text;
}

TEST(TerminalReport, SaysThatDecoupledJobsAreNotExplained) {
  sim::SimulationReport report = report_fixture();
  const std::string line = "--explain: components and operations are not available";
  EXPECT_FALSE(has(terminal_report(report, {.explain = true}), line));
  report.memory.front().side = "forward";
  report.priced_ops.clear();
  EXPECT_TRUE(has(terminal_report(report, {.explain = true}), line));
  EXPECT_FALSE(has(terminal_report(report), line));
}

TEST(TerminalReport, PutsTheLargestSensitivityFirst) {
  const std::string text = terminal_report(report_fixture());
  EXPECT_LT(text.find("GEMM rate +10 %"), text.find("kernel gap +1 µs")) << text;
  EXPECT_TRUE(has(text, "-5.2 %")) << text;  // 7.98/8.42 − 1 = −5.23 %.
}

TEST(TerminalReport, RefusalNamesReasonsAndNearestPlans) {
  const std::string text = terminal_refusal(refusal_fixture());
  EXPECT_EQ(text.find("does not fit: stage 0 needs 96.4 GiB"), 0U) << text;
  EXPECT_TRUE(has(text, "66.2 GiB")) << text;
  EXPECT_TRUE(has(text, "recompute none → selective")) << text;
}

// A refusal told of plans near it where nobody had looked for one.
TEST(TerminalReport, RefusalWithoutNeighboursSaysSoWhereTheyWereLookedFor) {
  sim::PlanRefusal refusal{
      .code = "illegal_plan", .message = "tensor 5 does not divide 64 heads", .reasons = {"x"}};
  const std::string not_looked = terminal_refusal(refusal);
  EXPECT_TRUE(has(not_looked, "this plan is illegal: tensor 5")) << not_looked;
  EXPECT_FALSE(has(not_looked, "near it")) << not_looked;
  refusal.others_tried = 17;
  const std::string looked = terminal_refusal(refusal);
  EXPECT_TRUE(has(looked, "none of the plans near it is legal and fits; tried: 17\n")) << looked;
  refusal.others_too_large = 3;
  const std::string large = terminal_refusal(refusal);
  EXPECT_TRUE(has(large, "tried: 17; too many tasks a step to be tried: 3\n")) << large;
}

TEST(TerminalComparison, ShowsRunsSideBySideWithScaling) {
  const std::vector<sim::SimulationReport> reports = {scaled_report(512), scaled_report(1024)};
  const std::string text = terminal_comparison(reports);
  EXPECT_TRUE(has(text, "t4 p4 v5 d32")) << text;
  EXPECT_TRUE(has(text, "Strong scaling")) << text;
  EXPECT_TRUE(has(text, "97.1 %")) << text;  // 1/1.03.
  EXPECT_TRUE(has(text, "1.94×")) << text;   // 2/1.03.
}

TEST(TerminalComparison, OfNothingIsNothing) { EXPECT_EQ(terminal_comparison({}), ""); }

}  // namespace
}  // namespace megatwin::cli
