// A policy behind the C function: it sees what a policy sees, its decisions come out of the events
// again, and an answer that is none is refused.
#include "policies/user_policy.h"

#include <string>
#include <vector>

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

// Two sends are held for want of a slot: a library is told that none is free, not minus two.
TEST(UserPolicy, IsToldOfNoFewerThanZeroFreeSlots) {
  const auto look = [](const megatwin_observation* seen, std::int64_t*) -> std::int32_t {
    EXPECT_EQ(seen->receive_slots, 3);
    EXPECT_EQ(seen->free_slots[0], 0);
    EXPECT_EQ(seen->free_slots[1], 3);
    return seen->num_ready - 1;
  };
  const model::Program program = build_program(
      tests::uniform_spec({model::ScheduleKind::OneForwardOneBackward, 2, 1, 3, 10, 12, 8}), {0});
  const std::int32_t slots[model::kNumChannels] = {-2, 3, 3, 3};
  const std::vector<model::TaskId> ready = {{0}};
  const std::vector<model::QuantisedDuration> durations(2, 0);
  UserPolicy policy(look);
  EXPECT_EQ(policy.pick({.program = program,
                         .ready = ready,
                         .receive_slots = 3,
                         .free_slots = slots,
                         .durations = durations}),
            model::TaskId{0});
}

std::string thrown_by(UserPolicyFunction function) {
  const model::ProgramSpec spec =
      tests::uniform_spec({model::ScheduleKind::OneForwardOneBackward, 2, 1, 3, 10, 12, 8});
  try {
    simulate_pipeline(spec, sim::Engine::Events, {.policy = user_policy_factory(function)});
  } catch (const UserPolicyError& error) {
    return error.what();
  }
  return "";
}

TEST(UserPolicy, RefusesWhatIsNoAnswer) {
  EXPECT_EQ(thrown_by([](const megatwin_observation* seen, std::int64_t* state) -> std::int32_t {
              return state[0]++ < 2 ? 0 : seen->num_ready;
            }),
            "stage 0, 2 of 6 tasks issued: megatwin_policy_v1 returned 1 with 1 tasks ready; it "
            "must be from 0 to one less, or MEGATWIN_WAIT (-1)");
  EXPECT_EQ(thrown_by([](const megatwin_observation*, std::int64_t* state) -> std::int32_t {
              state[MEGATWIN_POLICY_STATE] = 1;
              return 0;
            }),
            "stage 0: megatwin_policy_v1 wrote beyond the 64 numbers of its state");
  EXPECT_EQ(thrown_by([](const megatwin_observation*, std::int64_t*) -> std::int32_t { throw 42; }),
            "stage 0: megatwin_policy_v1 threw something that is no std::exception");
}

// Two stages, three micro-batches. Who waits is told so; who only ever runs forwards is told what
// is withheld: with room for one there is none for a second before its backward.
TEST(UserPolicy, SaysWhyAStepNeverEnds) {
  const auto waits = [](const megatwin_observation*, std::int64_t*) -> std::int32_t {
    return MEGATWIN_WAIT;
  };
  const model::ProgramSpec spec =
      tests::uniform_spec({model::ScheduleKind::OneForwardOneBackward, 2, 1, 3, 10, 12, 8});
  const std::vector<std::string> waiting =
      simulate_pipeline(spec, sim::Engine::Events, {.policy = user_policy_factory(waits)}).stalled;
  EXPECT_EQ(waiting,
            (std::vector<std::string>{
                "rank 0, stage 0, ran 0 of 6 tasks; then F0.0 may be issued, but the policy waits",
                "rank 1, stage 1, ran 0 of 6 tasks; then nothing it may run came any more"}));
}

// The last micro-batch first: its gradients have to wait for those of the first, whose forward has
// no room any more.
TEST(UserPolicy, SaysWhatIsWithheld) {
  const auto last = [](const megatwin_observation* seen, std::int64_t*) -> std::int32_t {
    return seen->num_ready - 1;
  };
  const model::ProgramSpec spec =
      tests::uniform_spec({model::ScheduleKind::OneForwardOneBackward, 1, 1, 4, 10, 12, 8});
  const model::Bytes two{200};  // 100 a micro-batch.
  const std::vector<std::string> stalled =
      simulate_pipeline(spec, sim::Engine::Events,
                        {.policy = user_policy_factory(last), .memory_limits = {two}})
          .stalled;
  EXPECT_EQ(stalled, (std::vector<std::string>{
                         "rank 0, stage 0, ran 2 of 8 tasks; then F0.0 and 1 more forwards do not "
                         "fit below the memory limit; B2.0 is withheld: B0.0 has to come first "
                         "and is not ready"}));
}

}  // namespace
}  // namespace megatwin::policies
