#include "scenarios/order_file_reader.h"

#include <string>

#include <gtest/gtest.h>

namespace megatwin::scenarios {
namespace {

TEST(OrderFile, ReadsOneLineARank) {
  const auto orders =
      parse_order_file("o.txt", "# two ranks\n0: F0.0 B0.0\n\n1: F0.0  B0.0 # end\n");
  ASSERT_TRUE(orders);
  ASSERT_EQ(orders->size(), 2U);
  EXPECT_EQ((*orders)[1], (std::vector<std::string>{"F0.0", "B0.0"}));
}

TEST(OrderFile, SaysWhichLineIsWrong) {
  const auto orders = parse_order_file("o.txt", "0: F0.0 B0.0\n2: F0.0 B0.0\n");
  ASSERT_FALSE(orders);
  EXPECT_EQ(to_text(orders.error()),
            "o.txt:2:1: error: is not the order of rank 1\n"
            "  allowed: one line a rank, in rank order, such as \"1: F0.0 F1.0 B0.0 B1.0\"\n"
            "1 error; nothing was run\n");
}

TEST(OrderFile, SaysWhereSomethingIsNoTask) {
  const auto orders = parse_order_file("o.txt", "0: F0.0 B0.0\n1: F0.0 X1.0 B0.0\n");
  ASSERT_FALSE(orders);
  EXPECT_EQ(orders.error().front().line, 2);
  EXPECT_EQ(orders.error().front().column, 9);
  EXPECT_EQ(orders.error().front().message, "'X1.0' is no task");
}

// A task of the ninth of eight micro-batches was told by the simulator, without a place.
TEST(OrderFile, SaysWhereATaskIsOutOfRange) {
  const auto orders = parse_order_file("o.txt",
                                       "0: F0.0 F1.0 B0.0 B1.0\n"
                                       "1: F0.0 F1.0 F10.0  F1.1\n"
                                       "2: B1.1\n",
                                       OrderSizes{.micro_batches = 2, .chunks = 1});
  ASSERT_FALSE(orders);
  EXPECT_EQ(to_text(orders.error()),
            "o.txt:2:14: error: 'F10.0' is out of range: the plan has 2 micro-batches and 1 chunk "
            "a rank\n"
            "  allowed: micro-batch 0 to 1, chunk 0\n"
            "o.txt:3:4: error: 'B1.1' is out of range: the plan has 2 micro-batches and 1 chunk a "
            "rank\n"
            "  allowed: micro-batch 0 to 1, chunk 0\n"
            "2 errors; nothing was run\n");
  EXPECT_TRUE(parse_order_file("o.txt", "0: F9.9\n"));  // Of what plan is not known.
}

TEST(OrderFile, RefusesWhatIsNone) {
  EXPECT_FALSE(parse_order_file("o.txt", ""));
  EXPECT_FALSE(parse_order_file("o.txt", "root:x:0:0:root\n"));
  EXPECT_FALSE(parse_order_file("o.txt", std::string("0: F\0", 5)));
  EXPECT_FALSE(read_order_file("/nonexistent"));
  EXPECT_FALSE(read_order_file("/"));
}

}  // namespace
}  // namespace megatwin::scenarios
