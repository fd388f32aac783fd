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

MeasuredRow stated_row(const std::string& framework, const std::string& gpu) {
  MeasuredRow row;
  row.cells = {{"id", "X-1"},
               {"framework", framework},
               {"model_name", "M"},
               {"layers", "24"},
               {"hidden", "2048"},
               {"heads", "16"},
               {"vocab", "32000"},
               {"seq_len", "2048"},
               {"moe", "8 experts top2"},
               {"gpu", gpu},
               {"gpus", "8"},
               {"tp", "4"},
               {"global_batch", "64"}};
  return row;
}

model::Job must_be_job(const MeasuredRow& row) {
  auto job = job_of(row, shipped_hardware());
  EXPECT_TRUE(job) << model::to_text(job.error());
  return *std::move(job);
}

TEST(MeasuredRows, ReleaseIsAStatedSetting) {
  MeasuredRow row = stated_row("megatron-core", "GB200 (NVL72)");
  EXPECT_FALSE(must_be_job(row).software.overlap_expert_parallel);
  row.cells["framework_version"] = "26.04";
  EXPECT_FALSE(must_be_job(row).software.overlap_expert_parallel);
  row.cells["framework_version"] = "26.06";
  EXPECT_TRUE(must_be_job(row).software.overlap_expert_parallel);
  row.cells["framework_version"] = "27.01";
  EXPECT_TRUE(must_be_job(row).software.overlap_expert_parallel);
  row.cells["gpu"] = "H100-SXM5-80GB";
  EXPECT_FALSE(must_be_job(row).software.overlap_expert_parallel);

  MeasuredRow titan = stated_row("fsdp2", "H100-SXM5-80GB");
  titan.cells["overlap"] = "FSDP2+compile";
  titan.cells["framework_version"] = "2024-12";
  EXPECT_FALSE(must_be_job(titan).software.fused_cross_entropy);
  titan.cells["framework_version"] = "2025-06";
  EXPECT_TRUE(must_be_job(titan).software.fused_cross_entropy);
}

// With its settings stated, a row is the same job whoever published it.
TEST(MeasuredRows, SourceDecidesNothing) {
  const auto rows = read_measured_rows("scenarios/measured/published_steps.csv");
  ASSERT_TRUE(rows) << model::to_text(rows.error());
  for (MeasuredRow row : *rows) {
    const auto job = job_of(row, shipped_hardware());
    row.cells["id"] = "ANON-" + std::to_string(row.line);
    row.cells["source"] = row.cells["source_url_or_repo_path"] = "a page of 2025";
    const auto anonymous = job_of(row, shipped_hardware());
    ASSERT_EQ(job.has_value(), anonymous.has_value());
    if (!job) continue;
    EXPECT_EQ(job->software.overlap_expert_parallel, anonymous->software.overlap_expert_parallel);
    EXPECT_EQ(job->software.fused_cross_entropy, anonymous->software.fused_cross_entropy);
    EXPECT_EQ(job->plan.effective_expert_tensor(), anonymous->plan.effective_expert_tensor());
    EXPECT_EQ(job->assumptions, anonymous->assumptions);
  }
}

// A looped schedule of torchtitan has two stages a rank unless told otherwise, and asynchronous
// tensor parallelism no way without torch.compile. One sequence a micro-batch under a pipeline.
TEST(MeasuredRows, WhatTorchtitansRowsImply) {
  MeasuredRow row = stated_row("fsdp2", "H100");
  row.cells["moe"] = "";
  row.cells["tp"] = "1";
  row.cells["pp"] = "4";
  model::Job job = must_be_job(row);
  EXPECT_EQ(job.plan.data, 2);
  EXPECT_EQ(job.plan.micro_batch, 1);
  EXPECT_EQ(job.plan.model_chunks, 1);
  EXPECT_EQ(job.software.fusion, model::ElementwiseFusion::Eager);
  row.cells["notes"] = "schedule Interleaved 1F1B";
  row.cells["overlap"] = "AsyncTP";
  job = must_be_job(row);
  EXPECT_EQ(job.plan.model_chunks, 2);
  EXPECT_EQ(job.software.fusion, model::ElementwiseFusion::FullyFused);
  row.cells["framework"] = "megatron-core";
  job = must_be_job(row);
  EXPECT_EQ(job.plan.micro_batch, 1);
  EXPECT_EQ(job.plan.model_chunks, 1);
}

// Per-tensor scales: delayed in NeMo, current in torchao, in Megatron-Bridge, and where "CS" is
// said.
TEST(MeasuredRows, ScalesOfFp8FollowStackAndRelease) {
  MeasuredRow row = stated_row("megatron-core", "H100");
  const auto precision = [&](const std::string& text, const std::string& release) {
    row.cells["precision"] = text;
    row.cells["framework_version"] = release;
    return must_be_job(row).plan.precision;
  };
  EXPECT_EQ(precision("fp8", ""), model::Precision::Fp8PerTensor);
  EXPECT_EQ(precision("fp8", "25.02"), model::Precision::Fp8PerTensor);
  EXPECT_EQ(precision("FP8", "25.11"), model::Precision::Fp8Current);
  EXPECT_EQ(precision("FP8-CS", ""), model::Precision::Fp8Current);
  EXPECT_EQ(precision("MXFP8", "26.02"), model::Precision::Mxfp8);
  row.cells["framework"] = "fsdp2";
  EXPECT_EQ(precision("fp8 tensorwise", "2025-06"), model::Precision::Fp8Current);
  EXPECT_EQ(precision("fp8 rowwise", "2025-06"), model::Precision::Fp8Block);
}

TEST(MeasuredRows, ComparesReleases) {
  EXPECT_TRUE(is_older("25.11", "26.06"));
  EXPECT_TRUE(is_older("26.04", "26.06"));
  EXPECT_FALSE(is_older("26.06", "26.06"));
  EXPECT_FALSE(is_older("26.06.01", "26.06"));
  EXPECT_TRUE(is_older("2024-12", "2025"));
  EXPECT_FALSE(is_older("2025-06", "2025"));
  EXPECT_TRUE(is_older("", "2025"));
}

TEST(MeasuredRows, MemoryHasAUnit) {
  MeasuredRow row = stated_row("megatron-core", "H100-SXM5-80GB");
  row.cells["measured_mem_GB"] = "10";
  EXPECT_DOUBLE_EQ(measurement_of(row).memory->value, 10e9);
  row.cells["measured_mem_unit"] = "GiB";
  EXPECT_DOUBLE_EQ(measurement_of(row).memory->value, 10.0 * 1024 * 1024 * 1024);
}

TEST(MeasuredRows, RefuseATableWithoutIds) {
  EXPECT_FALSE(parse_measured_rows("a,b\n1,2\n", "f"));
  EXPECT_FALSE(parse_measured_rows("", "f"));
  EXPECT_FALSE(parse_measured_rows("id,b\n1\n", "f"));
  EXPECT_FALSE(read_measured_rows("/nonexistent/file.csv"));
}

}  // namespace
}  // namespace megatwin::scenarios
