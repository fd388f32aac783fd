#include "model/program/task.h"

#include <gtest/gtest.h>

#include "model/program/decision_record.h"

namespace megatwin::model {
namespace {

TEST(Task, TextAndBack) {
  const Task task{TaskKind::BackwardInput, {12}, {3}};
  EXPECT_EQ(to_text(task), "I12.3");
  EXPECT_EQ(task_from_text("I12.3"), task);
  EXPECT_EQ(task_from_text("F0.0"), (Task{TaskKind::Forward, {0}, {0}}));
  EXPECT_EQ(task_from_text("B7.1"), (Task{TaskKind::Backward, {7}, {1}}));
  EXPECT_EQ(task_from_text("W7.1"), (Task{TaskKind::BackwardWeight, {7}, {1}}));
  EXPECT_EQ(task_from_text("R7.1"), (Task{TaskKind::Recompute, {7}, {1}}));
}

TEST(Task, RefusesWhatIsNoTask) {
  for (const char* text : {"", "F", "F1", "F1.", "F.1", "X1.0", "F1.0 ", "F-1.0", "f1.0", "F1,0",
                           "F99999999999.0", "F1.0.0"}) {
    EXPECT_FALSE(task_from_text(text).has_value()) << text;
  }
}

// 1000 ns = 2^9 · 1.953: octave 9, and the six bits after the leading one of 1111101000b are 111101b
// = 61, so 9 · 64 + 61.
TEST(QuantisedDuration, KeepsSixBitsAfterTheLeadingOne) {
  EXPECT_EQ(quantise({1000}), 9 * 64 + 61);
  EXPECT_EQ(quantise({0}), 0);
  EXPECT_EQ(quantise({1}), 0);
  EXPECT_EQ(quantise({2}), 64);
  EXPECT_EQ(quantise({3}), 64 + 32);
  EXPECT_EQ(dequantise(quantise({1000})).ns, 1000 / 8 * 8);
}

TEST(QuantisedDuration, RisesAndErrsByLessThanASixtyFourth) {
  for (std::int64_t ns = 64; ns < 5'000'000'000; ns += ns / 37 + 1) {
    const Instant back = dequantise(quantise({ns}));
    EXPECT_LE(back.ns, ns);
    EXPECT_LT(ns - back.ns, ns / 64 + 1);
    EXPECT_LE(quantise({ns - 1}), quantise({ns}));
    EXPECT_EQ(quantise(back), quantise({ns}));
  }
}

}  // namespace
}  // namespace megatwin::model
