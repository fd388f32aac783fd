#include "cli/report/html_report.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "cli/report/html_bars.h"
#include "cli/report/html_timeline.h"
#include "tests/cli/report_fixture.h"

namespace megatwin::cli {
namespace {

using tests::refusal_fixture;
using tests::report_fixture;
using tests::scaled_report;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

std::string page(const Answer& answer) {
  const std::vector<NamedAnswer> answers = {{"run <1>", answer}};
  return html_report(answers);
}

TEST(HtmlReport, StandsAlone) {
  const std::string html = page(report_fixture());
  EXPECT_EQ(html.find("<!doctype html>"), 0U);
  EXPECT_FALSE(has(html, "http"));
  EXPECT_FALSE(has(html, "<script"));
  EXPECT_FALSE(has(html, "url("));
  EXPECT_FALSE(has(html, "@import"));
}

TEST(HtmlReport, EscapesWhatStrangersWrote) {
  sim::SimulationReport report = report_fixture();
  report.model_name = "<img src=x>";
  report.memory[0].largest_term = "\"a\" & <b>";
  const std::string html = page(report);
  EXPECT_FALSE(has(html, "<img"));
  EXPECT_TRUE(has(html, "&lt;img src=x&gt;"));
  EXPECT_TRUE(has(html, "&quot;a&quot; &amp; &lt;b&gt;"));
  EXPECT_TRUE(has(html, "run &lt;1&gt;"));
  EXPECT_TRUE(has(html, "&lt;no own measurement&gt;"));
}

TEST(HtmlReport, ListsStagesAndSidesThatDiffer) {
  sim::SimulationReport report = report_fixture();
  EXPECT_FALSE(has(page(report), "<h2>Stages"));
  report.stages = {{.stage = 0, .gpu = "A100 <1>", .layers = 15},
                   {.stage = 0, .replica = 2, .gpu = "V100", .layers = 7}};
  report.sides = {{.name = "forward", .gpu = "V100", .ranks = 8, .busy = 0.62}};
  report.memory[0].limit = 2 * report.memory_limit;
  const std::string html = page(report);
  EXPECT_TRUE(has(html, "<td>0 of replica 2</td><td>V100</td>"));
  EXPECT_TRUE(has(html, "A100 &lt;1&gt;"));
  EXPECT_TRUE(has(html, "<td>forward</td><td>V100</td><td class=\"num\">8</td>"));
  EXPECT_TRUE(has(html, "62.0 %"));
  EXPECT_TRUE(has(html, "stage 0 of replica 0"));
  EXPECT_TRUE(has(html, "limit of each stage"));
}

sim::SimulationReport uneven_report() {
  sim::SimulationReport report = report_fixture();
  report.disturbed = sim::DisturbanceReport{.undisturbed_step_time = report.step_time / 1.25,
                                            .causes = {"GPU <7> of node 3 at 1.2 GHz"},
                                            .chain = {"rank 31 computes 25 % longer"}};
  report.links.push_back({.link = "leaf-0 to spine-1",
                          .capacity = model::BytesPerSecond{50e9},
                          .demand = model::BytesPerSecond{200e9},
                          .carried = model::Bytes{1e9},
                          .full = 0.4,
                          .delay = model::Seconds{0.02},
                          .num_users = 4,
                          .users = {"gradients of ranks 0 to 31"}});
  report.goodput = sim::GoodputReport{};
  report.goodput->job.span = model::Seconds{1e6};
  report.goodput->spread = {.mean = 0.9,
                            .p05 = 0.85,
                            .p50 = 0.9,
                            .p95 = 0.94,
                            .failures_mean = 12,
                            .redone = 0.06,
                            .checkpoints = 0.04};
  return report;
}

TEST(HtmlReport, DrawsWhatTheNetworkDisturbancesAndFailuresDid) {
  const std::string html = page(uneven_report());
  EXPECT_TRUE(has(html, "The step changes by +25.0 %"));
  EXPECT_TRUE(has(html, "GPU &lt;7&gt; of node 3"));
  EXPECT_TRUE(has(html, "rank 31 computes 25 % longer"));
  EXPECT_TRUE(has(html, "4 users would want 200 GB/s"));
  EXPECT_TRUE(has(html, "work that is kept"));
  EXPECT_FALSE(has(html, "waiting for a node</td>"));
  const std::string plain = page(report_fixture());
  for (const std::string part : {"disturbances do", "Links that delay", "under failures"}) {
    EXPECT_FALSE(has(plain, part)) << part;
  }
}

TEST(HtmlReport, EveryElementIsClosed) {
  const std::vector<NamedAnswer> answers = {{"a", scaled_report(512)},
                                            {"b", scaled_report(1024)},
                                            {"c", refusal_fixture()},
                                            {"d", uneven_report()}};
  const std::string html = html_report(answers);
  for (const std::string tag : {"div", "section", "svg", "table", "tbody", "tr", "td", "th", "ul",
                                "li", "rect", "details", "figure", "p", "main", "aside", "span"}) {
    const int opened = count(html, "<" + tag + ">") + count(html, "<" + tag + " ");
    const int self_closed = tag == "rect" ? opened - count(html, "</rect>") : 0;
    EXPECT_EQ(opened - self_closed, count(html, "</" + tag + ">")) << tag;
  }
}

TEST(HtmlReport, ComparesSeveralAndDrawsTheirScaling) {
  const std::vector<NamedAnswer> answers = {{"a", scaled_report(512)}, {"b", scaled_report(1024)}};
  const std::string html = html_report(answers);
  EXPECT_TRUE(has(html, "2 runs compared"));
  EXPECT_TRUE(has(html, "Strong scaling"));
  EXPECT_EQ(count(html, "<svg class=\"curve\""), 3);
}

TEST(HtmlReport, RefusalSaysWhyAndWhatIsNear) {
  const std::string html = page(refusal_fixture());
  EXPECT_TRUE(has(html, "Does not fit:"));
  EXPECT_TRUE(has(html, "recompute none → selective"));
}

TEST(HtmlTimeline, DrawsEverySpanOfAShortRun) {
  const sim::SimulationReport report = report_fixture();
  EXPECT_EQ(count(timeline_chart(report), "<rect"), static_cast<int>(report.timeline.size()));
}

TEST(HtmlTimeline, ThinsALongRunAndSaysSo) {
  const sim::SimulationReport report = report_fixture({32, 2, 256});
  const std::string html = timeline_chart(report);
  EXPECT_LT(count(html, "<rect"), 15'000);
  EXPECT_TRUE(has(html, "16 of 32 stages are drawn"));
  EXPECT_TRUE(has(html, "too many to draw one by one"));
}

TEST(HtmlTimeline, OfNothingIsNothing) {
  sim::SimulationReport report = report_fixture();
  report.timeline.clear();
  EXPECT_EQ(timeline_chart(report), "");
}

TEST(HtmlBars, EvenlySpacedKeepsBothEnds) {
  EXPECT_EQ(evenly_spaced(3, 16), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(evenly_spaced(9, 3), (std::vector<int>{0, 4, 8}));
  EXPECT_EQ(evenly_spaced(0, 3), std::vector<int>{});
}

}  // namespace
}  // namespace megatwin::cli
