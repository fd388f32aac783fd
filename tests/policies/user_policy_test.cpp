// A policy behind the C function: it sees what a policy sees, its decisions come out of the events
// again, and an answer that is none is refused.
#include "policies/user_policy.h"

#include <gtest/gtest.h>

#include "model/program/program_builder.h"
#include "policies/replay.h"
#include "sim/pipeline_simulation.h"
#include "tests/policies/greedy_policy.h"
#include "tests/sim/every_plan.h"
#include "tests/sim/seeds.h"

namespace megatwin::policies {
namespace {

// What GreedyPolicy of the tests does, in C.
std::int32_t greedy(const megatwin_observation* seen, std::int64_t* state) {
  std::int32_t best = 0;
  std::int32_t best_rank = -1;
  for (std::int32_t i = 0; i < seen->num_ready; ++i) {
    const megatwin_task& task = seen->ready[i];
    const bool gradient = task.kind == MEGATWIN_BACKWARD || task.kind == MEGATWIN_BACKWARD_INPUT;
    const std::int32_t rank = gradient                        ? 2 * seen->chunks - task.chunk
                              : task.kind == MEGATWIN_FORWARD ? 1 + task.chunk
                                                              : 0;
    if (rank > best_rank) {
      best = i;
      best_rank = rank;
    }
  }
  ++state[0];
  return best;
}

TEST(UserPolicy, SeesAndDecidesLikeOneOfOurs) {
  for (const std::uint64_t seed : tests::seeds(40)) {
    tests::Random random(seed);
    const model::ProgramSpec spec = tests::random_plan(random);
    SCOPED_TRACE(tests::rerun_line("policies_property_test", seed));
    const sim::PipelineResult theirs = simulate_pipeline(
        spec, sim::Engine::Events, {.policy = user_policy_factory(greedy), .log = true});
    const sim::PipelineResult ours =
        simulate_pipeline(spec, sim::Engine::Events, {.policy = tests::greedy_factory()});
    const auto programs = build_programs(spec);
    for (std::size_t rank = 0; rank < programs.size(); ++rank) {
      ASSERT_EQ(theirs.ranks[rank].order, ours.ranks[rank].order);
      UserPolicy policy(greedy);
      const Replay again =
          replay({.program = programs[rank], .policy = &policy}, theirs.logs[rank].events);
      ASSERT_EQ(again.divergence, "");
      ASSERT_EQ(again.decisions, theirs.logs[rank].decisions);
    }
  }
}

// A pipeline of two: what the last stage sees first.
TEST(UserPolicy, IsToldWhatTheHeaderSays) {
  const auto look = [](const megatwin_observation* seen, std::int64_t* state) -> std::int32_t {
    if (seen->stage == 1 && state[0]++ == 0) {
      EXPECT_EQ(seen->stages, 2);
      EXPECT_EQ(seen->chunks, 1);
      EXPECT_EQ(seen->micro_batches, 3);
      EXPECT_EQ(seen->num_ready, 1);
      EXPECT_EQ(seen->ready[0].kind, MEGATWIN_FORWARD);
      EXPECT_EQ(seen->memory_used, 0);
      EXPECT_EQ(seen->issue_depth, 2);
      EXPECT_EQ(seen->receive_slots, 0);
      EXPECT_EQ(seen->num_durations, 2);
      EXPECT_EQ(seen->durations_ns[0], 0);
    }
    return 0;
  };
  const model::ProgramSpec spec =
      tests::uniform_spec({model::ScheduleKind::OneForwardOneBackward, 2, 1, 3, 10, 12, 8});
  const sim::PipelineResult result =
      simulate_pipeline(spec, sim::Engine::Events, {.policy = user_policy_factory(look)});
  EXPECT_TRUE(result.stalled.empty());
}

TEST(UserPolicy, RefusesWhatIsNoAnswer) {
  const model::ProgramSpec spec =
      tests::uniform_spec({model::ScheduleKind::OneForwardOneBackward, 2, 1, 3, 10, 12, 8});
  const auto wrong = [](const megatwin_observation* seen, std::int64_t*) -> std::int32_t {
    return seen->num_ready;
  };
  EXPECT_THROW(simulate_pipeline(spec, sim::Engine::Events, {.policy = user_policy_factory(wrong)}),
               UserPolicyError);
  const auto waits = [](const megatwin_observation*, std::int64_t*) -> std::int32_t {
    return MEGATWIN_WAIT;
  };
  EXPECT_EQ(simulate_pipeline(spec, sim::Engine::Events, {.policy = user_policy_factory(waits)})
                .stalled.size(),
            2u);
}

}  // namespace
}  // namespace megatwin::policies
