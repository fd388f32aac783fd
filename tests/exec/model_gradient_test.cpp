// Whole tiny models: the gradients of every parameter against the slope of the loss.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "exec/model_chunk.h"
#include "tests/exec/tiny_jobs.h"

namespace megatwin::exec {
namespace {

// One chunk that is the whole model, on one rank.
struct WholeModel {
  explicit WholeModel(const model::Transformer& transformer, const model::Plan& plan = {},
                      const ExpertSettings& experts = {})
      : tiny(transformer, plan),
        shape(model_shape(transformer, tiny.job.plan, experts)),
        chunk({.shape = shape, .part = {0, 4, true, true}, .seed = 3}, groups_of_one(group)),
        batch(tiny.tokens.batch({})),
        activation(static_cast<std::size_t>(chunk.sizes().activation)),
        input(static_cast<std::size_t>(chunk.sizes().gradient_input)),
        forward_workspace(static_cast<std::size_t>(chunk.sizes().forward_workspace)),
        backward_workspace(static_cast<std::size_t>(chunk.sizes().backward_workspace)),
        weight_workspace(static_cast<std::size_t>(chunk.sizes().weight_workspace)) {}

  // With that of the experts' balance.
  double loss() {
    double balance = 0;
    const double loss = chunk.forward({.batch = batch,
                                       .activation = activation,
                                       .workspace = forward_workspace,
                                       .balance_loss = &balance});
    return loss + balance;
  }
  void backward() {
    loss();
    chunk.backward_input(
        {.activation = activation, .gradient_input = input, .workspace = backward_workspace});
    chunk.backward_weight({batch, input, weight_workspace});
  }

  tests::TinyJob tiny;
  ModelShape shape;
  LoneGroup group;
  ModelChunk chunk;
  TokenBatch batch;
  std::vector<float> activation, input, forward_workspace, backward_workspace, weight_workspace;
};

// Along its own gradient g a parameter changes the loss by |g|² per unit of length. In fp32 the
// loss of about 3.5 is known to some 1e-7, a change of 2e-3 to some 1e-4.
void expect_gradients(WholeModel& whole) {
  const std::string& name = whole.tiny.job.transformer.name;
  // The first weights are so small that attention hardly matters: make it matter.
  for (float& weight : whole.chunk.weights()) {
    weight *= 8;
  }
  whole.backward();
  const auto gradients = whole.chunk.gradients();
  for (const Parameter& parameter : whole.chunk.table().parameters) {
    const auto gradient = parameter.place.of(gradients);
    const auto weights = parameter.place.of(whole.chunk.weights());
    double squares = 0;
    for (const float value : gradient) {
      squares += static_cast<double>(value) * value;
    }
    // Softmax does not see what is added to all keys alike; a rotation makes it seen.
    if (!whole.shape.rotary && parameter.name.find("k_proj.bias") != std::string::npos) {
      EXPECT_LT(squares, 1e-9) << parameter.name;
      continue;
    }
    // No token came to this expert.
    if (squares == 0 && parameter.name.find(".experts.") != std::string::npos) {
      continue;
    }
    ASSERT_GT(squares, 1e-12) << name << " " << parameter.name;
    const std::vector<float> before(weights.begin(), weights.end());
    const double length = 1e-3 / squares;
    const auto loss_at = [&](double distance) {
      for (std::size_t i = 0; i < weights.size(); ++i) {
        weights[i] = before[i] + static_cast<float>(distance * gradient[i]);
      }
      return whole.loss();
    };
    const double slope = (loss_at(length) - loss_at(-length)) / (2 * length);
    loss_at(0);
    EXPECT_NEAR(slope / squares, 1, 0.02) << name << " " << parameter.name;
  }
}

TEST(ModelGradient, EveryParameterAlongItsGradient) {
  for (const model::Transformer& transformer :
       {tests::tiny_llama(), tests::tiny_gpt(), tests::tied(tests::tiny_gpt())}) {
    WholeModel whole(transformer);
    expect_gradients(whole);
  }
}

TEST(ModelGradient, RecomputedLayers) {
  for (const model::RecomputeKind kind :
       {model::RecomputeKind::Selective, model::RecomputeKind::Full}) {
    model::Plan plan;
    plan.recompute = kind;
    plan.recompute_layers = 3;
    WholeModel whole(tests::tiny_llama(), plan);
    expect_gradients(whole);
  }
}

TEST(ModelGradient, Experts) {
  WholeModel whole(tests::tiny_experts(), {}, {.balance_loss = 0.1});
  expect_gradients(whole);
}

TEST(ModelGradient, ExpertsWithDroppedTokens) {
  WholeModel whole(tests::tiny_experts(), {}, {.capacity_factor = 0.75});
  expect_gradients(whole);
}

TEST(ModelGradient, OneExpertAToken) {
  model::Transformer transformer = tests::tiny_experts();
  transformer.experts->experts_per_token = 1;
  WholeModel whole(transformer, {}, {.balance_loss = 0.1});
  expect_gradients(whole);
}

TEST(ModelGradient, FirstLossIsThatOfGuessing) {
  WholeModel whole(tests::tiny_llama());
  EXPECT_NEAR(whole.loss(), std::log(32.0), 0.05);
}

// Slices of a cut model hold the numbers of the whole one.
TEST(ParameterTable, EveryCutStartsFromTheSameNumbers) {
  const model::Transformer transformer = tests::tiny_gpt();
  WholeModel whole(transformer);
  model::Plan plan = whole.tiny.job.plan;
  plan.tensor = 2;
  const ModelShape shape = model_shape(transformer, plan);
  for (int member = 0; member < 2; ++member) {
    const ParameterTable table = parameter_table(
        {.shape = shape, .part = {2, 2, false, true}, .member = {.tensor = member}});
    std::vector<float> weights(static_cast<std::size_t>(table.size));
    start_parameters(
        {.table = table, .num_layers = transformer.num_layers, .seed = 3, .held = {0, table.size}},
        weights);
    for (const Parameter& parameter : table.parameters) {
      const auto& all = whole.chunk.table().parameters;
      const auto found = std::find_if(all.begin(), all.end(), [&](const Parameter& other) {
        return other.name == parameter.name;
      });
      ASSERT_NE(found, all.end()) << parameter.name;
      for (std::int64_t row = 0; row < parameter.rows; ++row) {
        for (std::int64_t column = 0; column < parameter.columns; ++column) {
          const auto here =
              static_cast<std::size_t>(parameter.place.offset + row * parameter.columns + column);
          const auto there = static_cast<std::size_t>(found->place.offset +
                                                      (parameter.first_row + row) * found->columns +
                                                      parameter.first_column + column);
          ASSERT_EQ(weights[here], whole.chunk.weights()[there]) << parameter.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace megatwin::exec
