// Logs of nccl-tests: collectives told apart by their columns and ratios, made-up tables kept
// apart.
#include "scenarios/collective_rows.h"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "scenarios/document.h"
#include "scenarios/hardware_catalogue.h"
#include "sim/validate_collectives.h"

namespace megatwin::scenarios {
namespace {

std::string devices(int ranks) {
  std::string text = "# Using devices\n";
  for (int r = 0; r < ranks; ++r) {
    text += "#   Rank  " + std::to_string(r) + " Pid 1 on node-000 device  " + std::to_string(r) +
            " [0x00] A100-SXM4-80GB\n";
  }
  return text;
}

const std::string kOld = "#  size count type redop time algbw busbw error time algbw busbw error\n";
const std::string kNew =
    "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";

std::vector<CollectiveRow> rows_of(const std::string& text) {
  const auto rows = parse_nccl_log("a.log", text);
  EXPECT_TRUE(rows) << to_text(rows.error());
  return rows ? *rows : std::vector<CollectiveRow>{};
}

// Eight ranks: all-reduce has bus over algorithm bandwidth of 14/8, the others 7/8; all-to-all
// leaves its operator empty, so that columns shift.
TEST(NcclLog, TellsCollectivesApart) {
  const auto reduce = rows_of(devices(8) + kNew +
                              "  1000000 250000 float sum -1 100.0 10.0 17.5 0 99.0 10.1 17.7 0\n");
  ASSERT_EQ(reduce.size(), 1U);
  EXPECT_EQ(reduce[0].operation, "all_reduce");
  EXPECT_EQ(reduce[0].ranks, 8);
  EXPECT_EQ(reduce[0].hosts, 1);
  EXPECT_DOUBLE_EQ(reduce[0].time.value, 100e-6);
  const auto exchange = rows_of(devices(8) + kOld +
                                "  1000000 31250 float  100.0 10.0 8.75 N/A 99.0 10.1 8.84 N/A\n");
  ASSERT_EQ(exchange.size(), 1U);
  EXPECT_EQ(exchange[0].operation, "alltoall");
  EXPECT_DOUBLE_EQ(exchange[0].time.value, 100e-6);
  const auto scatter = rows_of(
      devices(8) + kOld + "  1000000 31250 float sum 100.0 10.0 8.75 N/A 99.0 10.1 8.84 N/A\n");
  EXPECT_EQ(scatter[0].operation, "reduce_scatter");
}

TEST(NcclLog, ReadsThroughMpiruns) {
  std::string text;
  for (const std::string& line :
       {std::string("#   Rank  0 Pid 1 on a device  0 [0x00] H100"),
        std::string("#   Rank  1 Pid 1 on b device  0 [0x00] H100"),
        std::string("# size count type redop root time algbw busbw #wrong"),
        std::string("1000000 250000 float sum -1 100.0 10.0 10.0 0"),
        std::string("NCCL INFO Connected all rings")}) {
    text += "[1,0]<stdout>:" + line + "\n";
  }
  const auto rows = rows_of(text);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].hosts, 2);
  EXPECT_EQ(rows[0].operation, "all_reduce");
}

// 17 of 10 is the ratio of no collective over eight ranks.
TEST(NcclLog, KeepsMadeUpTablesApart) {
  const auto rows =
      rows_of(devices(8) + kNew + "  1000000 250000 float sum -1 100.0 10.0 17.0 0\n");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_NE(rows[0].reason.find("no collective"), std::string::npos);
  EXPECT_FALSE(parse_nccl_log("a.log", "hello\n"));
}

