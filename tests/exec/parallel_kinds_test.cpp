// Recomputation, tied embeddings, ZeRO 2 and 3, experts and context parallelism against one rank,
// and their products: the same losses to the bit where no sum runs in another order, else within
// 1e-5 relative. Every run is also held against the memory planner.
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "exec/model_state.h"
#include "tests/exec/train_tiny.h"
#include "tests/sim/pipeline_specs.h"

namespace megatwin::exec {
namespace {

using model::Plan;
using model::RecomputeKind;
using model::ScheduleKind;
using tests::describe;
using tests::expect_close;
using tests::pipeline;
using tests::tiny_experts;
using tests::tiny_gpt;
using tests::tiny_llama;
using tests::train;

const std::vector<Plan>& pipelines() {
  static const std::vector<Plan> kPlans = {
      pipeline(ScheduleKind::GPipe, 2), pipeline(ScheduleKind::OneForwardOneBackward, 4),
      pipeline(ScheduleKind::Interleaved, 2, 2), pipeline(ScheduleKind::ZeroBubbleH1, 2),
      pipeline(ScheduleKind::ZeroBubbleV, 2, 2)};
  return kPlans;
}

double activations_max(const HostResult& result) {
  double most = 0;
  for (const HostRankReport& rank : result.ranks) {
    most = std::max(most, rank.activations_max.value);
  }
  return most;
}

double state_max(const HostResult& result) {
  double most = 0;
  for (const HostRankReport& rank : result.ranks) {
    most = std::max(most, rank.state.value);
  }
  return most;
}

TEST(Recompute, ChangesNoBit) {
  for (const auto& transformer : {tiny_llama(), tiny_gpt(), tiny_experts()}) {
    const HostResult single = train(transformer, {});
    for (Plan plan : pipelines()) {
      for (const RecomputeKind kind : {RecomputeKind::Selective, RecomputeKind::Full}) {
        plan.recompute = kind;
        EXPECT_EQ(train(transformer, plan).losses, single.losses)
            << transformer.name << " " << describe(plan);
      }
    }
  }
}

TEST(Recompute, ChangesNoBitOfParallelGroups) {
  Plan plan = pipelines()[1];
  plan.pipeline = 2;
  plan.tensor = plan.context = 2;
  plan.sequence_parallel = true;
  const HostResult without = train(tiny_llama(), plan);
  for (const RecomputeKind kind : {RecomputeKind::Selective, RecomputeKind::Full}) {
    plan.recompute = kind;
    EXPECT_EQ(train(tiny_llama(), plan).losses, without.losses) << describe(plan);
  }
}

// Four layers on one stage of a pipeline that holds two micro-batches: every layer that runs again
// keeps its input only.
TEST(Recompute, SavesMemoryLayerByLayer) {
  Plan plan;
  plan.schedule = ScheduleKind::GPipe;
  double before = activations_max(train(tiny_llama(), plan));
  plan.recompute = RecomputeKind::Selective;
  const double selective = activations_max(train(tiny_llama(), plan));
  EXPECT_LT(selective, before);
  plan.recompute = RecomputeKind::Full;
  for (const int layers : {1, 2, 3, 4}) {
    plan.recompute_layers = layers;
    const double now = activations_max(train(tiny_llama(), plan));
    EXPECT_LT(now, before) << layers;
    before = now;
  }
  plan.recompute_layers = 0;
  EXPECT_EQ(activations_max(train(tiny_llama(), plan)), before);
}

// On one rank both uses add to one gradient, micro-batch by micro-batch; in a pipeline each use has
// a copy and the sums meet at the end.
TEST(TiedEmbeddings, StayOneMatrix) {
  for (const auto& transformer : {tests::tied(tiny_llama()), tests::tied(tiny_gpt())}) {
    const HostResult single = train(transformer, {});
    const HostResult untied =
        transformer.qkv_bias ? train(tiny_gpt(), {}) : train(tiny_llama(), {});
    EXPECT_NE(single.losses, untied.losses);
    const HostResult first = train(transformer, pipelines()[0]);
    expect_close(first, single, describe(pipelines()[0]));
    for (const Plan& plan : pipelines()) {
      EXPECT_EQ(train(transformer, plan).losses, first.losses) << describe(plan);
    }
  }
}

TEST(TiedEmbeddings, WithReplicasAndTensorGroups) {
  const auto transformer = tests::tied(tiny_gpt());
  const HostResult single = train(transformer, {});
  for (Plan plan : pipelines()) {
    plan.tensor = 2;
    plan.sequence_parallel = true;
    for (const int zero : {0, 1, 2, 3}) {
      plan.data = zero == 0 ? 1 : 2;
      plan.zero_stage = zero;
      expect_close(train(transformer, plan), single, describe(plan));
    }
  }
  for (const int zero : {2, 3}) {  // Both uses on one rank.
    Plan plan;
    plan.data = 2;
    plan.zero_stage = zero;
    expect_close(train(transformer, plan), single, describe(plan));
  }
}

TEST(TiedEmbeddings, CountOnceForTheNorm) {
  tests::TinyJob tiny(tests::tied(tiny_llama()));
  tiny.job.gradient_norm_max = 0.05;
  const HostResult single = train(tiny.job);
  for (Plan plan : pipelines()) {
    plan.data = 2;
    plan.zero_stage = 2;
    tests::TinyJob piped(tests::tied(tiny_llama()), plan);
    piped.job.gradient_norm_max = 0.05;
    expect_close(train(piped.job), single, describe(plan));
  }
}

TEST(Zero, ShardsGradientsAndWeights) {
  for (const auto& transformer : {tiny_llama(), tiny_gpt()}) {
    const HostResult single = train(transformer, {});
    for (Plan plan : pipelines()) {
      plan.data = 2;
      plan.zero_stage = 2;
      const HostResult zero2 = train(transformer, plan);
      expect_close(zero2, single, describe(plan));
      plan.zero_stage = 3;
      EXPECT_EQ(train(transformer, plan).losses, zero2.losses) << describe(plan);
    }
  }
}

// Of 16 bytes a parameter (weight, gradient, two moments) each stage shards 8, 4 and 4 more.
TEST(Zero, StateShrinksStageByStage) {
  Plan plan;
  plan.data = 4;
  std::vector<double> state;
  for (const int zero : {0, 1, 2, 3}) {
    plan.zero_stage = zero;
    state.push_back(state_max(train(tiny_llama(), plan)));
  }
  EXPECT_NEAR(state[1] / state[0], (8 + 8 / 4.0) / 16, 1e-3);
  EXPECT_NEAR(state[2] / state[0], (4 + 12 / 4.0) / 16, 1e-3);
  EXPECT_NEAR(state[3] / state[0], 1 / 4.0, 1e-3);
}

// All weights and moments after the last step, by name.
ModelState state_after(const model::Transformer& transformer, const Plan& plan) {
  tests::TinyJob tiny(transformer, plan);
  ModelState state;
  tiny.job.on_step = [&](const StepEnd& end) {
    state = gather_state(end.state(), StatePart::WeightsAndMoments);
    return true;
  };
  train(tiny.job);
  return state;
}

void expect_same_state(const ModelState& a, const ModelState& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (const auto& [name, whole] : a) {
    const auto found = b.find(name);
    ASSERT_NE(found, b.end()) << what << " " << name;
    EXPECT_EQ(whole.weights, found->second.weights) << what << " " << name;
    EXPECT_EQ(whole.first_moment, found->second.first_moment) << what << " " << name;
    EXPECT_EQ(whole.second_moment, found->second.second_moment) << what << " " << name;
  }
}

// Stages 0 and 1 do the same sums, and so do 2 and 3: whatever lies where, it is the same model.
TEST(Zero, StateOfARunDoesNotDependOnItsShards) {
  Plan plan = pipelines()[0];
  plan.data = 2;
  for (const auto& transformer : {tests::tied(tiny_gpt()), tiny_experts()}) {
    plan.expert = transformer.experts ? 2 : 1;
    for (const int zero : {0, 2}) {
      plan.zero_stage = zero;
      const ModelState state = state_after(transformer, plan);
      plan.zero_stage = zero + 1;
      expect_same_state(state_after(transformer, plan), state, transformer.name + describe(plan));
    }
  }
}

TEST(Zero, WithTensorGroupsAndRecomputation) {
  const HostResult single = train(tiny_llama(), {});
  for (Plan plan : pipelines()) {
    plan.data = plan.tensor = 2;
    plan.sequence_parallel = true;
    plan.recompute = RecomputeKind::Full;
    for (const int zero : {2, 3}) {
      plan.zero_stage = zero;
      expect_close(train(tiny_llama(), plan), single, describe(plan));
    }
  }
}

TEST(Context, RingsGiveTheLossOfOneRank) {
  for (const auto& transformer : {tiny_llama(), tiny_gpt()}) {
    const HostResult single = train(transformer, {});
    for (const int context : {2, 4}) {
      Plan plan;
      plan.context = context;
      expect_close(train(transformer, plan), single, transformer.name + describe(plan));
    }
  }
}

// A pipeline changes no sum inside a ring.
TEST(Context, PipelinesGiveTheSameBits) {
  Plan alone;
  alone.context = 2;
  const HostResult ring = train(tiny_llama(), alone);
  for (Plan plan : pipelines()) {
    plan.context = 2;
    EXPECT_EQ(train(tiny_llama(), plan).losses, ring.losses) << describe(plan);
  }
}

// The first and the last of four chunks of two tokens, and the two in the middle.
TEST(Context, ChunksAreBalanced) {
  ModelShape shape;
  shape.sequence = 8;
  shape.context = 2;
  EXPECT_EQ(local_positions(shape, 0), (std::vector<std::int64_t>{0, 1, 6, 7}));
  EXPECT_EQ(local_positions(shape, 1), (std::vector<std::int64_t>{2, 3, 4, 5}));
}

Plan experts(int expert, int data) {
  Plan plan;
  plan.expert = expert;
  plan.data = data;
  return plan;
}

const ExpertSettings kBalanced{.balance_loss = 0.1};
const ExpertSettings kDropping{.capacity_factor = 0.75, .balance_loss = 0.1};

TEST(Experts, SettingsMatter) {
  const auto plain = train(tiny_experts(), {}).losses;
  const auto balanced = train(tiny_experts(), {}, kBalanced).losses;
  EXPECT_NE(plain, balanced);
  EXPECT_NE(train(tiny_experts(), {}, kDropping).losses, balanced);
  // With room for everything nothing is dropped.
  EXPECT_EQ(train(tiny_experts(), {}, {.capacity_factor = 4, .balance_loss = 0.1}).losses,
            balanced);
}

TEST(Experts, PipelinesGiveTheSameBits) {
  for (const ExpertSettings& settings : {kBalanced, kDropping}) {
    const HostResult single = train(tiny_experts(), {}, settings);
    for (const Plan& plan : pipelines()) {
      EXPECT_EQ(train(tiny_experts(), plan, settings).losses, single.losses) << describe(plan);
    }
  }
}

// Experts spread over replicas, over a tensor-parallel group, cut over one, over a ring.
TEST(Experts, ParallelGroups) {
  std::vector<Plan> plans = {experts(2, 2), experts(4, 4), experts(2, 4)};
  Plan tensor = experts(2, 1);
  tensor.tensor = 2;
  tensor.sequence_parallel = true;
  tensor.expert_tensor = 1;
  plans.push_back(tensor);
  tensor.data = 2;
  tensor.expert = 4;
  plans.push_back(tensor);
  tensor.expert = 2;
  tensor.expert_tensor = 2;
  plans.push_back(tensor);
  Plan cut = experts(1, 2);  // Only the experts are cut.
  cut.expert_tensor = 2;
  plans.push_back(cut);
  Plan ring = experts(2, 1);
  ring.context = 2;
  plans.push_back(ring);
  for (const ExpertSettings& settings : {kBalanced, kDropping}) {
    const HostResult single = train(tiny_experts(), {}, settings);
    for (Plan plan : plans) {
      expect_close(train(tiny_experts(), plan, settings), single, describe(plan));
      for (const int zero : {1, 3}) {
        plan.zero_stage = zero;
        expect_close(train(tiny_experts(), plan, settings), single, describe(plan));
      }
    }
  }
}

TEST(Experts, ClippingCountsEveryExpertOnce) {
  tests::TinyJob tiny(tiny_experts());
  tiny.job.gradient_norm_max = 0.05;
  const HostResult single = train(tiny.job);
  Plan plan = experts(2, 2);
  plan.tensor = 2;
  plan.sequence_parallel = true;
  for (const int expert_tensor : {1, 2}) {
    plan.expert_tensor = expert_tensor;
    for (const int zero : {0, 1, 3}) {
      plan.zero_stage = zero;
      tests::TinyJob many(tiny_experts(), plan);
      many.job.gradient_norm_max = 0.05;
      expect_close(train(many.job), single, describe(plan));
    }
  }
}

// Without a pipeline every product of tensor- and context-parallel pairs and up to four replicas;
// with two stages each schedule with each ZeRO stage, on two or four replicas, twice of the four
// with context-parallel pairs. What else there is is drawn from the seed: the ZeRO stage of the
// former, tensor-parallel pairs, recomputation. At most 16 ranks.
std::vector<Plan> products() {
  tests::Random random(2);
  const auto with_the_rest = [&](Plan plan) {
    plan.sequence_parallel = plan.tensor > 1;
    plan.recompute = random.in(0, 2) == 0 ? RecomputeKind::Full : RecomputeKind::None;
    plan.recompute_layers = 1;
    return plan;
  };
  std::vector<Plan> plans;
  for (const int data : {1, 2, 4}) {
    for (const int tensor : {1, 2}) {
      for (const int context : {1, 2}) {
        Plan plan;
        plan.data = data;
        plan.tensor = tensor;
        plan.context = context;
        plan.zero_stage = static_cast<int>(random.in(0, 3));
        plans.push_back(with_the_rest(plan));
      }
    }
  }
  for (const Plan& schedule :
       {pipeline(ScheduleKind::OneForwardOneBackward, 2), pipeline(ScheduleKind::Interleaved, 2, 2),
        pipeline(ScheduleKind::ZeroBubbleH1, 2), pipeline(ScheduleKind::ZeroBubbleV, 2, 2)}) {
    const auto first_ring = static_cast<int>(random.in(0, 3));
    for (int zero = 0; zero < 4; ++zero) {
      Plan plan = schedule;
      plan.zero_stage = zero;
      plan.context = (zero + first_ring) % 4 < 2 ? 2 : 1;
      plan.tensor = random.coin() ? 2 : 1;
      plan.data = plan.tensor * plan.context < 4 && random.coin() ? 4 : 2;
      plans.push_back(with_the_rest(plan));
    }
  }
  return plans;
}

TEST(Products, MeetEachScheduleWithEachKind) {
  std::map<ScheduleKind, std::set<int>> zero_stages, contexts, tensors, replicas;
  for (const Plan& plan : products()) {
    EXPECT_LE(plan.gpus(), 16) << describe(plan);
    if (plan.pipeline == 1) continue;
    zero_stages[plan.schedule].insert(plan.zero_stage);
    contexts[plan.schedule].insert(plan.context);
    tensors[plan.schedule].insert(plan.tensor);
    replicas[plan.schedule].insert(plan.data);
  }
  ASSERT_EQ(zero_stages.size(), 4u);
  for (const auto& [schedule, stages] : zero_stages) {
    EXPECT_EQ(stages, (std::set<int>{0, 1, 2, 3})) << name_of(schedule);
    EXPECT_EQ(contexts[schedule], (std::set<int>{1, 2})) << name_of(schedule);
    EXPECT_EQ(tensors[schedule], (std::set<int>{1, 2})) << name_of(schedule);
    EXPECT_EQ(replicas[schedule], (std::set<int>{2, 4})) << name_of(schedule);
  }
}

TEST(Products, OfAllKindsUpToSixteenRanks) {
  const HostResult single = train(tiny_llama(), {});
  for (const Plan& plan : products()) {
    expect_close(train(tiny_llama(), plan), single, describe(plan));
  }
}

TEST(Products, OfAllKindsWithExpertsUpToSixteenRanks) {
  const HostResult single = train(tiny_experts(), {}, kBalanced);
  int num_cut = 0;
  for (Plan plan : products()) {
    const int ranks = plan.tensor * plan.context * plan.data;
    // Cut experts, unless that leaves them all on one rank.
    plan.expert_tensor = ranks % 4 == 0 ? 2 : 1;
    plan.expert = std::min(4, ranks / plan.expert_tensor);
    num_cut += plan.expert_tensor > 1 && plan.expert > 1 ? 1 : 0;
    expect_close(train(tiny_experts(), plan, kBalanced), single, describe(plan));
  }
  EXPECT_GT(num_cut, 5);
}

}  // namespace
}  // namespace megatwin::exec
