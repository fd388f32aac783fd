// Whole tiny models: losses, and the gradients of every parameter, against a model in double.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "exec/model_chunk.h"
#include "tests/exec/reference_model.h"
#include "tests/exec/tiny_jobs.h"
#include "tests/sim/pipeline_specs.h"

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

tests::NamedWeights named_weights(WholeModel& whole) {
  tests::NamedWeights named;
  for (const Parameter& parameter : whole.chunk.table().parameters) {
    const auto values = parameter.place.of(whole.chunk.weights());
    named[parameter.name].assign(values.begin(), values.end());
  }
  return named;
}

// The fp32 model and the one in double at the same weights.
struct Compared {
  explicit Compared(WholeModel& model) : whole(model) {
    // The first matrices are so small that attention hardly matters: make it matter.
    for (const Parameter& parameter : whole.chunk.table().parameters) {
      if (parameter.start == ParameterStart::One) continue;
      for (float& weight : parameter.place.of(whole.chunk.weights())) {
        weight *= 8;
      }
    }
    weights = named_weights(whole);
  }
  tests::ReferenceLoss reference() const {
    return tests::reference_loss(
        {whole.tiny.job.transformer, whole.shape.experts.settings, whole.batch, weights});
  }
  // Of the loss in double, along `direction` of one parameter.
  double slope(const std::string& name, const std::vector<double>& direction) {
    constexpr double kStep = 1e-6;
    std::vector<double>& here = weights.at(name);
    const std::vector<double> before = here;
    const auto loss_at = [&](double distance) {
      for (std::size_t i = 0; i < here.size(); ++i) {
        here[i] = before[i] + distance * direction[i];
      }
      return reference().total();
    };
    const double rise = loss_at(kStep) - loss_at(-kStep);
    here = before;
    return rise / (2 * kStep);
  }

  WholeModel& whole;
  tests::NamedWeights weights;
};

// Directions in which every element counts alike, so that none can be missing from the gradient.
// What fp32 leaves of a gradient of length |g| is known to some 1e-6 |g|; the slope in double is
// exact but for the square of its step.
void expect_gradients(WholeModel& whole) {
  constexpr int kDirections = 4;
  constexpr double kTolerance = 1e-5;
  const std::string& model = whole.tiny.job.transformer.name;
  Compared compared(whole);
  whole.backward();
  EXPECT_NEAR(whole.loss(), compared.reference().total(), 2e-6);
  tests::Random random(1);
  for (const Parameter& parameter : whole.chunk.table().parameters) {
    const auto gradient = parameter.place.of(whole.chunk.gradients());
    double squares = 0;
    for (const float value : gradient) {
      squares += static_cast<double>(value) * value;
    }
    // Softmax does not see what is added to all keys alike; a rotation makes it seen. No token came
    // to some experts.
    const bool may_be_zero =
        (!whole.shape.rotary && parameter.name.find("k_proj.bias") != std::string::npos) ||
        parameter.name.find(".experts.") != std::string::npos;
    ASSERT_TRUE(may_be_zero || squares > 1e-12) << model << " " << parameter.name;
    for (int n = 0; n < kDirections; ++n) {
      std::vector<double> direction(gradient.size());
      double along = 0;
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        direction[i] = random.coin() ? 1 : -1;
        along += direction[i] * gradient[i];
      }
      EXPECT_NEAR(along, compared.slope(parameter.name, direction),
                  kTolerance * std::sqrt(squares) + 1e-8)
          << model << " " << parameter.name << " |g| " << std::sqrt(squares);
    }
  }
}

TEST(ModelGradient, EveryParameterAgainstTheModelInDouble) {
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

// The two losses of the experts one by one, with tokens dropped: 8 tokens with two choices of four
// experts have room for ceil(0.75 · 4) = 3 each, so at least four of a layer find none.
TEST(ModelGradient, BalanceAndCapacityByHand) {
  const ExpertSettings settings{.capacity_factor = 0.75, .balance_loss = 0.1};
  WholeModel whole(tests::tiny_experts(), {}, settings);
  const Compared compared(whole);
  double balance = 0;
  const double loss = whole.chunk.forward({.batch = whole.batch,
                                           .activation = whole.activation,
                                           .workspace = whole.forward_workspace,
                                           .balance_loss = &balance});
  const tests::ReferenceLoss reference = compared.reference();
  EXPECT_NEAR(loss, reference.cross_entropy, 2e-6);
  EXPECT_NEAR(balance, reference.balance, 1e-6);
  EXPECT_GT(reference.balance, 3 * 0.1 * 0.9);  // E · Σ f P is 1 when all is even.
  ASSERT_EQ(reference.dropped.size(), 3u);
  for (const int dropped : reference.dropped) {
    EXPECT_GE(dropped, 4);
  }
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
