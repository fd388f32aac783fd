// The gradient of every plain C++ operation against central differences in double, on sizes that
// are 1, prime, or one off a block.
#include <vector>

#include <gtest/gtest.h>

#include "kernels/reference_activation.h"
#include "kernels/reference_attention.h"
#include "kernels/reference_linear.h"
#include "kernels/reference_norm.h"
#include "kernels/reference_router.h"
#include "kernels/reference_vocabulary.h"
#include "tests/kernels/central_difference.h"

namespace megatwin::kernels::reference {
namespace {

using tests::expect_gradient;
using tests::numbers;
using tests::weighted_sum;
using Vector = std::vector<double>;

std::size_t count(std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); }

TEST(ReferenceGradient, Linear) {
  for (const LinearShape shape :
       {LinearShape{1, 1, 1}, LinearShape{4, 8, 8}, LinearShape{5, 7, 9}, LinearShape{3, 17, 2}}) {
    Vector x = numbers(count(shape.rows, shape.in), 1);
    Vector weight = numbers(count(shape.out, shape.in), 2);
    Vector bias = numbers(count(shape.out, 1), 3);
    const Vector dy = numbers(count(shape.rows, shape.out), 4);
    const auto loss = [&] {
      Vector y(dy.size());
      linear_forward<double>({shape, x, weight, bias, y});
      return weighted_sum(y, dy);
    };
    Vector dx(x.size());
    Vector dweight(weight.size());
    Vector dbias(bias.size());
    linear_backward_input<double>({shape, dy, weight, dx});
    linear_backward_weight<double>({shape, x, dy, dweight, dbias});
    expect_gradient(x, dx, loss, "x");
    expect_gradient(weight, dweight, loss, "weight");
    expect_gradient(bias, dbias, loss, "bias");
  }
}

// Two halves of the tokens, one after the other, add up to both at once.
TEST(ReferenceGradient, WeightGradientsAccumulate) {
  const LinearShape whole{4, 3, 2};
  const Vector x = numbers(12, 1);
  const Vector dy = numbers(8, 2);
  Vector at_once(6, 0);
  Vector in_halves(6, 0);
  linear_backward_weight<double>({whole, x, dy, at_once, {}});
  for (std::size_t half = 0; half < 2; ++half) {
    linear_backward_weight<double>({{2, 3, 2},
                                    std::span(x).subspan(6 * half, 6),
                                    std::span(dy).subspan(4 * half, 4),
                                    in_halves,
                                    {}});
  }
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(at_once[i], in_halves[i], 1e-15);
  }
}

TEST(ReferenceGradient, Norms) {
  for (const bool centred : {false, true}) {
    for (const NormShape shape : {NormShape{1, 2}, NormShape{3, 7}, NormShape{2, 16}}) {
      const auto rows = count(shape.rows, 1);
      Vector x = numbers(count(shape.rows, shape.width), 1);
      Vector gamma = numbers(count(shape.width, 1), 2);
      Vector beta = centred ? numbers(gamma.size(), 3) : Vector{};
      const Vector dy = numbers(x.size(), 4);
      Vector y(x.size());
      Vector mean(centred ? rows : 0);
      Vector inverse(rows);
      const auto loss = [&] {
        norm_forward<double>({shape, x, gamma, beta, y, mean, inverse});
        return weighted_sum(y, dy);
      };
      loss();
      Vector dx(x.size());
      Vector dgamma(gamma.size());
      Vector dbeta(beta.size());
      norm_backward_input<double>({shape, x, gamma, mean, inverse, dy, dx});
      norm_backward_weight<double>({shape, x, mean, inverse, dy, dgamma, dbeta});
      // Two elements make a norm nearly a sign: the slope bends fast there.
      if (shape.width > 2) {
        expect_gradient(x, dx, loss, "x");
      }
      expect_gradient(gamma, dgamma, loss, "gamma");
      expect_gradient(beta, dbeta, loss, "beta");
    }
  }
}

TEST(ReferenceGradient, Activations) {
  Vector x = numbers(24, 1);
  const Vector dy = numbers(24, 2);
  Vector y(24);
  Vector dx(24);
  gelu_backward<double>({x, dy, dx});
  expect_gradient(
      x, dx,
      [&] {
        gelu_forward<double>({x, y});
        return weighted_sum(y, dy);
      },
      "gelu");
  const SwiGluShape shape{4, 3};
  const Vector dproduct = numbers(12, 3);
  Vector product(12);
  swiglu_backward<double>({shape, x, dproduct, dx});
  expect_gradient(
      x, dx,
      [&] {
        swiglu_forward<double>({shape, x, product});
        return weighted_sum(product, dproduct);
      },
      "swiglu");
}

