// Weight gradients that forward ranks work out of what backward ranks send them, really run: summed
// there, added on the ranks that step.
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
using tests::TinyJob;
using tests::train;
using tests::train_to_the_end;
using tests::Trained;
using tests::with_instances;

Plan leaving(Plan plan, int left, int of = 8) {
  plan.decoupled.weight_share = static_cast<double>(left) / of;
  return plan;
}

std::string text_of(const Plan& plan) {
  const model::DecoupledPlan& sides = plan.decoupled;
  return describe(plan) + (sides.ship_activations ? " activations" : " stage input") +
         " sides of " + std::to_string(plan.side_tensor(sides.forward)) + "x" +
         std::to_string(sides.forward.instances) + " and " +
         std::to_string(plan.side_tensor(sides.backward)) + "x" +
         std::to_string(sides.backward.instances) + " leaving " +
         std::to_string(sides.weight_share);
}

// All weight gradients on one forward rank a stage, which sums them in the order of micro-batches;
// the backward rank adds them to zeros.
TEST(DecoupledWeights, AllOfThemTrainToTheBitsOfOneRank) {
  for (const auto& transformer : {tiny_llama(), tiny_gpt()}) {
    const Trained single = train_to_the_end(transformer, {});
    for (const int p : {1, 2, 4}) {
      for (const SideFeed feed : kFeeds) {
        const Plan plan = leaving(decoupled(one_f_one_b(p), feed), 8);
        const Trained trained = train_to_the_end(transformer, plan);
        EXPECT_TRUE(trained.state == single.state) << text_of(plan);
        EXPECT_EQ(trained.losses, single.losses) << text_of(plan);
        EXPECT_EQ(trained.norms, single.norms) << text_of(plan);
      }
    }
  }
}

TEST(DecoupledWeights, AnyNumberOfThemTrainsAlike) {
  const HostResult single = train(tiny_llama(), {});
  for (int left = 1; left <= 8; ++left) {
    for (const SideFeed feed : kFeeds) {
      const Plan plan = leaving(decoupled(one_f_one_b(2), feed), left);
      expect_close(train(tiny_llama(), plan), single, text_of(plan));
    }
  }
}

// Any ratio, groups of one and two ranks on either side, with and without sequence parallelism:
// what of a gradient each member of a group has summed is added once.
TEST(DecoupledWeights, InAnyRatioAndGroupsOfAnySizes) {
  for (const auto& transformer : {tiny_llama(), tiny_gpt()}) {
    const HostResult single = train(transformer, {});
    for (int a = 1; a <= 3; ++a) {
      for (int b = 1; b <= 3; ++b) {
        for (const int forward : {1, 2}) {
          for (const int backward : {1, 2}) {
            const SideFeed feed = kFeeds[(a + b + forward) % 2];
            Plan plan = leaving(with_instances(decoupled(one_f_one_b(2), feed), a, b), 5);
            plan.decoupled.forward.tensor = forward;
            plan.decoupled.backward.tensor = backward;
            plan.sequence_parallel = (a + forward + backward) % 2 == 0;
            expect_close(train(transformer, plan), single, transformer.name + " " + text_of(plan));
          }
        }
      }
    }
  }
}

TEST(DecoupledWeights, InGroupsOfFourOnEitherSide) {
  const HostResult single = train(tiny_gpt(), {});
  for (const bool sequence_parallel : {false, true}) {
    for (const auto& [forward, backward] : {std::pair(4, 1), {1, 4}, {4, 2}, {2, 4}}) {
      Plan plan = leaving(decoupled(one_f_one_b(1), SideFeed::Activations), 3);
      plan.decoupled.forward.tensor = forward;
      plan.decoupled.backward.tensor = backward;
      plan.sequence_parallel = sequence_parallel;
      expect_close(train(tiny_gpt(), plan), single, text_of(plan));
    }
  }
}

