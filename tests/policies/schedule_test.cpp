// The orders of the static schedules.
#include "policies/schedule.h"

#include <gtest/gtest.h>

#include "tests/sim/pipeline_specs.h"

namespace megatwin::policies {
namespace {

using model::ScheduleKind;
using tests::uniform_spec;

std::string text_of(const model::ProgramSpec& spec, const Order& order) {
  const model::PipelineShape shape = pipeline_shape(spec);
  std::string text;
  for (const model::TaskId id : order) {
    if (!text.empty()) {
      text += ' ';
    }
    text += to_text(shape.task(id));
  }
  return text;
}

std::vector<std::string> texts_of(const model::ProgramSpec& spec) {
  std::vector<std::string> texts;
  for (const Order& order : schedule_orders(spec)) {
    texts.push_back(text_of(spec, order));
  }
  return texts;
}

// What Megatron-LM ran on 4 GPUs with 4 chunks each and 8 micro-batches: the spans of a recorded
// trace in time order (OpenSQZ/MegatronApp, profiling/, iteration 10). Warm-ups 18, 16, 14, 12.
TEST(Schedule, InterleavedEqualsARecordedRunOfMegatron) {
  const std::vector<std::string> expected = {
      "F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 F0.2 F1.2 F2.2 F3.2 F0.3 F1.3 F2.3 F3.3 "
      "F4.0 F5.0 F6.0 B0.3 F7.0 B1.3 F4.1 B2.3 F5.1 B3.3 F6.1 B0.2 F7.1 B1.2 F4.2 B2.2 "
      "F5.2 B3.2 F6.2 B0.1 F7.2 B1.1 F4.3 B2.1 F5.3 B3.1 F6.3 B0.0 F7.3 B1.0 B2.0 B3.0 "
      "B4.3 B5.3 B6.3 B7.3 B4.2 B5.2 B6.2 B7.2 B4.1 B5.1 B6.1 B7.1 B4.0 B5.0 B6.0 B7.0",
      "F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 F0.2 F1.2 F2.2 F3.2 F0.3 F1.3 F2.3 F3.3 "
      "F4.0 B0.3 F5.0 B1.3 F6.0 B2.3 F7.0 B3.3 F4.1 B0.2 F5.1 B1.2 F6.1 B2.2 F7.1 B3.2 "
      "F4.2 B0.1 F5.2 B1.1 F6.2 B2.1 F7.2 B3.1 F4.3 B0.0 F5.3 B1.0 F6.3 B2.0 F7.3 B3.0 "
      "B4.3 B5.3 B6.3 B7.3 B4.2 B5.2 B6.2 B7.2 B4.1 B5.1 B6.1 B7.1 B4.0 B5.0 B6.0 B7.0",
      "F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 F0.2 F1.2 F2.2 F3.2 F0.3 F1.3 F2.3 B0.3 "
      "F3.3 B1.3 F4.0 B2.3 F5.0 B3.3 F6.0 B0.2 F7.0 B1.2 F4.1 B2.2 F5.1 B3.2 F6.1 B0.1 "
      "F7.1 B1.1 F4.2 B2.1 F5.2 B3.1 F6.2 B0.0 F7.2 B1.0 F4.3 B2.0 F5.3 B3.0 F6.3 B4.3 "
      "F7.3 B5.3 B6.3 B7.3 B4.2 B5.2 B6.2 B7.2 B4.1 B5.1 B6.1 B7.1 B4.0 B5.0 B6.0 B7.0",
      "F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 F0.2 F1.2 F2.2 F3.2 F0.3 B0.3 F1.3 B1.3 "
      "F2.3 B2.3 F3.3 B3.3 F4.0 B0.2 F5.0 B1.2 F6.0 B2.2 F7.0 B3.2 F4.1 B0.1 F5.1 B1.1 "
      "F6.1 B2.1 F7.1 B3.1 F4.2 B0.0 F5.2 B1.0 F6.2 B2.0 F7.2 B3.0 F4.3 B4.3 F5.3 B5.3 "
      "F6.3 B6.3 F7.3 B7.3 B4.2 B5.2 B6.2 B7.2 B4.1 B5.1 B6.1 B7.1 B4.0 B5.0 B6.0 B7.0"};
  EXPECT_EQ(texts_of(uniform_spec({ScheduleKind::Interleaved, 4, 4, 8})), expected);
}

// Drawn by hand for 3 stages and 4 micro-batches: warm-ups 2, 1, 0.
TEST(Schedule, OneForwardOneBackward) {
  const std::vector<std::string> expected = {"F0.0 F1.0 F2.0 B0.0 F3.0 B1.0 B2.0 B3.0",
                                             "F0.0 F1.0 B0.0 F2.0 B1.0 F3.0 B2.0 B3.0",
                                             "F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 F3.0 B3.0"};
  EXPECT_EQ(texts_of(uniform_spec({ScheduleKind::OneForwardOneBackward, 3, 1, 4})), expected);
}

TEST(Schedule, GPipe) {
  const std::vector<std::string> expected(2, "F0.0 F1.0 F2.0 B0.0 B1.0 B2.0");
  EXPECT_EQ(texts_of(uniform_spec({ScheduleKind::GPipe, 2, 1, 3})), expected);
}

// Drawn by hand for p = 2, m = 3: stage i runs W i backwards later.
TEST(Schedule, ZeroBubbleH1) {
  const std::vector<std::string> expected = {"F0.0 F1.0 I0.0 W0.0 F2.0 I1.0 W1.0 I2.0 W2.0",
                                             "F0.0 I0.0 F1.0 I1.0 W0.0 F2.0 I2.0 W1.0 W2.0"};
  EXPECT_EQ(texts_of(uniform_spec({ScheduleKind::ZeroBubbleH1, 2, 1, 3})), expected);
}

// Drawn by hand for p = 2: three micro-batches just fill the V, so the last gradients of the inputs
// go before the weight gradients that were kept back; nothing of a fourth is made room for.
TEST(Schedule, ZeroBubbleV) {
  const std::vector<std::string> expected = {
      "F0.0 F1.0 F2.0 F0.1 I0.1 W0.1 F1.1 I1.1 W1.1 I0.0 W0.0 F2.1 I2.1 W2.1 I1.0 W1.0 I2.0 W2.0",
      "F0.0 F0.1 F1.0 F1.1 I0.1 W0.1 F2.0 I0.0 W0.0 F2.1 I1.1 W1.1 I1.0 I2.1 I2.0 W1.0 W2.1 W2.0"};
  EXPECT_EQ(texts_of(uniform_spec({ScheduleKind::ZeroBubbleV, 2, 2, 3})), expected);
}

// A larger group: 5 micro-batches pass each of 2 chunks before the other; stage 1 of 2 warms up
// with (v−1) · 5 forwards. 7 micro-batches in groups of 5 leave 2, as many as there are stages.
TEST(Schedule, InterleavedInLargerGroups) {
  model::ProgramSpec spec = uniform_spec({ScheduleKind::Interleaved, 2, 2, 7});
  spec.micro_batch_group = 5;
  ASSERT_TRUE(schedule_problems(spec).empty());
  EXPECT_EQ(texts_of(spec)[1],
            "F0.0 F1.0 F2.0 F3.0 F4.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.1 B3.1 F4.1 B4.1 "
            "F5.0 B0.0 F6.0 B1.0 F5.1 B2.0 F6.1 B3.0 B4.0 B5.1 B6.1 B5.0 B6.0");
}

using Problems = std::vector<std::string>;

TEST(ScheduleProblems, InterleavedNeedsWholeGroups) {
  EXPECT_EQ(schedule_problems(uniform_spec({ScheduleKind::Interleaved, 4, 2, 8})), Problems{});
  EXPECT_EQ(schedule_problems(uniform_spec({ScheduleKind::Interleaved, 4, 2, 10})),
            Problems{"the interleaved schedule needs micro-batches in whole groups of 4: 10 leaves "
                     "2; nearest are 8 and 12"});
  EXPECT_EQ(
      schedule_problems(uniform_spec({ScheduleKind::Interleaved, 4, 2, 3})),
      Problems{"the interleaved schedule passes groups of 4 micro-batches; a group must be at "
               "least the pipeline size 4 and at most the number of micro-batches 3"});
  EXPECT_EQ(schedule_problems(uniform_spec({ScheduleKind::Interleaved, 1, 2, 3})),
            Problems{"the interleaved schedule needs a pipeline of at least 2 stages, not 1"});
}

TEST(ScheduleProblems, ChunksOfASchedule) {
  EXPECT_EQ(schedule_problems(uniform_spec({ScheduleKind::OneForwardOneBackward, 2, 2, 4})),
            Problems{"the 1f1b schedule has 1 model chunk a stage, not 2"});
  EXPECT_EQ(schedule_problems(uniform_spec({ScheduleKind::ZeroBubbleV, 2, 1, 4})),
            Problems{"the zb-v schedule has 2 model chunks a stage, not 1"});
}

TEST(ScheduleProblems, SizesOfTheCosts) {
  model::ProgramSpec spec = uniform_spec({ScheduleKind::GPipe, 2, 2, 4});
  spec.stages[1].chunks.pop_back();
  EXPECT_EQ(schedule_problems(spec), Problems{"stage 1 has costs for 1 chunk, the plan has 2"});
  spec.stages.pop_back();
  EXPECT_EQ(schedule_problems(spec), Problems{"costs are given for 1 stage, the plan has 2"});
  EXPECT_EQ(schedule_problems(uniform_spec({ScheduleKind::GPipe, 0, 1, 0})),
            (Problems{"pipeline size is 0, must be at least 1",
                      "number of micro-batches is 0, must be at least 1"}));
}

TEST(ScheduleProblems, TooLarge) {
  model::ProgramSpec spec = uniform_spec({ScheduleKind::GPipe, 1, 1, 1});
  spec.micro_batches = 2'000'000'000;
  EXPECT_EQ(schedule_problems(spec),
            Problems{"the pipeline is too large to simulate: at most 65535 stages and 268435455 "
                     "tasks"});
}

model::ProgramSpec with_orders(std::vector<std::vector<std::string>> orders) {
  model::ProgramSpec spec =
      uniform_spec({ScheduleKind::OrderFile, static_cast<int>(orders.size()), 1, 2});
  spec.orders = std::move(orders);
  return spec;
}

TEST(ScheduleProblems, OrderFile) {
  EXPECT_EQ(schedule_problems(with_orders({{"F0.0", "F1.0", "B1.0", "B0.0"}})), Problems{});
  EXPECT_EQ(
      schedule_problems(with_orders({{"F0.0", "F1.0", "F1.0", "B0.0", "C1.0", "F2.0"}})),
      (Problems{"orders[0]: 'C1.0' is no task; expected a letter of F B I W, the micro-batch, "
                "a full stop and the chunk, such as F0.1",
                "orders[0]: 'F2.0' is out of range: there are 2 micro-batches and 1 chunk, "
                "from 0",
                "orders[0]: F1.0 is there 2 times", "orders[0]: B1.0 is missing"}));
  // Whole and split backward do not mix.
  EXPECT_EQ(schedule_problems(with_orders({{"F0.0", "I0.0", "W0.0", "F1.0", "B1.0"}})),
            (Problems{"orders[0]: 'B1.0' does not belong to an order with split backward (F, I, W)",
                      "orders[0]: I1.0 is missing", "orders[0]: W1.0 is missing"}));
}

// Stage 0 wants B0 before it has run F1; stage 1 wants F1 before B0. Each waits for the other.
TEST(ScheduleProblems, OrderFileThatDeadlocks) {
  EXPECT_EQ(schedule_problems(
                with_orders({{"F0.0", "B0.0", "F1.0", "B1.0"}, {"F0.0", "F1.0", "B0.0", "B1.0"}})),
            (Problems{"deadlock: stage 0 waits forever before B0.0",
                      "deadlock: stage 1 waits forever before F1.0"}));
  // A backward before its forward is the shortest deadlock.
  EXPECT_EQ(schedule_problems(with_orders({{"B0.0", "F0.0", "F1.0", "B1.0"}})),
            Problems{"deadlock: stage 0 waits forever before B0.0"});
}

TEST(ScheduleWarnings, InterleavingOnTwoStages) {
  model::ProgramSpec spec = uniform_spec({ScheduleKind::Interleaved, 2, 2, 4});
  EXPECT_EQ(schedule_warnings(spec).size(), 2u);
  spec.overlap_p2p = true;
  EXPECT_EQ(schedule_warnings(spec), Problems{"interleaving gains little on 2 stages"});
  EXPECT_EQ(
      schedule_warnings(uniform_spec({ScheduleKind::OneForwardOneBackward, 8, 1, 4})),
      Problems{"fewer micro-batches (4) than stages (8): some stages are idle at any time, and"
               " PyTorch's schedules refuse it"});
}

}  // namespace
}  // namespace megatwin::policies
