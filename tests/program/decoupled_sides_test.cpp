#include "model/program/decoupled_sides.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "model/numbers.h"
#include "model/program/program_builder.h"
#include "policies/schedule.h"
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

struct Counted {
  int sends = 0, receives = 0;
  std::map<std::tuple<StageId, TaskKind, MicroBatchId>, int> runs;
};

// Both ends of every message between the sides name each other.
void expect_ends_agree(const std::vector<ProgramSpec>& specs, const Program& program,
                       const std::vector<Program>& programs, Counted& counted) {
  const bool is_forward = program.shape.side == PipelineSide::Forward;
  const SideInstances instances = specs.front().instances;
  const auto expect_end = [&](std::int32_t id, const Message& message, int ahead) {
    ++counted.sends;
    const int role = message.instance + (is_forward ? instances.forward : 0);
    const Program& other = programs[model::as_index(std::int64_t{role} * specs.front().pipeline +
                                                    message.stage.value)];
    const auto receiver = static_cast<std::size_t>(message.task.value);
    EXPECT_EQ(other.stage, program.stage);
    EXPECT_EQ(other.awaited_crossings[receiver].task.value, id);
    EXPECT_EQ(other.awaited_crossings[receiver].instance, program.shape.instance);
    const Task& task = program.tasks[static_cast<std::size_t>(id)];
    EXPECT_EQ(other.tasks[receiver].micro_batch.value - task.micro_batch.value, ahead);
  };
  for (std::int32_t id = 0; id < program.num_tasks(); ++id) {
    const Task& task = program.tasks[static_cast<std::size_t>(id)];
    EXPECT_EQ(task, program.shape.task({id}));
    EXPECT_EQ(program.shape.task_id(task).value, id);
    EXPECT_EQ(program.shape.kind_of_row(program.shape.row_of(task)), task.kind);
    EXPECT_EQ(task.micro_batch.value % instances.of(program.shape.side), program.shape.instance);
    ++counted.runs[{program.stage, task.kind, task.micro_batch}];
    counted.receives += program.awaits_crossing({id}) ? 1 : 0;
    const auto index = static_cast<std::size_t>(id);
    if (program.feeds({id})) expect_end(id, program.crossings[index], 0);
    const int bound = specs.front().crossing(0).fed_max;
    if (program.makes_room({id})) {
      expect_end(id, program.rooms[index], bound * instances.backward);
    }
  }
}

// Every micro-batch once on each side of each stage; the forward side works out the weight
// gradients of those that left_weights_test.cpp tests.
TEST(DecoupledSides, ProgramsAgreeOnEveryCrossing) {
  const int p = 2, m = 7;
  for (const SideFeed feed : {SideFeed::StageInput, SideFeed::Activations}) {
    for (int a = 1; a <= 3; ++a) {
      for (int b = 1; b <= 3; ++b) {
        for (int bound = 0; bound <= 2; ++bound) {
          for (int left = 0; left <= m; ++left) {
            DecoupledSides sides = sides_of(p, m, {a, b}, feed, bound);
            sides.weight_share = static_cast<double>(left) / m;
            const auto specs = decoupled_sides(sides);
            const auto programs = build_programs(specs);
            Counted counted;
            for (const Program& program : programs) {
              expect_ends_agree(specs, program, programs, counted);
            }
            EXPECT_EQ(counted.sends, counted.receives);
            const int fed_stages = feed == SideFeed::Activations ? p : p - 1;
            const bool bounded = feed == SideFeed::Activations && bound > 0;
            EXPECT_EQ(counted.sends,
                      m * fed_stages + left * p + (bounded ? std::max(m - bound * b, 0) * p : 0));
            EXPECT_EQ(counted.runs.size(), static_cast<std::size_t>((3 * m + left) * p));
            for (const auto& [task, times] : counted.runs) EXPECT_EQ(times, 1);
            const LeftWeights rule{
                .share = sides.weight_share, .micro_batches = m, .round = round_of(a, b)};
            for (std::int32_t n = 0; n < m; ++n) {
              const std::size_t is_left = left > 0 && rule.has({n}) ? 1 : 0;
              const MicroBatchId id{n};
              EXPECT_EQ(counted.runs.count({StageId{0}, TaskKind::BackwardWeight, id}), is_left);
              EXPECT_EQ(counted.runs.count({StageId{0}, TaskKind::BackwardInput, id}), is_left);
              EXPECT_EQ(counted.runs.count({StageId{0}, TaskKind::Backward, id}), 1 - is_left);
            }
          }
        }
      }
    }
  }
}

// Forward ranks that work out weight gradients keep sums of them; the order is the given one, or
// after all forwards. Seven micro-batches of which three are left: the third, fifth and last.
TEST(DecoupledSides, ForwardRanksMayWorkOutWeightGradients) {
  DecoupledSides sides = sides_of(1, 7, {1, 1}, SideFeed::Activations, 0);
  sides.weight_share = 3.0 / 7;
  const auto specs = decoupled_sides(sides);
  EXPECT_EQ(specs[0].stages.front().gradients.value, 50);
  EXPECT_GT(specs[0].stages.front().chunks.front().backward_weight.ns, 0);
  const auto text_of = [](const ProgramSpec& spec) {
    std::string text;
    const policies::Order order = policies::schedule_orders(spec).front();
    for (const TaskId id : order) {
      text += to_text(pipeline_shape(spec).task(id)) + " ";
    }
    return text;
  };
  EXPECT_EQ(text_of(specs[0]), "F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 F6.0 W2.0 W4.0 W6.0 ");
  EXPECT_EQ(text_of(specs[1]),
            "R0.0 B0.0 R1.0 B1.0 R2.0 I2.0 R3.0 B3.0 R4.0 I4.0 R5.0 B5.0 R6.0 I6.0 ");
  sides.forward_orders = {
      {"F0.0", "F1.0", "F2.0", "F3.0", "W2.0", "F4.0", "F5.0", "F6.0", "W4.0", "W6.0"}};
  EXPECT_EQ(text_of(decoupled_sides(sides)[0]),
            "F0.0 F1.0 F2.0 F3.0 W2.0 F4.0 F5.0 F6.0 W4.0 W6.0 ");
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