TEST(CollectiveCsv, SaysWhyARowIsNotJudged) {
  const auto rows = parse_collective_csv(
      "m.csv",
      "category,gpu,op,n_gpus,shape_or_size,dtype,time_us,value,unit,source,notes\n"
      "nccl,A100 (8-GPU node),all_reduce,8,1048576 B,fp32,40.0,45,GB/s,s,n\n"
      "nccl,A100 (8-GPU node),all_reduce,8,1048576 B,fp32,,45,GB/s,s,n\n"
      "gemm,A100,x,1,m=1,bf16,,1,TFLOP/s,s,n\n"
      "nccl,Moon machine,all_reduce,8,1048576 B,fp32,40.0,45,GB/s,s,n\n");
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 3U);
  EXPECT_EQ((*rows)[0].reason, "");
  EXPECT_EQ((*rows)[1].reason, "no time, only a bandwidth");
  const auto judged = sim::validate_collectives(*rows, shipped_hardware(), "");
  EXPECT_TRUE(judged.rows[0].scored);
  EXPECT_GT(judged.rows[0].predicted.value, 0);
  EXPECT_EQ(judged.rows[2].reason, "no machine is known by this name");
  EXPECT_FALSE(parse_collective_csv("m.csv", "category,gpu,op,n_gpus,\n"));
}

// One process of two threads drives the four GPUs of each of two hosts.
TEST(NcclLog, TellsHowManyGpusAProcessDrives) {
  std::string text = "# nThread 2 nGpus 2 minBytes 8 maxBytes 8 step: 2(factor)\n";
  for (int r = 0; r < 8; ++r) {
    text += "#   Rank  " + std::to_string(r) + " Pid 7 on node-" + std::to_string(r / 4) +
            " device  0 [0x00] A100-SXM4-80GB\n";
  }
  const std::string row = "  1000000 250000 float sum 100.0 10.0 17.5 0 99.0 10.1 17.7 0\n";
  const auto rows = rows_of(text + kOld + row + devices(8) + kOld + row);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].gpus_per_process, 4);
  EXPECT_EQ(rows[0].threads_per_process, 2);
  // The second run does not say its threads: nothing is left of the first.
  EXPECT_EQ(rows[1].gpus_per_process, 8);
  EXPECT_EQ(rows[1].threads_per_process, 1);
}

// Every group of the shared logs and tables, in the median: within 10 % from 16 MB on, within 25 %
// from 1 KB to 16 MB.
TEST(CollectiveCsv, MeasuredMachinesAreMetFromOneKilobyteOn) {
  const char* given = std::getenv("MEGATWIN_SHARED");
  const std::string shared = given != nullptr ? given : "../shared";
  if (!std::filesystem::exists(shared + "/data")) GTEST_SKIP() << "no " << shared;
  std::vector<CollectiveRow> all;
  const auto table = read_file(shared + "/data/microbench_public.csv");
  ASSERT_TRUE(table);
  const auto rows = parse_collective_csv("microbench_public.csv", *table);
  ASSERT_TRUE(rows) << to_text(rows.error());
  all = *rows;
  for (const char* name :
       {"sb_a100x8_allreduce.log", "sb_a100x8_allgather.log", "sb_a100x8_alltoall.log",
        "sb_a100x8_broadcast.log", "v100x8_allreduce_many_runs.txt", "nvidia_nccl_L37.log",
        "oracle-quickstart_Troubleshooting_L145.log"}) {
    const auto text = read_file(shared + "/data/files/nccl_tests_logs/" + name);
    ASSERT_TRUE(text) << name;
    const auto log = parse_nccl_log(name, *text);
    ASSERT_TRUE(log) << to_text(log.error());
    all.insert(all.end(), log->begin(), log->end());
  }
  const auto judged = sim::validate_collectives(all, shipped_hardware(), "");
  int large = 0, small = 0;
  for (const sim::OperationGroup& group : judged.groups) {
    if (group.scored == 0) continue;
    if (group.group.ends_with("16 MB and more")) {
      EXPECT_LT(group.median_abs_error, 0.10) << group.group;
      ++large;
    } else if (group.group.ends_with("1 KB to 16 MB")) {
      EXPECT_LT(group.median_abs_error, 0.25) << group.group;
      ++small;
    }
  }
  EXPECT_GE(large, 27);
  EXPECT_GE(small, 22);
}

}  // namespace
}  // namespace megatwin::scenarios
