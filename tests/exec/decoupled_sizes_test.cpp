// Forward and backward ranks in tensor-parallel groups of unequal sizes, really run: what crosses
// is cut anew, and training goes on as on one rank.
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/exec/decoupled_runs.h"

namespace megatwin::exec {
namespace {

using model::Plan;
using model::SideFeed;
using tests::decoupled;
using tests::describe;
using tests::expect_close;
using tests::kFeeds;
using tests::one_f_one_b;
using tests::tiny_experts;
using tests::tiny_gpt;
using tests::tiny_llama;
using tests::train;
using tests::train_to_the_end;
using tests::Trained;
using tests::with_instances;

struct Sizes {
  int forward, backward;
};
constexpr Sizes kSizes[] = {{2, 1}, {1, 2}, {4, 2}, {2, 4}, {4, 1}, {1, 4}};

Plan with_sizes(Plan plan, const Sizes& sizes) {
  plan.decoupled.forward.tensor = sizes.forward;
  plan.decoupled.backward.tensor = sizes.backward;
  return plan;
}

std::string text_of(const Plan& plan) {
  return describe(plan) + " sides of " + std::to_string(plan.decoupled.forward.tensor) + " and " +
         std::to_string(plan.decoupled.backward.tensor) +
         (plan.decoupled.ship_activations ? " activations" : " stage input");
}

// Grouped queries that four ranks can share: eight heads on four.
model::Transformer wide_llama() {
  model::Transformer transformer = tiny_llama();
  transformer.num_attention_heads = 8;
  transformer.num_key_value_heads = 4;
  return transformer;
}

// Both feeds, with and without sequence parallelism, against one rank.
void expect_all_like_one_rank(const model::Transformer& transformer, const Plan& coupled,
                              const Sizes& sizes, const HostResult& single) {
  for (const bool sequence_parallel : {false, true}) {
    for (const SideFeed feed : kFeeds) {
      Plan plan = with_sizes(decoupled(coupled, feed), sizes);
      plan.sequence_parallel = sequence_parallel;
      expect_close(train(transformer, plan), single, transformer.name + " " + text_of(plan));
    }
  }
}

TEST(DecoupledSizes, TrainAsOneRank) {
  for (const auto& transformer : {wide_llama(), tiny_gpt()}) {
    const HostResult single = train(transformer, {});
    for (const Sizes& sizes : kSizes) {
      expect_all_like_one_rank(transformer, one_f_one_b(2), sizes, single);
    }
  }
}

// Replicas with every stage of ZeRO, rings, recomputation of all or of attention, tied ends.
TEST(DecoupledSizes, WithEveryOtherKind) {
  std::vector<Plan> plans;
  for (int zero = 0; zero <= 3; ++zero) {
    plans.push_back(one_f_one_b(2));
    plans.back().data = 2;
    plans.back().zero_stage = zero;
  }
  plans.push_back(one_f_one_b(1));
  plans.back().context = 2;
  for (const auto recompute : {model::RecomputeKind::Selective, model::RecomputeKind::Full}) {
    plans.push_back(one_f_one_b(2));
    plans.back().recompute = recompute;
    plans.back().recompute_layers = recompute == model::RecomputeKind::Full ? 1 : 0;
  }
  const HostResult single = train(tiny_llama(), {});
  for (const Plan& plan : plans) {
    for (const Sizes& sizes : {Sizes{2, 1}, Sizes{1, 2}}) {
      expect_all_like_one_rank(tiny_llama(), plan, sizes, single);
    }
  }
  const model::Transformer tied = tests::tied(tiny_gpt());
  const HostResult tied_single = train(tied, {});
  for (const int p : {1, 2}) {
    expect_all_like_one_rank(tied, one_f_one_b(p), {4, 2}, tied_single);
  }
}

TEST(DecoupledSizes, InAnyRatio) {
  const HostResult single = train(tiny_llama(), {});
  for (int a = 1; a <= 3; ++a) {
    for (int b = 1; b <= 3; ++b) {
      const Sizes sizes = (a + b) % 2 == 0 ? Sizes{2, 1} : Sizes{1, 2};
      expect_all_like_one_rank(tiny_llama(), with_instances(one_f_one_b(2), a, b), sizes, single);
    }
  }
}

// A backward rank may hold experts of which the forward rank in its place has none: the weights
// come from whoever has them.
TEST(DecoupledSizes, Experts) {
  const HostResult single = train(tiny_experts(), {});
  for (const int expert_tensor : {1, 2}) {
    for (const Sizes& sizes : {Sizes{2, 1}, Sizes{1, 2}}) {
      Plan plan = one_f_one_b(2);
      plan.data = plan.expert = 2;
      plan.expert_tensor = expert_tensor;
      plan.sequence_parallel = true;
      if (expert_tensor == 2) plan.expert = 1;
      plan = with_sizes(decoupled(plan, SideFeed::StageInput), sizes);
      expect_close(train(tiny_experts(), plan), single, text_of(plan));
    }
  }
}

// One stage that runs its forward again reads the tokens itself: what the forward ranks do matters
// for the losses alone, and the weights are those of the backward ranks' groups together.
TEST(DecoupledSizes, WeightsToTheBitsOfTheBackwardRanksAlone) {
  for (const Sizes& sizes : kSizes) {
    for (const bool sequence_parallel : {false, true}) {
      Plan together = one_f_one_b(1);
      together.tensor = sizes.backward;
      together.sequence_parallel = sequence_parallel;
      const Plan plan = with_sizes(decoupled(together, SideFeed::StageInput), sizes);
      const Trained apart = train_to_the_end(wide_llama(), plan);
      const Trained expected = train_to_the_end(wide_llama(), together);
      EXPECT_TRUE(apart.state == expected.state) << text_of(plan);
      EXPECT_EQ(apart.norms, expected.norms) << text_of(plan);
      EXPECT_EQ(apart.weights_hash, expected.weights_hash) << text_of(plan);
    }
  }
}

TEST(DecoupledSizes, SayWhichSideCannotBeCutSo) {
  const auto problems_of = [](const model::Transformer& transformer, const Plan& plan) {
    return host_job_problems(tests::TinyJob(transformer, plan).job);
  };
  const Plan plan = decoupled(one_f_one_b(2), SideFeed::Activations);
  const auto three = problems_of(tiny_llama(), with_sizes(plan, {1, 3}));
  ASSERT_FALSE(three.empty());
  for (const std::string& problem : three) {
    EXPECT_EQ(problem.rfind("backward ranks: tensor-parallel size 3 does not divide", 0), 0u)
        << problem;
  }
  // Two key-value heads.
  const auto four = problems_of(tiny_llama(), with_sizes(plan, {4, 2}));
  ASSERT_EQ(four.size(), 1u);
  EXPECT_EQ(four.front(),
            "forward ranks: tensor-parallel size 4 does not divide the key-value heads 2");
  Plan experts = with_sizes(plan, {2, 1});
  experts.sequence_parallel = true;
  const auto kept = problems_of(tiny_experts(), experts);
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_NE(kept.front().find("tensor are 2 and 1: what experts keep"), std::string::npos)
      << kept.front();
  // The plan's own size counts for neither side here.
  Plan unused = with_sizes(plan, {1, 2});
  unused.tensor = 3;
  EXPECT_TRUE(problems_of(tiny_llama(), unused).empty());
}

}  // namespace
}  // namespace megatwin::exec