TEST(ReferenceGradient, Attention) {
  for (const AttentionShape shape : {AttentionShape{1, 1, 1, 1, 1}, AttentionShape{2, 5, 4, 2, 3},
                                     AttentionShape{1, 7, 3, 1, 2}}) {
    Vector qkv = numbers(count(shape.rows(), shape.qkv_width()), 1);
    const Vector dout = numbers(count(shape.rows(), shape.out_width()), 2);
    Vector out(dout.size());
    Vector log_sums(count(shape.rows(), shape.heads));
    const auto loss = [&] {
      attention_forward<double>({shape, qkv, out, log_sums});
      return weighted_sum(out, dout);
    };
    loss();
    Vector dqkv(qkv.size());
    attention_backward<double>({shape, qkv, out, log_sums, dout, dqkv});
    expect_gradient(qkv, dqkv, loss, "qkv");
  }
}

// The weights of the chosen experts, and a loss that is linear in all probabilities. No step of the
// differences changes a choice.
TEST(ReferenceGradient, Router) {
  for (const RouterShape shape :
       {RouterShape{1, 3, 1}, RouterShape{5, 4, 2}, RouterShape{3, 7, 3}, RouterShape{2, 5, 5}}) {
    Vector logits = numbers(count(shape.tokens, shape.experts), 1);
    const Vector dweights = numbers(count(shape.tokens, shape.per_token), 2);
    const Vector slopes = numbers(count(shape.experts, 1), 3);
    Vector probabilities(logits.size());
    std::vector<std::int32_t> choices(dweights.size());
    Vector weights(dweights.size());
    const auto loss = [&] {
      probabilities = logits;
      router_forward<double>({shape, probabilities, choices, weights});
      double balance = 0;
      for (std::size_t i = 0; i < probabilities.size(); ++i) {
        balance += probabilities[i] * slopes[i % slopes.size()];
      }
      return weighted_sum(weights, dweights) + balance;
    };
    loss();
    Vector dlogits(logits.size());
    router_backward<double>({shape, probabilities, choices, weights, dweights, slopes, dlogits});
    expect_gradient(logits, dlogits, loss, "logits");
  }
}

// A rotation is linear and keeps lengths: its gradient is the inverse rotation.
TEST(ReferenceGradient, Rotary) {
  const AttentionShape shape{2, 5, 2, 1, 6};
  Vector x = numbers(count(shape.rows(), shape.qkv_width()), 1);
  Vector gradient = numbers(x.size(), 2);
  const Vector dy = gradient;
  rotary<double>({shape, gradient, RotaryDirection::Inverse});
  expect_gradient(
      x, gradient,
      [&] {
        Vector y = x;
        rotary<double>({shape, y});
        return weighted_sum(y, dy);
      },
      "rotary");
  Vector there_and_back = x;
  rotary<double>({shape, there_and_back});
  rotary<double>({shape, there_and_back, RotaryDirection::Inverse});
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(there_and_back[i], x[i], 1e-14);
  }
}

TEST(ReferenceGradient, Embedding) {
  const std::vector<std::int32_t> tokens{2, 0, 2, 4};
  // This rank has tokens 1, 2 and 3 of 5.
  const VocabularySlice slice{1, 3};
  Vector weight = numbers(6, 1);
  const Vector dy = numbers(8, 2);
  Vector dweight(6);
  embedding_backward_weight<double>({slice, 2, tokens, dy, dweight});
  expect_gradient(
      weight, dweight,
      [&] {
        Vector y(8);
        embedding_forward<double>({slice, 2, tokens, weight, y});
        return weighted_sum(y, dy);
      },
      "embedding");
}

TEST(ReferenceGradient, CrossEntropy) {
  const VocabularySlice all{0, 5};
  const std::vector<std::int32_t> targets{4, 0, 2};
  Vector logits = numbers(15, 1);
  Vector largest(3);
  Vector sums(3);
  Vector target_logits(3);
  const auto loss = [&] {
    row_max<double>({all, logits, largest});
    row_sums<double>({all, targets, logits, largest, sums, target_logits});
    double sum = 0;
    for (std::size_t row = 0; row < 3; ++row) {
      sum += std::log(sums[row]) - target_logits[row];
    }
    return 0.5 * sum;
  };
  loss();
  Vector dlogits = logits;
  cross_entropy_backward<double>({all, targets, largest, sums, 0.5, dlogits});
  expect_gradient(logits, dlogits, loss, "logits");
}

}  // namespace
}  // namespace megatwin::kernels::reference
