// Numbers go from ranks that cut matrices in one way to ranks that cut them in another.
#include "exec/reshard.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "exec/model_chunk.h"
#include "exec/parameter_table.h"
#include "exec/side_crossing.h"
#include "exec/side_weights.h"
#include "model/program/program_spec.h"
#include "tests/exec/tiny_jobs.h"

namespace megatwin::exec {
namespace {

using model::PipelineSide;
using model::Plan;
using model::RankId;

// A matrix of three rows and four columns, whose numbers are 10 · row + column. One rank has the
// first two columns, another the last two; the third wants rows 1 and 2, in rows that lie five
// apart, from place 3 on:
//   . . . 10 11 12 13 . 20 21 22 23
TEST(Reshard, MovesColumnsIntoRowsByHand) {
  const MatrixPart left = part_of({2, 0}, 3, 4, Cut::Columns);
  const MatrixPart right = part_of({2, 1}, 3, 4, Cut::Columns);
  const MatrixPart lower{.rows = 2,
                         .columns = 4,
                         .rows_total = 3,
                         .columns_total = 4,
                         .first_row = 1,
                         .first_column = 0};
  const std::vector<std::vector<HeldPart>> sources = {{{"m", left, {0, 6}, 0, 2}},
                                                      {{"m", right, {0, 6}, 0, 2}}};
  const auto runs = runs_from(sources, {{"m", lower, {0, 8}, 3, 5}});
  EXPECT_EQ(runs[0], (std::vector<NumberRun>{{2, 3, 2}, {4, 8, 2}}));
  EXPECT_EQ(runs[1], (std::vector<NumberRun>{{2, 5, 2}, {4, 10, 2}}));
  std::vector<float> buffer(12, -1);
  scatter(gathered(std::vector<float>{0, 1, 10, 11, 20, 21}, runs[0]), runs[0], buffer);
  scatter(gathered(std::vector<float>{2, 3, 12, 13, 22, 23}, runs[1]), runs[1], buffer);
  EXPECT_EQ(buffer, (std::vector<float>{-1, -1, -1, 10, 11, 12, 13, -1, 20, 21, 22, 23}));
}

// Both have numbers 0 to 3 of five, the first source is taken; number 4 is the second's alone.
TEST(Reshard, TakesEveryNumberOnceFromTheFirstThatHasIt) {
  const MatrixPart whole = part_of({}, 5, 1, Cut::None);
  const std::vector<std::vector<HeldPart>> sources = {{{"m", whole, {0, 4}, 0, 1}},
                                                      {{"m", whole, {0, 5}, 0, 1}}};
  const auto runs = runs_from(sources, {{"m", whole, {0, 5}, 0, 1}});
  EXPECT_EQ(runs[0], (std::vector<NumberRun>{{0, 0, 4}}));
  EXPECT_EQ(runs[1], (std::vector<NumberRun>{{4, 4, 1}}));
}

// The weights of a stage on each rank of it, from the first values, which are a function of the
// place in the whole matrix: every cut has the same.
class StageWeights {
 public:
  StageWeights(const model::Transformer& transformer, const Plan& plan)
      : plan_(plan),
        layout_(plan),
        forward_(model_shape(transformer, side_plan(plan, PipelineSide::Forward))),
        backward_(model_shape(transformer, side_plan(plan, PipelineSide::Backward))) {}

  // What the backward ranks send, put together, against the forward ranks' own first values.
  void expect_right_numbers_arrive() const {
    const ChunkPart part{
        .first_layer = 0, .num_layers = 4, .has_embedding = true, .has_head = true};
    for (std::int32_t rank = 0; rank < layout_.num_ranks(); ++rank) {
      if (layout_.instance({rank}).side == PipelineSide::Backward) continue;
      const std::vector<float> expected = first_weights({rank}, part);
      std::vector<float> arrived(expected.size(), -7);
      for (const WeightTransfer& in : weight_transfers(request({rank}, part))) {
        const auto sent = weight_transfers(request(in.rank, part));
        const auto out = std::find_if(sent.begin(), sent.end(), [&](const WeightTransfer& other) {
          return other.rank.value == rank;
        });
        ASSERT_NE(out, sent.end());
        EXPECT_EQ(out->runs, in.runs);
        scatter(gathered(first_weights(in.rank, part), out->runs), in.runs, arrived);
      }
      EXPECT_EQ(arrived, expected) << "rank " << rank;
    }
  }

 private:
  SideWeightsRequest request(RankId rank, const ChunkPart& part) const {
    return {.layout = layout_,
            .forward = forward_,
            .backward = backward_,
            .instances = instances_of(plan_),
            .part = part,
            .rank = rank};
  }

