// What a step of the host world computes besides the model, from its own definition: the mean loss,
// the norm and its clipping, the optimizer.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "exec/model_state.h"
#include "tests/exec/reference_model.h"
#include "tests/exec/train_tiny.h"

namespace megatwin::exec {
namespace {

using model::Plan;
using model::ScheduleKind;
using tests::describe;
using tests::tiny_llama;
using tests::TinyJob;

// One rank, a pipeline, replicas with and without shards, a product.
std::vector<Plan> plans() {
  std::vector<Plan> all = {Plan{}, tests::pipeline(ScheduleKind::OneForwardOneBackward, 2)};
  for (const int zero : {0, 1, 3}) {
    all.emplace_back();
    all.back().data = 4;
    all.back().zero_stage = zero;
  }
  all.push_back(tests::pipeline(ScheduleKind::ZeroBubbleV, 2, 2));
  all.back().data = all.back().tensor = all.back().context = 2;
  all.back().sequence_parallel = true;
  return all;
}

// The model before the first step and after each.
std::vector<ModelState> states_of(TinyJob& tiny, HostResult* result = nullptr) {
  std::vector<ModelState> states;
  tiny.job.on_start = [&](std::span<const ChunkState> state) {
    states.push_back(gather_state(state, StatePart::WeightsAndMoments));
  };
  tiny.job.on_step = [&](const StepEnd& end) {
    states.push_back(gather_state(end.state(), StatePart::WeightsAndMoments));
    return true;
  };
  HostResult ran = run_host(tiny.job);
  EXPECT_FALSE(ran.fault) << to_text(*ran.fault);
  if (result != nullptr) {
    *result = std::move(ran);
  }
  return states;
}

// The mean over all tokens of the global batch, by a model in double: of 8 micro-batches of one
// sequence, whichever replica has them.
TEST(StepByHand, LossIsTheMeanOverTheGlobalBatch) {
  for (const Plan& plan : plans()) {
    TinyJob tiny(tiny_llama(), plan);
    tiny.job.steps = 1;
    HostResult result;
    tests::NamedWeights weights;
    const ModelState first = states_of(tiny, &result).front();
    for (const auto& [name, whole] : first) {
      weights[name].assign(whole.weights.begin(), whole.weights.end());
    }
    double mean = 0;
    for (int micro_batch = 0; micro_batch < 8; ++micro_batch) {
      const TokenBatch batch = tiny.tokens.batch({.step = 0, .micro_batch = micro_batch});
      mean += tests::reference_loss({tiny.job.transformer, {}, batch, weights}).cross_entropy / 8;
    }
    ASSERT_EQ(result.losses.size(), 1u);
    EXPECT_NEAR(result.losses[0], mean, 2e-6) << describe(plan);
  }
}

// After the first step the first moment is 1 − beta1 = 0.1 of the gradient as it was clipped. So
// its length says by what.
double gradient_norm(const ModelState& after_first_step) {
  double squares = 0;
  for (const auto& [name, whole] : after_first_step) {
    for (const float moment : whole.first_moment) {
      squares += static_cast<double>(moment) * moment;
    }
  }
  return std::sqrt(squares) / 0.1;
}

TEST(StepByHand, ClippingLeavesTheNormThatIsAllowed) {
  for (const Plan& plan : plans()) {
    TinyJob free(tiny_llama(), plan);
    free.job.steps = 1;
    const double norm = gradient_norm(states_of(free).back());
    ASSERT_GT(norm, 0.1);
    for (const double allowed : {norm / 4, norm / 1.5, 2 * norm}) {
      TinyJob clipped(tiny_llama(), plan);
      clipped.job.steps = 1;
      clipped.job.gradient_norm_max = allowed;
      HostResult result;
      const double left = gradient_norm(states_of(clipped, &result).back());
      EXPECT_NEAR(left / std::min(norm, allowed), 1, 2e-5) << describe(plan);
      ASSERT_EQ(result.gradient_norms.size(), 1u);
      EXPECT_NEAR(result.gradient_norms[0] / norm, 1, 2e-5) << describe(plan);
    }
  }
}

// AdamW as it is written (Loshchilov and Hutter, arXiv:1711.05101, algorithm 2), in double, from
// one state to the next: m2 = 0.9 · m1 + 0.1 · g gives the gradient, that the second moment, and
// both the weight, with their start at zero taken out at step n by 1 − betaⁿ.
TEST(StepByHand, AdamWTakesOutTheStartAtZero) {
  for (const Plan& plan : plans()) {
    TinyJob tiny(tiny_llama(), plan);
    tiny.job.steps = 3;
    const auto& settings = tiny.job.optimizer;
    const std::vector<ModelState> states = states_of(tiny);
    ASSERT_EQ(states.size(), 4u);
    for (std::size_t step = 1; step < states.size(); ++step) {
      const auto n = static_cast<double>(step);
      for (const auto& [name, after] : states[step]) {
        const WholeParameter& before = states[step - 1].at(name);
        double wrong = 0;
        for (std::size_t i = 0; i < after.weights.size(); ++i) {
          const double m = after.first_moment[i];
          const double v = after.second_moment[i];
          const double gradient =
              (m - settings.beta1 * before.first_moment[i]) / (1 - settings.beta1);
          const double square =
              settings.beta2 * before.second_moment[i] + (1 - settings.beta2) * gradient * gradient;
          wrong = std::max(wrong, std::abs(square - v) / (std::abs(v) + 1e-12));
          const double moved =
              m / (1 - std::pow(settings.beta1, n)) /
              (std::sqrt(v / (1 - std::pow(settings.beta2, n))) + settings.epsilon);
          const double weight =
              before.weights[i] * (1 - settings.learning_rate * settings.weight_decay) -
              settings.learning_rate * moved;
          ASSERT_NEAR(after.weights[i], weight, 1e-6) << describe(plan) << " " << name << " " << i;
        }
        EXPECT_LT(wrong, 1e-4) << describe(plan) << " " << name << " step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace megatwin::exec
