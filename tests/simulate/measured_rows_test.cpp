#include "scenarios/measured_rows.h"

#include <string>

#include <gtest/gtest.h>

#include "scenarios/csv_reader.h"
#include "scenarios/hardware_catalogue.h"

namespace megatwin::scenarios {
namespace {

const std::string kHeader =
    "id,framework,model_name,layers,hidden,heads,vocab,seq_len,gpu,gpus,tp,pp,global_batch,"
    "measured_iteration_s,measured_tokens_per_s_per_gpu,derived_iteration_s,extra\n";

TEST(CsvReader, KeepsQuotesCommasAndLineBreaks) {
  const auto rows = parse_csv("a,b\n\"1,\"\"x\"\"\n2\",3\r\n\n4,5", "f.csv");
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 3U);
  EXPECT_EQ((*rows)[1].fields[0], "1,\"x\"\n2");
  EXPECT_EQ((*rows)[2].line, 5);
}

TEST(CsvReader, RefusesWhatIsNoCsv) {
  EXPECT_FALSE(parse_csv(std::string("a\0b", 3), "f.csv"));
  const auto open = parse_csv("a\n\"b", "f.csv");
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().front().line, 2);
}

TEST(MeasuredRows, CarryUnknownColumnsAndBlankCells) {
  const auto rows = parse_measured_rows(
      kHeader + "X-1,megatron-core,GPT-1B,24,2048,16,,2048,H100,8,1,1,64,,1000,,keep me\n", "f");
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->front().group(), "X");
  EXPECT_EQ(rows->front().text("extra"), "keep me");
  EXPECT_EQ(rows->front().text("vocab"), "");
  // 64 · 2048 tokens at 8 · 1000 tokens/s: 16.384 s.
  EXPECT_DOUBLE_EQ(measurement_of(rows->front()).step_time->value, 16.384);
  const auto job = job_of(rows->front(), shipped_hardware());
  ASSERT_TRUE(job) << model::to_text(job.error());
  EXPECT_EQ(job->transformer.vocab_size, 51200);
  EXPECT_FALSE(job->assumptions.empty());
}

TEST(MeasuredRows, SayEveryReasonWhyARowIsNoJob) {
  const auto rows =
      parse_measured_rows(kHeader + "X-1,megatron-core,GPT-1B,24,2048,16,,,Z9,8,1,1,,,,,\n", "f");
  ASSERT_TRUE(rows);
  const auto job = job_of(rows->front(), shipped_hardware());
  ASSERT_FALSE(job);
  const std::string text = model::to_text(job.error());
  EXPECT_NE(text.find("seq_len not stated"), std::string::npos) << text;
  EXPECT_NE(text.find("global_batch not stated"), std::string::npos) << text;
  EXPECT_NE(text.find("unknown GPU 'Z9'"), std::string::npos) << text;
}

TEST(MeasuredRows, RefuseATableWithoutIds) {
  EXPECT_FALSE(parse_measured_rows("a,b\n1,2\n", "f"));
  EXPECT_FALSE(parse_measured_rows("", "f"));
  EXPECT_FALSE(parse_measured_rows("id,b\n1\n", "f"));
  EXPECT_FALSE(read_measured_rows("/nonexistent/file.csv"));
}

}  // namespace
}  // namespace megatwin::scenarios
