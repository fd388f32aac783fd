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

TEST(HtmlReport, EveryElementIsClosed) {
  const std::vector<NamedAnswer> answers = {
      {"a", scaled_report(512)}, {"b", scaled_report(1024)}, {"c", refusal_fixture()}};
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
