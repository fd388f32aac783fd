#include "scenarios/operation_rows.h"

#include <gtest/gtest.h>

namespace megatwin::scenarios {
namespace {

TEST(OperationRows, ReadsTheKinds) {
  const auto rows = parse_operation_rows(
      "{\"kind\": \"gemm\", \"dtype\": \"bf16\", \"layout\": \"NT(wgrad)\", \"M\": 4096, \"N\": 8, "
      "\"K\": 64, \"ms\": 0.5}\n\n"
      "{\"kind\": \"attn\", \"backend\": \"cudnn\", \"causal\": true, \"B\": 1, \"H\": 8, \"KV\": 2, "
      "\"S\": 1024, \"D\": 96, \"fwd_ms\": 0.03, \"bwd_ms\": 0.12}\r\n"
      "{\"kind\": \"nccl\", \"op\": \"all_reduce\", \"world\": 2, \"bytes\": 1024, \"us\": 48}",
      "rows.jsonl");
  ASSERT_TRUE(rows.has_value()) << model::to_text(rows.error());
  ASSERT_EQ(rows->size(), 3U);
  EXPECT_EQ((*rows)[0].m, 4096);
  EXPECT_DOUBLE_EQ((*rows)[0].time->value, 0.5e-3);
  EXPECT_EQ((*rows)[1].line, 3);
  EXPECT_TRUE((*rows)[1].causal);
  EXPECT_DOUBLE_EQ((*rows)[1].backward->value, 0.12e-3);
  EXPECT_DOUBLE_EQ((*rows)[2].time->value, 48e-6);
  EXPECT_EQ((*rows)[2].world, 2);
}

// All mistakes at once, each with its line and column.
TEST(OperationRows, ReportsEveryBadLine) {
  const auto rows = parse_operation_rows(
      "{\"kind\": \"gemm\", \"M\": -1}\n"
      "{\"kind\": \"gemm\", \"M\": 2.5}\n"
      "{\"kind\": 7}\n"
      "[1]\n"
      "{\"kind\": \n"
      "{\"M\": 1}\n",
      "rows.jsonl");
  ASSERT_FALSE(rows.has_value());
  const model::Diagnostics& all = rows.error();
  ASSERT_EQ(all.size(), 7U);  // Line 3 has a wrong kind and therefore none.
  EXPECT_EQ(all[0].line, 1);
  EXPECT_EQ(all[0].column, 18);
  EXPECT_EQ(all[0].key, "M");
  EXPECT_EQ(all[1].line, 2);
  EXPECT_EQ(all[5].line, 5);
  EXPECT_GT(all[5].column, 1);
  EXPECT_EQ(all[6].key, "kind");
}

TEST(OperationRows, EmptyFileIsNoRows) {
  const auto rows = parse_operation_rows("", "rows.jsonl");
  ASSERT_TRUE(rows.has_value());
  EXPECT_TRUE(rows->empty());
}

}  // namespace
}  // namespace megatwin::scenarios
