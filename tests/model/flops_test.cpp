#include "model/flops.h"

#include <gtest/gtest.h>

#include "tests/model/zoo_for_tests.h"

namespace megatwin::model {
namespace {

void expect_near_relative(double got, double expected, double tolerance) {
  EXPECT_NEAR(got / expected, 1.0, tolerance) << got << " beside " << expected;
}

// 96·B·s·l·h²·(1 + s/(6h) + V/(16·l·h)) of SC21's 1T row: B = 3,072, l = 128, h = 25,600.
TEST(Flops, Sc21HardwareConventionIsEquation3) {
  const Transformer gpt = zoo::gpt(128, 25600, 160, 51200, 2048);
  expect_near_relative(model_flop_per_step(gpt, FlopConvention::MegatronSc21Hardware, 3072).value,
                       5.139051377527358e19, 1e-12);
}

// Eqs. 7 and 8 of Korthikanti et al. for 22B: 41.5 % model and 43.7 % hardware utilisation from
// 1.10 s a step on 8 A100 at 312 TFLOP/s (Table 5).
TEST(Flops, KorthikantiEquations7And8) {
  Transformer gpt = zoo::gpt(48, 6144, 64, 51200, 2048);
  const FlopConvention full = FlopConvention::ModelFullAttention;
  const Flop model = model_flop_per_step(gpt, full, 4);
  const Flop hardware = hardware_flop_per_step(gpt, full, RecomputeKind::Selective, 4);
  expect_near_relative(flop_utilization(model, {1.1}, 8, 312_TFLOPps), 0.415, 0.006);
  expect_near_relative(flop_utilization(hardware, {1.1}, 8, 312_TFLOPps), 0.437, 0.006);
}

TEST(Flops, FullRecomputeOfAGptIsTheSc21Count) {
  const Transformer gpt = zoo::gpt(96, 12288, 96, 51200, 2048);
  EXPECT_DOUBLE_EQ(
      hardware_flop_per_token(gpt, FlopConvention::ModelFullAttention, RecomputeKind::Full).value,
      model_flop_per_token(gpt, FlopConvention::MegatronSc21Hardware).value);
}

// NVIDIA's performance tables: TFLOP/s/GPU over tokens/s/GPU gives FLOP a token.
TEST(Flops, CausalConventionMatchesPublishedRatios) {
  const FlopConvention causal = FlopConvention::ModelCausalAttention;
  const auto flop = [&](const Transformer& transformer) {
    return model_flop_per_token(transformer, causal).value;
  };
  expect_near_relative(flop(zoo::llama_3_405b()), 2.521e12, 0.002);
  expect_near_relative(flop(zoo::llama_3_70b()), 449.48e9, 0.001);
  EXPECT_DOUBLE_EQ(flop(zoo::llama_3_70b()), 449222541312.0);
  expect_near_relative(flop(zoo::qwen_3_235b()), 148.14e9, 0.001);
  expect_near_relative(flop(zoo::qwen_3_30b()), 23.10e9, 0.005);
  EXPECT_DOUBLE_EQ(flop(zoo::mixtral_8x7b()), 79706456064.0);
}

// DeepSeek-V3 at s = 4,096: 259.99e9 with one prediction layer, 249.8e9 without.
TEST(Flops, LatentAttentionAndPredictionLayer) {
  const FlopConvention causal = FlopConvention::ModelCausalAttention;
  Transformer v3 = zoo::deepseek_v3();
  EXPECT_DOUBLE_EQ(model_flop_per_token(v3, causal).value, 259992821760.0);
  v3.num_mtp_layers = 0;
  expect_near_relative(model_flop_per_token(v3, causal).value, 249.8e9, 0.001);
}

// The causal half of the square and nothing else separates the two model conventions.
TEST(Flops, ConventionsDifferByHalfTheAttention) {
  const Transformer gpt = zoo::llama_3_8b();
  const ForwardFlop full = forward_flop_per_token(gpt, FlopConvention::ModelFullAttention);
  const ForwardFlop causal = forward_flop_per_token(gpt, FlopConvention::ModelCausalAttention);
  EXPECT_DOUBLE_EQ(full.attention_core.value, 2 * causal.attention_core.value);
  EXPECT_EQ(full.layer_matrices, causal.layer_matrices);
}

// Gemma-2 at s = 8,192 with a window of 4,096 on every other layer: those see
// 4,096 − 4,096²/(2·8,192) = 3,072 keys instead of 4,096, so the core is 7/8.
TEST(Flops, SlidingWindowOnEveryOtherLayer) {
  Transformer gemma = zoo::gemma_2_27b();
  const FlopConvention causal = FlopConvention::ModelCausalAttention;
  const double with = forward_flop_per_token(gemma, causal).attention_core.value;
  gemma.sliding_window = 0;
  const double without = forward_flop_per_token(gemma, causal).attention_core.value;
  EXPECT_DOUBLE_EQ(with, without * 7 / 8);
}

// PaLM: 6N + 12LHQT; dropping nothing, recompute multiplies by 4/3.
TEST(Flops, PalmFormula) {
  const PalmShape palm{540e9, 118, 48, 256, 2048};
  EXPECT_DOUBLE_EQ(palm_flop_per_token(palm).value, 6 * 540e9 + 12.0 * 118 * 48 * 256 * 2048);
  EXPECT_DOUBLE_EQ(palm_flop_per_token(palm, true).value, palm_flop_per_token(palm).value * 4 / 3);
}

// cuDNN on an H200, s = 8,192, 64 heads of 128: 1.708 ms forward is 644 TFLOP/s.
TEST(Flops, AttentionConvention) {
  const Flop forward =
      attention_forward_flop({.sequence_length = 8192, .heads = 64, .head_dim = 128});
  EXPECT_DOUBLE_EQ(forward.value, 1099511627776.0);
  expect_near_relative(forward.value / 0.001708 / 1e12, 644, 0.005);
}

// One trillion parameters, 450e9 tokens, 3,072 GPUs at 163 TFLOP/s: 84 days.
TEST(Flops, TrainingTime) {
  const Seconds time = training_time({450e9, 1008e9, 3072, 163_TFLOPps});
  expect_near_relative(time.value / 86400, 84, 0.01);
}

}  // namespace
}  // namespace megatwin::model
