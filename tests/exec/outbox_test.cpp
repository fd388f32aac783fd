// What leaves and what waits under a limit of receive slots; and the slots that memory is set aside
// in, by hand.
#include "exec/outbox.h"

#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "exec/slot_pool.h"
#include "model/program/program_builder.h"
#include "tests/sim/pipeline_specs.h"

namespace megatwin::exec {
namespace {

Outbox::Outgoing made_by(std::int32_t producer) {
  return {.producer = {producer}, .to = {1}, .consumer = {7}, .message = {1, 2}, .made = {}};
}
std::int32_t producer_of(const std::optional<Outbox::Outgoing>& outgoing) {
  return outgoing ? outgoing->producer.value : -1;
}

TEST(Outbox, KeepsWhatFindsNoSlotInOrder) {
  Outbox outbox;
  outbox.start_step(2);
  EXPECT_EQ(producer_of(outbox.put(0, made_by(10))), 10);
  EXPECT_EQ(producer_of(outbox.put(0, made_by(11))), 11);
  EXPECT_EQ(producer_of(outbox.put(0, made_by(12))), -1);
  EXPECT_EQ(producer_of(outbox.put(0, made_by(13))), -1);
  EXPECT_EQ(producer_of(outbox.put(1, made_by(20))), 20) << "another channel has its own slots";
  EXPECT_FALSE(outbox.is_empty());
  EXPECT_EQ(producer_of(outbox.add_credit(1)), -1);
  EXPECT_EQ(producer_of(outbox.add_credit(0)), 12);
  EXPECT_EQ(producer_of(outbox.add_credit(0)), 13);
  EXPECT_TRUE(outbox.is_empty());
  EXPECT_EQ(producer_of(outbox.add_credit(0)), -1) << "kept for the next one";
  EXPECT_EQ(producer_of(outbox.put(0, made_by(14))), 14);
  EXPECT_EQ(producer_of(outbox.put(0, made_by(15))), -1);
  EXPECT_EQ(producer_of(outbox.add_credit(0)), 15);
  std::vector<std::int32_t> sent;
  for (const Outbox::Sent& one : outbox.take_sent()) sent.push_back(one.producer.value);
  EXPECT_EQ(sent, (std::vector<std::int32_t>{10, 11, 20, 12, 13, 14, 15}));
  outbox.start_step(1);  // The credits of a step are its own.
  EXPECT_EQ(producer_of(outbox.put(0, made_by(10))), 10);
  EXPECT_EQ(producer_of(outbox.put(0, made_by(11))), -1);
}

TEST(Outbox, WithoutALimitNothingWaits) {
  Outbox outbox;
  outbox.start_step(0);
  for (std::int32_t producer = 0; producer < 9; ++producer) {
    EXPECT_EQ(producer_of(outbox.put(0, made_by(producer))), producer);
  }
  EXPECT_TRUE(outbox.is_empty());
}

constexpr AdmissionBound kUnbounded{.live_activations = 0,
                                    .memory_limit = {std::numeric_limits<double>::infinity()}};

// Two chunks whose activations take 100 and 40 bytes, and 24 for a task itself; 8 micro-batches.
struct TwoChunks {
  explicit TwoChunks(model::ScheduleKind schedule) {
    spec = tests::uniform_spec({schedule, 2, 2, 8, 1, 1, 1});
    for (model::StageCost& stage : spec.stages) {
      stage.chunks[1].activation = {40};
      stage.chunks[0].weight_gradient_input = stage.chunks[1].weight_gradient_input = {60};
      stage.chunks[0].backward_transient = {24};
      stage.chunks[1].forward_transient = {16};
    }
    programs = build_programs(spec);
  }
  double total(const AdmissionBound& bound) const {
    return plan_slot_pool(programs[0], spec.stages[0], bound).total().value;
  }
  model::ProgramSpec spec;
  std::vector<model::Program> programs;
};

TEST(SlotPool, IsWhatMayBeHeldAtOnce) {
  const TwoChunks whole(model::ScheduleKind::Interleaved);
  EXPECT_EQ(whole.total(kUnbounded), 8 * (100 + 40) + 24);
  EXPECT_EQ(whole.total({.live_activations = 3, .memory_limit = kUnbounded.memory_limit}),
            3 * 100 + 24);
  // Twelve that fit the larger chunk are 1200: more than eight of each.
  EXPECT_EQ(whole.total({.live_activations = 12, .memory_limit = kUnbounded.memory_limit}),
            8 * (100 + 40) + 24);
  // In 250 bytes go two of 100 or six of 40.
  EXPECT_EQ(whole.total({.live_activations = 0, .memory_limit = {250}}), 2 * 100 + 6 * 40 + 24);
  // What a split backward leaves of 40 takes 60. Beside what is left of others a forward of 100 is
  // let in at 150 or below, where two of 60 lie already; one of 40 at 210, where five of 40 do.
  const TwoChunks split(model::ScheduleKind::ZeroBubbleV);
  EXPECT_EQ(split.total(kUnbounded), 8 * (100 + 60) + 24);
  EXPECT_EQ(split.total({.live_activations = 0, .memory_limit = {250}}), 3 * 100 + 6 * 60 + 24);
}

TEST(SlotPool, GivesOutNoMoreThanItHas) {
  SlotPool pool(SlotPoolPlan{.held = {{.count = 2, .size = {100}}}, .transient = {24}});
  const auto key = [](std::int32_t chunk, std::int32_t micro_batch) {
    return BufferKey{model::BufferKind::Activation, {chunk}, {micro_batch}};
  };
  const std::span<float> first = pool.take(key(0, 0), 25);
  const std::span<float> second = pool.take(key(1, 0), 10);
  EXPECT_TRUE(first.data() + 25 <= second.data() || second.data() + 25 <= first.data());
  EXPECT_EQ(pool.take({model::BufferKind::ForwardTransient, {0}, {0}}, 6).size(), 6u);
  EXPECT_THROW(pool.take(key(0, 1), 25), std::runtime_error);
  pool.give_back(key(1, 0));
  EXPECT_EQ(pool.take(key(0, 1), 25).data(), second.data());
}

}  // namespace
}  // namespace megatwin::exec
