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
    if (!text.empty()) text += ' ';
    text += to_text(shape.task(id));
  }
  return text;
}

std::vector<std::string> texts_of(const model::ProgramSpec& spec) {
  std::vector<std::string> texts;
  for (const Order& order : schedule_orders(spec)) texts.push_back(text_of(spec, order));
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

}  // namespace
}  // namespace megatwin::policies
