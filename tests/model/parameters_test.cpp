#include "model/parameters.h"

#include <numeric>

#include <gtest/gtest.h>

#include "tests/model/zoo_for_tests.h"

namespace megatwin::model {
namespace {

std::int64_t total(const Transformer& transformer) { return count_parameters(transformer).total; }

// Totals as the published checkpoints hold them.
TEST(Parameters, DenseModelsAreExact) {
  EXPECT_EQ(total(zoo::gpt(12, 768, 12, 50257, 1024)), 124439808);
  EXPECT_EQ(total(zoo::llama_2_7b()), 6738415616);
  EXPECT_EQ(total(zoo::llama_2_70b()), 68976648192);
  EXPECT_EQ(total(zoo::llama_3_8b()), 8030261248);
  EXPECT_EQ(total(zoo::llama_3_70b()), 70553706496);
  EXPECT_EQ(total(zoo::llama_3_405b()), 405853388800);
  EXPECT_EQ(total(zoo::mistral_7b()), 7241732096);
  EXPECT_EQ(total(zoo::qwen_2_5_72b()), 72706203648);
  EXPECT_EQ(total(zoo::gemma_2_27b()), 27227128320);
  EXPECT_EQ(total(zoo::falcon(60, 8192)), 41303293952);
  EXPECT_EQ(total(zoo::falcon_180b()), 179522565120);
  EXPECT_EQ(total(zoo::bloom()), 176247271424);
  EXPECT_EQ(total(zoo::phi_3_5_mini()), 3821079552);
  EXPECT_EQ(total(zoo::glm_4_9b()), 9399951360);
  EXPECT_EQ(total(zoo::chatglm3_6b()), 6243584000);
  EXPECT_EQ(total(zoo::olmo_2_32b()), 32234279936);
  EXPECT_EQ(total(zoo::phi_4_mini()), 3836021760);
}

// GPT-3's shape with OPT's vocabulary of 50,272 and 2,048 + 2 positions.
TEST(Parameters, Opt175bShape) {
  EXPECT_EQ(total(zoo::gpt(96, 12288, 96, 50272, 2050)), 174604468224);
}

// 341.03e9, and 331.6e9 without the two embedding matrices of 256,000 × 18,432.
TEST(Parameters, Nemotron340bShape) {
  const ParameterCounts counts = count_parameters(zoo::nemotron_4_340b());
  EXPECT_NEAR(static_cast<double>(counts.total), 341.03e9, 0.01e9);
  EXPECT_NEAR(static_cast<double>(counts.total - counts.input_embedding - counts.output_head),
              331.6e9, 0.05e9);
}

TEST(Parameters, MixturesAreExact) {
  EXPECT_EQ(total(zoo::mixtral_8x7b()), 46702792704);
  EXPECT_EQ(total(zoo::mixtral_8x22b()), 140620634112);
  EXPECT_EQ(total(zoo::qwen_3_30b()), 30532122624);
  EXPECT_EQ(total(zoo::qwen_3_235b()), 235093634560);
  EXPECT_EQ(total(zoo::deepseek_v2_lite()), 15706484224);
  EXPECT_EQ(total(zoo::gpt_oss(36, 128)), 116829156672);
  EXPECT_EQ(total(zoo::gpt_oss(24, 32)), 20914757184);
  EXPECT_EQ(count_parameters(zoo::mixtral_8x7b()).active, 12879925248);
  EXPECT_NEAR(static_cast<double>(count_parameters(zoo::qwen_3_235b()).active), 22.19e9, 0.01e9);
}

// The router's bias (58 layers × 256) is in the total and not in the active count. The published
// files also hold one prediction layer with copies of both embeddings: about 684.5e9 in all.
TEST(Parameters, DeepSeekV3) {
  const ParameterCounts counts = count_parameters(zoo::deepseek_v3());
  EXPECT_EQ(counts.total, 671026419200);
  EXPECT_EQ(counts.active, 37552282624);
  EXPECT_NEAR(static_cast<double>(counts.total + counts.mtp_total + counts.input_embedding +
                                  counts.output_head),
              684.5e9, 0.05e9);
}

StageContents whole(const Transformer& transformer) {
  StageContents stage{.has_embedding = true, .has_head = true};
  stage.layers.resize(static_cast<std::size_t>(transformer.num_layers));
  std::iota(stage.layers.begin(), stage.layers.end(), 0);
  return stage;
}

TEST(RankParameters, OneRankHoldsTheWholeModel) {
  for (const Transformer& transformer : {zoo::llama_3_8b(), zoo::deepseek_v3(), zoo::bloom()}) {
    const RankParameters rank = rank_parameters(transformer, whole(transformer), {});
    EXPECT_EQ(rank.total(), total(transformer));
    EXPECT_EQ(rank.expert, count_parameters(transformer).experts);
  }
}

// Llama-3-8B over 8 tensor ranks: every matrix is cut by 8, the (2·32 + 1) · 4,096 norm weights
// are whole.
TEST(RankParameters, NormsAreNotCutByTensor) {
  const Transformer transformer = zoo::llama_3_8b();
  const std::int64_t norms = std::int64_t{65} * 4096;
  const RankParameters rank = rank_parameters(transformer, whole(transformer), {.tensor = 8});
  EXPECT_EQ(rank.dense, (total(transformer) - norms) / 8 + norms);
}

// With 8 key-value heads and 16 tensor ranks, a rank keeps one key and one value head.
TEST(RankParameters, KeyValueHeadsAreReplicatedBeyondTheirNumber) {
  const LayerParameters layer = layer_parameters(zoo::llama_3_8b(), 0, {.tensor = 16});
  EXPECT_EQ(layer.attention_matrices, 4096 * 128 * (2 + 2 * 1) + 2 * 128 * 4096);
}

// Mixtral's experts: 1/8 of them with expert 8, whole with expert 1 and expert_tensor 1, whatever
// `tensor` is; so TP1 EP8 and TP8 EP1 differ in the dense part only when expert_tensor is 8.
TEST(RankParameters, ExpertsAreCutByExpertAndExpertTensorOnly) {
  const Transformer transformer = zoo::mixtral_8x7b();
  const StageContents stage = whole(transformer);
  const std::int64_t experts = count_parameters(transformer).experts;
  EXPECT_EQ(rank_parameters(transformer, stage, {.expert = 8}).expert, experts / 8);
  EXPECT_EQ(rank_parameters(transformer, stage, {.tensor = 8}).expert, experts);
  EXPECT_EQ(rank_parameters(transformer, stage, {.tensor = 8, .expert_tensor = 8}).expert,
            experts / 8);
  EXPECT_GT(rank_parameters(transformer, stage, {.expert = 8}).dense,
            rank_parameters(transformer, stage, {.tensor = 8}).dense);
}

// Megatron pads GPT-2's 50,257 to a multiple of 128 · 8 = 1,024: 51,200.
TEST(RankParameters, VocabularyIsPaddedLikeMegatron) {
  const Transformer transformer = zoo::gpt(24, 2304, 24, 50257, 2048);
  EXPECT_EQ(padded_vocab_size(transformer, {.tensor = 8, .vocab_divisible_by = 128}), 51200);
  EXPECT_EQ(padded_vocab_size(transformer, {.tensor = 8}), 50264);
}

// A tied head on the last stage is a second copy of the table.
TEST(RankParameters, TiedHeadOnAnotherStageIsACopy) {
  const Transformer transformer = zoo::gpt(2, 768, 12, 50257, 1024);
  const RankParameters first = rank_parameters(transformer, {{0}, true, false, false}, {});
  const RankParameters last = rank_parameters(transformer, {{1}, false, true, false}, {});
  EXPECT_EQ(first.total() + last.total(), total(transformer) + std::int64_t{50257} * 768);
}

// Uneven stages: each holds what its own layers weigh, never the average.
TEST(RankParameters, UnevenStagesAreCountedLayerByLayer) {
  const Transformer transformer = zoo::llama({8, 8, 16, 2, 2, 4, 32, 16});
  const std::int64_t layer = layer_parameters(transformer, 0).total();
  EXPECT_EQ(rank_parameters(transformer, {{3, 4}, false, false, false}, {}).total(), 2 * layer);
  EXPECT_EQ(rank_parameters(transformer, {{5, 6, 7}, false, true, false}, {}).total(),
            3 * layer + 8 + std::int64_t{32} * 8);
}

}  // namespace
}  // namespace megatwin::model
