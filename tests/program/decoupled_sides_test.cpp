#include "model/program/decoupled_sides.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "model/numbers.h"
#include "model/program/program_builder.h"
#include "tests/sim/pipeline_specs.h"

namespace megatwin::model {
namespace {

DecoupledSides sides_of(int p, int m, const SideInstances& instances, SideFeed feed, int bound) {
  DecoupledSides sides{
      .forward = tests::uniform_spec({ScheduleKind::OneForwardOneBackward, p, 1, m, 3, 4, 2}),
      .feed = feed,
      .instances = instances};
  sides.forward.stages.front().optimizer = {7};
  sides.forward.stages.front().gradients = {50};
  sides.backward = sides.forward;
  sides.crossings.assign(static_cast<std::size_t>(p), {.feed = {1}, .fed_max = bound});
  return sides;
}

TEST(DecoupledSides, EachInstanceIsAProgramAndEachSideKeepsItsOwn) {
  const auto specs = decoupled_sides(sides_of(2, 5, {2, 3}, SideFeed::Activations, 1));
  ASSERT_EQ(specs.size(), 5u);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const bool is_forward = i < 2;
    EXPECT_EQ(specs[i].side, is_forward ? PipelineSide::Forward : PipelineSide::Backward);
    EXPECT_EQ(specs[i].instance, static_cast<int>(is_forward ? i : i - 2));
    const StageCost& stage = specs[i].stages.front();
    EXPECT_EQ(stage.optimizer.ns, is_forward ? 0 : 7);
    EXPECT_EQ(stage.gradients.value, is_forward ? 0 : 50);
    EXPECT_EQ(stage.chunks.front().forward.ns, is_forward ? 3 : 0);
    EXPECT_EQ(stage.chunks.front().backward.ns, is_forward ? 0 : 6);
    EXPECT_EQ(specs[i].crossing(0).fed_max, 1);
  }
  // Five micro-batches over three backward ranks are two, two and one.
  EXPECT_EQ(pipeline_shape(specs[2]).micro_batches, 2);
  EXPECT_EQ(pipeline_shape(specs[4]).micro_batches, 1);
  EXPECT_EQ(pipeline_shape(specs[3]).micro_batch(1).value, 4);
}

TEST(DecoupledSides, RunTheForwardAgainOnTheInput) {
  const auto specs = decoupled_sides(sides_of(2, 5, {1, 1}, SideFeed::StageInput, 2));
  EXPECT_EQ(specs[1].stages.front().chunks.front().forward.ns, 3);
  EXPECT_EQ(specs[0].crossing(0).fed_max, 0);
}

// Two backward ranks of eight micro-batches have four each.
TEST(DecoupledSides, ABoundThatHoldsNobodyBackIsLeftOut) {
  const auto bound_of = [](int bound) {
    return decoupled_sides(sides_of(1, 8, {1, 2}, SideFeed::Activations, bound))[0]
        .crossing(0)
        .fed_max;
  };
  EXPECT_EQ(bound_of(3), 3);
  EXPECT_EQ(bound_of(4), 0);
  EXPECT_EQ(bound_of(0), 0);
}

TEST(DecoupledSides, EveryInstanceNeedsAMicroBatch) {
  EXPECT_TRUE(instance_problems(3, {3, 2}).empty());
  const auto problems = instance_problems(3, {1, 4});
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(
      problems.front(),
      "policy.backward.instances is 4, more than the micro-batches of a step (3); each instance "
      "needs at least one");
}

// Every micro-batch once on each side of each stage, and both ends of a crossing name each other.
TEST(DecoupledSides, ProgramsAgreeOnEveryCrossing) {
  for (const SideFeed feed : {SideFeed::StageInput, SideFeed::Activations}) {
    for (int a = 1; a <= 3; ++a) {
      for (int b = 1; b <= 3; ++b) {
        for (int bound = 0; bound <= 2; ++bound) {
          const int p = 2, m = 7;
          const auto specs = decoupled_sides(sides_of(p, m, {a, b}, feed, bound));
          const auto programs = build_programs(specs);
          int sends = 0, receives = 0;
          std::map<std::tuple<StageId, TaskKind, MicroBatchId>, int> runs;
          for (const Program& program : programs) {
            const bool is_forward = program.shape.side == PipelineSide::Forward;
            for (std::int32_t id = 0; id < program.num_tasks(); ++id) {
              const Task& task = program.tasks[static_cast<std::size_t>(id)];
              EXPECT_EQ(task, program.shape.task({id}));
              EXPECT_EQ(program.shape.task_id(task).value, id);
              EXPECT_EQ(task.micro_batch.value % (is_forward ? a : b), program.shape.instance);
              ++runs[{program.stage, task.kind, task.micro_batch}];
              receives += program.awaits_crossing({id}) ? 1 : 0;
              if (!program.crosses({id})) continue;
              ++sends;
              const Message& message = program.crossings[static_cast<std::size_t>(id)];
              const int role = message.instance + (is_forward ? a : 0);
              const Program& other =
                  programs[model::as_index(std::int64_t{role} * p + message.stage.value)];
              const auto receiver = static_cast<std::size_t>(message.task.value);
              EXPECT_EQ(other.stage, program.stage);
              EXPECT_EQ(other.awaited_crossings[receiver].task.value, id);
              EXPECT_EQ(other.awaited_crossings[receiver].instance, program.shape.instance);
              const int ahead = other.tasks[receiver].micro_batch.value - task.micro_batch.value;
              EXPECT_EQ(ahead, is_forward ? 0 : bound * b);
            }
          }
          EXPECT_EQ(sends, receives);
          const int fed_stages = feed == SideFeed::Activations ? p : p - 1;
          const bool bounded = feed == SideFeed::Activations && bound > 0;
          EXPECT_EQ(sends, m * fed_stages + (bounded ? std::max(m - bound * b, 0) * p : 0));
          EXPECT_EQ(runs.size(), static_cast<std::size_t>(3 * p * m));
          for (const auto& [task, times] : runs) EXPECT_EQ(times, 1);
        }
      }
    }
  }
}

TEST(FedMax, IsWhatFitsOnEitherSide) {
  const auto room = [](double free) { return FeedRoom{{free}, {10}}; };
  EXPECT_EQ(fed_max({1, 1}, room(75), room(200)), 7);
  EXPECT_EQ(fed_max({1, 1}, room(750), room(200)), 20);
  EXPECT_EQ(fed_max({1, 1}, std::nullopt, room(200)), 20);
  EXPECT_EQ(fed_max({1, 1}, room(5), room(-3)), 1);
  // One forward rank for two backward ranks has what both are to be fed; two for one have half.
  EXPECT_EQ(fed_max({1, 2}, room(75), room(200)), 3);
  EXPECT_EQ(fed_max({2, 1}, room(75), room(200)), 14);
  EXPECT_EQ(fed_max({1, 1}, std::nullopt, std::nullopt), 0);
}

// By counting: windows of k micro-batches in a row at every backward rank, wherever they begin.
TEST(FedMax, NeverBeginsMoreThanAForwardRankKeeps) {
  for (int a = 1; a <= 4; ++a) {
    for (int b = 1; b <= 4; ++b) {
      for (int fits = 1; fits <= 9; ++fits) {
        const int k = fed_max({a, b}, FeedRoom{{10.0 * fits}, {10}}, std::nullopt);
        const auto most_of = [&](int window) {
          std::vector<int> most(static_cast<std::size_t>(a), 0);
          for (int backward = 0; backward < b; ++backward) {
            std::vector<int> begun(static_cast<std::size_t>(a), 0);
            for (int first = 0; first < a; ++first) {
              std::vector<int> of(static_cast<std::size_t>(a), 0);
              for (int place = first; place < first + window; ++place) {
                ++of[static_cast<std::size_t>((backward + place * b) % a)];
              }
              for (std::size_t f = 0; f < of.size(); ++f) begun[f] = std::max(begun[f], of[f]);
            }
            for (std::size_t f = 0; f < begun.size(); ++f) most[f] += begun[f];
          }
          return *std::max_element(most.begin(), most.end());
        };
        EXPECT_TRUE(k == 1 || most_of(k) <= fits) << a << " " << b << " " << fits;
        EXPECT_GT(most_of(k + 1), fits) << a << " " << b << " " << fits;
      }
    }
  }
}

}  // namespace
}  // namespace megatwin::model
