// Operators of experts that some models have, against bytes counted by hand from the source that
// runs them.
#include <string>

#include <gtest/gtest.h>

#include "model/program/job_program.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

// 128 experts over 8 ranks; a rank's 4,096 tokens go to 4 experts each: 16,384 rows of 2,880, on
// 16 experts of 2 · 2,880 outputs.
constexpr double kRows = 16'384, kHidden = 2'880, kFc1 = 5'760;

model::Job gpt_oss(const std::string& framework, const std::string& experts = "") {
  return job_from("model: {name: gpt-oss-120b, sequence_length: 4096" + experts +
                  "}\n"
                  "cluster: {nodes: [{type: dgx-h100, count: 1}]}\n"
                  "software: {framework: " +
                  framework +
                  "}\n"
                  "plan: {expert: 8, micro_batch: 1, global_batch: 8, precision: bf16}\n");
}

model::TaskOps layer_of(const model::Job& job) {
  return model::lower_chunk(model::lowering_input(job), {.moe_layers = 1});
}

struct Traffic {
  double bytes = 0;
  int kernels = 0;
};
Traffic traffic_of(const model::MicroOps& ops, const std::string& name) {
  Traffic traffic;
  for (const model::MicroOp& op : ops) {
    if (op.name != name) continue;
    traffic.bytes += (op.read + op.written).value;
    traffic.kernels += op.kernels;
  }
  return traffic;
}

// Forward, a row and element: bias times probability 0 + 4, sum 2 + 4 + 4, concatenation 4 + 4,
// cast 4 + 2. Backward: cast 2 + 4, gradient of the sum 4 + 2, two products of 4 + 4 with sums of
// 4, concatenation 2 + 2.
TEST(ExpertOperators, MegatronAddsBiasesExpertByExpertInFp32) {
  const model::TaskOps ops = layer_of(gpt_oss("megatron-core"));
  const Traffic forward = traffic_of(ops.forward, "moe.bias");
  EXPECT_DOUBLE_EQ(forward.bytes, 28 * kRows * kHidden);
  EXPECT_EQ(forward.kernels, 2 * 16 + 2);
  const Traffic backward = traffic_of(ops.backward, "moe.bias.backward");
  EXPECT_DOUBLE_EQ(backward.bytes, 40 * kRows * kHidden);
  EXPECT_EQ(backward.kernels, 6 * 16 + 3);
}

// Forward: two clamps of halves, 2 + 2, concatenation 2 + 2. Backward: concatenation 2 + 2; one
// half compares 2 + 1 and chooses 1 + 2 + 2, the other compares twice, joins 1 + 1 + 1 and chooses.
TEST(ExpertOperators, MegatronClampsBeforeTheFusedActivation) {
  const model::TaskOps ops = layer_of(gpt_oss("megatron-core"));
  EXPECT_DOUBLE_EQ(traffic_of(ops.forward, "moe.activation.clamp").bytes, 8 * kRows * kFc1);
  EXPECT_DOUBLE_EQ(traffic_of(ops.backward, "moe.activation.clamp.backward").bytes,
                   (4 + ((3 + 5) + (6 + 3 + 5)) / 2.0) * kRows * kFc1);
}

TEST(ExpertOperators, OthersAddBiasesInOnePassAndClampInTheActivation) {
  const model::TaskOps ops = layer_of(gpt_oss("fsdp2"));
  EXPECT_DOUBLE_EQ(traffic_of(ops.forward, "moe.bias").bytes, 4 * kRows * kHidden);
  EXPECT_DOUBLE_EQ(traffic_of(ops.backward, "moe.bias.backward").bytes, 2 * kRows * kHidden);
  EXPECT_EQ(traffic_of(ops.forward, "moe.activation.clamp").bytes, 0);
}

TEST(ExpertOperators, AreOnlyThoseOfTheModel) {
  const model::TaskOps ops = layer_of(
      gpt_oss("megatron-core", ", experts: {expert_bias: false, clamped_activation: false}"));
  for (const model::MicroOps* list : {&ops.forward, &ops.backward}) {
    for (const model::MicroOp& op : *list) {
      EXPECT_EQ(op.name.find("moe.bias"), std::string_view::npos) << op.name;
      EXPECT_EQ(op.name.find("clamp"), std::string_view::npos) << op.name;
    }
  }
}

// The clamped copy is kept for the fused activation, its input for the clamps.
TEST(ExpertOperators, ClampsKeepOneMoreCopy) {
  const auto kept = [](const std::string& experts) {
    return model::saved_activations(model::lowering_input(gpt_oss("megatron-core", experts)),
                                    {.moe_layers = 1})
        .chunk.value;
  };
  EXPECT_DOUBLE_EQ(kept("") - kept(", experts: {clamped_activation: false}"), 2 * kRows * kFc1);
}

}  // namespace
}  // namespace megatwin::tests
