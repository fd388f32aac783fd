// The plain C++ operations on values worked by hand.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/reference_activation.h"
#include "kernels/reference_adamw.h"
#include "kernels/reference_attention.h"
#include "kernels/reference_linear.h"
#include "kernels/reference_router.h"
#include "kernels/reference_vocabulary.h"

namespace megatwin::kernels::reference {
namespace {

using Vector = std::vector<float>;

// (1 2) times the transpose of ((3 4) (5 6) (7 8)) is (11 17 23); the bias adds 1, 0, −1.
TEST(ReferenceValue, Linear) {
  const Vector x{1, 2};
  const Vector weight{3, 4, 5, 6, 7, 8};
  const Vector bias{1, 0, -1};
  Vector y(3);
  linear_forward<float>({{1, 2, 3}, x, weight, bias, y});
  EXPECT_EQ(y, (Vector{12, 17, 22}));
}

TEST(ReferenceValue, ActivationsAtZeroAndFarOut) {
  const Vector x{0, 10, -10};
  Vector y(3);
  gelu_forward<float>({x, y});
  EXPECT_FLOAT_EQ(y[0], 0);
  EXPECT_FLOAT_EQ(y[1], 10);
  EXPECT_NEAR(y[2], 0, 1e-6);
  const Vector gate_up{0, 2};  // silu(0) · 2.
  swiglu_forward<float>({{1, 1}, gate_up, y});
  EXPECT_FLOAT_EQ(y[0], 0);
}

// The first token sees itself alone. With equal keys the second takes the mean of both values.
TEST(ReferenceValue, AttentionIsCausal) {
  const Vector qkv{1, 1, 10, 1, 1, 30};  // Two tokens of q, k, v.
  Vector out(2);
  Vector log_sums(2);
  attention_forward<float>({{1, 2, 1, 1, 1}, qkv, out, log_sums});
  EXPECT_FLOAT_EQ(out[0], 10);
  EXPECT_FLOAT_EQ(out[1], 20);
  EXPECT_FLOAT_EQ(log_sums[0], 1);
  EXPECT_FLOAT_EQ(log_sums[1], 1 + std::log(2.0F));
}

// Four equal logits: the loss is log 4.
TEST(ReferenceValue, CrossEntropyOfEqualLogits) {
  const Vector logits(4, 3);
  const std::vector<std::int32_t> targets{1};
  Vector largest(1);
  Vector sums(1);
  Vector target(1);
  row_max<float>({{0, 4}, logits, largest});
  row_sums<float>({{0, 4}, targets, logits, largest, sums, target});
  EXPECT_FLOAT_EQ(std::log(sums[0]) - target[0], std::log(4.0F));
}

// The first step moves by the learning rate against the sign of the gradient, and decays.
TEST(ReferenceValue, FirstStepOfAdamW) {
  const Vector gradients{2, -0.5F};
  Vector parameters{1, 1};
  Vector first(2, 0);
  Vector second(2, 0);
  adamw_step({.settings = {.learning_rate = 0.1, .weight_decay = 0.5},
              .gradients = gradients,
              .parameters = parameters,
              .first_moment = first,
              .second_moment = second});
  EXPECT_NEAR(parameters[0], 0.95 - 0.1, 1e-6);
  EXPECT_NEAR(parameters[1], 0.95 + 0.1, 1e-6);
}

// Gradients 2, then 1: the moments are 0.28 and 0.24, and without their start at zero
// 0.28 / (1 − 0.81) and 0.24 / (1 − 0.9025), which moves by 1.473684 / 1.568929 = 0.939293 rates.
TEST(ReferenceValue, SecondStepOfAdamW) {
  Vector parameter{1};
  Vector first{0};
  Vector second{0};
  Vector gradient{2};
  const AdamWSettings settings{.learning_rate = 0.1, .weight_decay = 0};
  for (const std::int64_t step : {1, 2}) {
    adamw_step({.settings = settings,
                .step = step,
                .gradients = gradient,
                .parameters = parameter,
                .first_moment = first,
                .second_moment = second});
    gradient[0] = 1;
  }
  EXPECT_NEAR(first[0], 0.28, 1e-6);
  EXPECT_NEAR(second[0], 0.24, 1e-6);
  EXPECT_NEAR(parameter[0], 1 - 0.1 - 0.0939293, 1e-6);
}

// Logits 0, ln 2, ln 5, ln 2 are probabilities 0.1, 0.2, 0.5, 0.2. The two best are expert 2 and,
// of equals, expert 1: 5/7 and 2/7 of the weight. A single choice keeps its probability.
TEST(ReferenceValue, RouterTakesTheBestAndTheFirstOfEquals) {
  const Vector logits{0, std::log(2.0F), std::log(5.0F), std::log(2.0F)};
  Vector probabilities = logits;
  std::vector<std::int32_t> choices(2);
  Vector weights(2);
  router_forward<float>({{1, 4, 2}, probabilities, choices, weights});
  EXPECT_EQ(choices, (std::vector<std::int32_t>{2, 1}));
  EXPECT_NEAR(weights[0], 5.0 / 7, 1e-6);
  EXPECT_NEAR(weights[1], 2.0 / 7, 1e-6);
  EXPECT_NEAR(probabilities[3], 0.2, 1e-6);
  probabilities = logits;
  choices.resize(1);
  weights.resize(1);
  router_forward<float>({{1, 4, 1}, probabilities, choices, weights});
  EXPECT_NEAR(weights[0], 0.5, 1e-6);
}

}  // namespace
}  // namespace megatwin::kernels::reference