TEST(DecoupledWeights, WithEveryOtherKind) {
  std::vector<Plan> plans;
  for (const int zero : {0, 1}) {
    plans.push_back(one_f_one_b(2));
    plans.back().data = 2;
    plans.back().zero_stage = zero;
    plans.push_back(with_instances(plans.back(), 2, 2));
  }
  plans.push_back(one_f_one_b(1));
  plans.back().context = 2;
  for (const auto recompute : {model::RecomputeKind::Selective, model::RecomputeKind::Full}) {
    plans.push_back(one_f_one_b(2));
    plans.back().recompute = recompute;
  }
  const HostResult single = train(tiny_llama(), {});
  for (const Plan& coupled : plans) {
    const int of = 8 / coupled.data;
    for (const SideFeed feed : kFeeds) {
      const Plan plan = leaving(decoupled(coupled, feed), of / 2, of);
      expect_close(train(tiny_llama(), plan), single, text_of(plan));
    }
  }
  const HostResult tied = train(tests::tied(tiny_gpt()), {});
  for (const int p : {1, 2}) {
    const Plan plan = leaving(decoupled(one_f_one_b(p), SideFeed::StageInput), 3);
    expect_close(train(tests::tied(tiny_gpt()), plan), tied, text_of(plan));
  }
  Plan experts = one_f_one_b(2);
  experts.data = experts.expert = 2;
  const HostResult of_experts = train(tiny_experts(), {});
  for (const SideFeed feed : kFeeds) {
    const Plan plan = leaving(decoupled(experts, feed), 2, 4);
    expect_close(train(tiny_experts(), plan), of_experts, text_of(plan));
  }
}

// A forward rank then holds gradients too, and the input of the one weight gradient that it runs.
TEST(DecoupledWeights, ForwardRanksKeepGradientsToo) {
  const TinyJob tiny(tiny_llama(), leaving(decoupled(one_f_one_b(2), SideFeed::StageInput), 4));
  const HostResult result = train(tiny.job);
  ASSERT_EQ(result.ranks.size(), 4u);
  const auto specs = host_program_specs(tiny.job);
  for (std::size_t stage = 0; stage < 2; ++stage) {
    EXPECT_EQ(result.ranks[stage].state.value, 2 * specs[0].stages[stage].parameters.value);
    EXPECT_EQ(result.ranks[2 + stage].state.value, 4 * specs[0].stages[stage].parameters.value);
    const model::ChunkCost& chunk = specs[0].stages[stage].chunks.front();
    EXPECT_EQ(result.ranks[stage].activations_max,
              std::max(chunk.activation + chunk.forward_transient,
                       chunk.weight_gradient_input + chunk.weight_transient));
    EXPECT_GT(chunk.weight_gradient_input.value, 0);
  }
}

TEST(DecoupledWeights, SayWhatCannotRun) {
  const auto problems_of = [](const model::Transformer& transformer, const Plan& plan) {
    return host_job_problems(TinyJob(transformer, plan).job);
  };
  const auto says = [&](const model::Transformer& transformer, const Plan& plan,
                        const char* words) {
    const auto problems = problems_of(transformer, plan);
    ASSERT_EQ(problems.size(), 1u) << words;
    EXPECT_NE(problems.front().find(words), std::string::npos) << problems.front();
  };
  Plan sharded = leaving(decoupled(one_f_one_b(2), SideFeed::StageInput), 4);
  sharded.data = 2;
  sharded.zero_stage = 2;
  says(tiny_llama(), sharded, "those of 2 of 4 micro-batches to the forward side: plan.zero 2");
  sharded.decoupled.weight_share = 0.2;  // Less than one micro-batch.
  EXPECT_TRUE(problems_of(tiny_llama(), sharded).empty());
  Plan experts = leaving(decoupled(one_f_one_b(2), SideFeed::StageInput), 4);
  experts.decoupled.forward.tensor = 2;
  experts.sequence_parallel = true;
  says(tiny_experts(), experts, "what experts need for them cannot be cut anew");
}

}  // namespace
}  // namespace megatwin::exec