  std::vector<float> first_weights(RankId rank, const ChunkPart& part) const {
    const model::RankCoordinates at = layout_.coordinates(rank);
    const bool is_forward = layout_.instance(rank).side == PipelineSide::Forward;
    const ModelShape& shape = is_forward ? forward_ : backward_;
    const ParameterTable table = parameter_table(
        {.shape = shape,
         .part = part,
         .member = {.tensor = at.tensor, .expert = at.expert, .expert_tensor = at.expert_tensor}});
    std::vector<float> weights;
    for (const ParameterUnit& unit : table.units) {
      Slice held = unit.place;
      if (shape.shards_weights()) {
        const auto members = layout_.members(model::GroupKind::Data, rank);
        const auto own = std::find(members.begin(), members.end(), rank) - members.begin();
        const Slice shard = shard_of(held.size, static_cast<int>(own), shape.replicas);
        held = {held.offset + shard.offset, shard.size};
      }
      const std::size_t begin = weights.size();
      weights.resize(begin + static_cast<std::size_t>(held.size));
      start_parameters({.table = table, .num_layers = 4, .seed = 5, .held = held},
                       std::span<float>(weights).subspan(begin));
    }
    return weights;
  }

  Plan plan_;
  HostLayout layout_;
  ModelShape forward_, backward_;
};

Plan sides(int forward, int backward) {
  Plan plan;
  plan.schedule = model::ScheduleKind::Decoupled;
  plan.decoupled.forward.tensor = forward;
  plan.decoupled.backward.tensor = backward;
  return plan;
}

TEST(SideWeights, ArriveWhereverTheSidesCutThem) {
  for (const int forward : {1, 2, 4}) {
    for (const int backward : {1, 2, 4}) {
      for (const int zero : {0, 3}) {
        Plan plan = sides(forward, backward);
        plan.data = 2;
        plan.zero_stage = zero;
        if (zero == 0) plan.decoupled.forward.instances = 3;
        if (zero == 0) plan.decoupled.backward.instances = 2;
        plan.global_batch = 8;
        StageWeights(tests::tiny_gpt(), plan).expect_right_numbers_arrive();
      }
    }
  }
}

TEST(SideWeights, OfExpertsComeFromWhoeverHasThem) {
  for (const int expert_tensor : {0, 1}) {
    Plan plan = sides(2, 1);
    plan.sequence_parallel = true;
    plan.data = plan.expert = 2;
    plan.expert_tensor = expert_tensor;
    plan.global_batch = 8;
    StageWeights(tests::tiny_experts(), plan).expect_right_numbers_arrive();
  }
}

// Copies that all backward ranks have come from the nearest: each of four forward ranks hears of
// one of two backward ranks only, where neither cut needs more.
TEST(SideWeights, OfTwiceAsManyForwardRanksComeFromOneEach) {
  const Plan plan = sides(4, 2);
  const HostLayout layout(plan);
  const ModelShape forward = model_shape(tests::tiny_gpt(), side_plan(plan, PipelineSide::Forward));
  const ModelShape backward =
      model_shape(tests::tiny_gpt(), side_plan(plan, PipelineSide::Backward));
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    const auto transfers = weight_transfers({.layout = layout,
                                             .forward = forward,
                                             .backward = backward,
                                             .instances = {},
                                             .part = {.num_layers = 1},
                                             .rank = {rank}});
    ASSERT_EQ(transfers.size(), 1u);
    EXPECT_EQ(transfers.front().rank.value, 4 + rank / 2);
  }
}

// The stage's input without sequence parallelism, which all have: two backward ranks hear of the
// first and the third of four forward ranks, four hear of the nearer of two. With it each of two
// backward ranks has the tokens of two forward ranks, and each of four a half of one's.
TEST(SideCrossing, CopiesComeFromTheNearestAndSharesFromTheirOwners) {
  const auto sources_of = [](int forward, int backward, int member, bool sequence_parallel) {
    Plan plan = sides(forward, backward);
    plan.sequence_parallel = sequence_parallel;
    const ModelShape of_forward =
        model_shape(tests::tiny_gpt(), side_plan(plan, PipelineSide::Forward));
    const ModelShape of_backward =
        model_shape(tests::tiny_gpt(), side_plan(plan, PipelineSide::Backward));
    const auto runs = fed_runs(
        {.forward = of_forward, .backward = of_backward, .part = {.num_layers = 1}}, member);
    std::vector<int> sources;
    std::int64_t numbers = 0;
    for (int source = 0; source < std::ssize(runs); ++source) {
      const auto& sent = runs[static_cast<std::size_t>(source)];
      if (!sent.empty()) sources.push_back(source);
      for (const NumberRun& run : sent) numbers += run.size;
    }
    EXPECT_EQ(numbers, of_backward.message_size());
    return sources;
  };
  EXPECT_EQ(sources_of(4, 2, 0, false), std::vector<int>{0});
  EXPECT_EQ(sources_of(4, 2, 1, false), std::vector<int>{2});
  EXPECT_EQ(sources_of(2, 4, 1, false), std::vector<int>{0});
  EXPECT_EQ(sources_of(2, 4, 2, false), std::vector<int>{1});
  EXPECT_EQ(sources_of(2, 2, 1, false), std::vector<int>{1});
  EXPECT_EQ(sources_of(4, 2, 1, true), (std::vector<int>{2, 3}));
  EXPECT_EQ(sources_of(2, 4, 3, true), std::vector<int>{1});
}

}  // namespace
}  // namespace megatwin::exec
