#include "model/plan_check.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "model/layer_split.h"
#include "model/nearest_plans.h"
#include "model/quantisation.h"
#include "tests/model/zoo_for_tests.h"

namespace megatwin::model {
namespace {

Gpu gpu(GpuArchitecture architecture) {
  Gpu result;
  result.architecture = architecture;
  result.peak.fp32 = 15_TFLOPps;
  result.peak.fp16 = 125_TFLOPps;
  result.name = "V100-SXM2-32GB";
  if (architecture == GpuArchitecture::Volta) return result;
  result.name = "A100-SXM4-80GB";
  result.peak.bf16 = 312_TFLOPps;
  if (architecture == GpuArchitecture::Ampere) return result;
  result.name = "H100-SXM5-80GB";
  result.peak.fp8 = 1979_TFLOPps;
  return result;
}

Cluster cluster_of(int num_gpus, GpuArchitecture architecture = GpuArchitecture::Ampere) {
  Cluster cluster;
  cluster.groups.resize(1);
  cluster.groups[0].gpu = gpu(architecture);
  cluster.groups[0].count = (num_gpus + 7) / 8;
  cluster.groups[0].node.num_gpus = num_gpus < 8 ? num_gpus : 8;
  return cluster;
}

SoftwareStack megatron() {
  SoftwareStack stack;
  stack.framework = Framework::MegatronCore;
  stack.name = "megatron-core";
  return stack;
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += text + "\n";
  return all;
}

// All problems of a plan on Ampere GPUs of its own number.
std::string problems(const Transformer& transformer, const Plan& plan) {
  return joined(plan_problems(transformer, plan, cluster_of(plan.gpus()), megatron()));
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

const Transformer kGpt = zoo::gpt(32, 4096, 32, 51200, 2048);

// SimAI#202: 1,472 GPUs at tensor 8 and pipeline 8 leave 23 replicas; a batch of 32 divides into
// them neither at 32 nor anywhere between 23 and 46.
TEST(PlanCheck, BatchOf32Over23Replicas) {
  const Plan plan{.tensor = 8, .pipeline = 8, .data = 23, .global_batch = 32};
  const std::string text = problems(kGpt, plan);
  EXPECT_TRUE(has(text, "plan.data 23")) << text;
  EXPECT_TRUE(has(text, "the nearest legal global batches are 23 and 46")) << text;
  const auto nearest = nearest_legal_plans(kGpt, plan, cluster_of(1472), megatron());
  ASSERT_FALSE(nearest.empty());
  EXPECT_EQ(nearest.front().change, "plan.global_batch 32 → 23");
  for (const NearestPlan& near : nearest) {
    EXPECT_EQ(near.plan.gpus(), 1472);
    EXPECT_TRUE(plan_problems(kGpt, near.plan, cluster_of(1472), megatron()).empty());
  }
}

// Megatron-LM#1304: 30 layers over 4 stages became 28. Refused, with a split that keeps all 30.
TEST(PlanCheck, LayersAreNeverDropped) {
  const Transformer gpt = zoo::gpt(30, 3072, 32, 51200, 2048);
  const Plan plan{.pipeline = 4, .global_batch = 8};
  const std::string text = problems(gpt, plan);
  EXPECT_TRUE(has(text, "30 layers do not divide")) << text;
  EXPECT_TRUE(has(text, "[7, 8, 8, 7]")) << text;
  Plan uneven = plan;
  uneven.layers_per_virtual_stage = {7, 8, 8, 7};
  EXPECT_EQ(problems(gpt, uneven), "");
  Plan ends = plan;
  ends.embedding_as_layer = ends.head_as_layer = true;
  EXPECT_EQ(problems(gpt, ends), "");
  EXPECT_EQ(layers_of_virtual_stages(gpt, ends), (std::vector<int>{7, 8, 8, 7}));
  uneven.layers_per_virtual_stage = {7, 7, 7, 7};
  EXPECT_TRUE(has(problems(gpt, uneven), "28 layers in all"));
  const auto nearest = nearest_legal_plans(gpt, plan, cluster_of(4), megatron());
  ASSERT_EQ(nearest.size(), 3u);
  EXPECT_EQ(nearest[0].change, "plan.layers_per_stage even → [7, 8, 8, 7]");
}

// torchtitan#775: 8 stages with fewer micro-batches hang; interleaved also needs a multiple.
TEST(PlanCheck, MicroBatchesFillThePipeline) {
  Plan plan{.pipeline = 8, .model_chunks = 2, .global_batch = 4};
  plan.schedule = ScheduleKind::Interleaved;
  plan.overlap_p2p = true;
  EXPECT_TRUE(has(problems(kGpt, plan), "= 4")) << problems(kGpt, plan);
  plan.global_batch = 12;
  EXPECT_TRUE(has(problems(kGpt, plan), "multiple of plan.pipeline 8"));
  plan.global_batch = 16;
  EXPECT_EQ(problems(kGpt, plan), "");

  SoftwareStack torch;
  torch.framework = Framework::Fsdp2;
  const Plan short_plan{.pipeline = 8, .global_batch = 4};
  EXPECT_TRUE(has(joined(plan_problems(kGpt, short_plan, cluster_of(8), torch)),
                  "at least as many micro-batches as stages"));
  EXPECT_EQ(problems(kGpt, short_plan), "");  // Megatron runs it, with idle stages.
  EXPECT_TRUE(has(joined(plan_warnings(kGpt, short_plan, cluster_of(8), megatron())),
                  "only 4 micro-batches"));
}

// Megatron-LM#750: with two stages the next and the previous stage are one peer.
TEST(PlanCheck, InterleavedOverTwoStages) {
  Plan plan{.pipeline = 2, .model_chunks = 2, .global_batch = 8};
  plan.schedule = ScheduleKind::Interleaved;
  EXPECT_TRUE(has(problems(kGpt, plan), "the same peer"));
  plan.overlap_p2p = true;
  EXPECT_EQ(problems(kGpt, plan), "");
  EXPECT_TRUE(has(joined(plan_warnings(kGpt, plan, cluster_of(2), megatron())), "gains little"));
  plan.pipeline = 1;
  EXPECT_TRUE(has(problems(kGpt, plan), "nothing to interleave"));
}

// One plan with many faults: all of them at once.
TEST(PlanCheck, SaysEverythingAtOnce) {
  Plan plan{.tensor = 3, .pipeline = 5, .context = 3, .data = 2, .global_batch = 7};
  plan.zero_stage = 3;
  plan.rank_order = "pp-tp";
  const auto texts = plan_problems(kGpt, plan, cluster_of(64), megatron());
  const std::string all = joined(texts);
  for (const char* part : {"90 ranks, but the cluster has 64 GPUs", "32 attention heads",
                           "4096 columns of the hidden size", "32 layers", "plan.global_batch 7",
                           "multiple of 2 · 3", "plan.zero 3", "plan.rank_order 'pp-tp'"}) {
    EXPECT_TRUE(has(all, part)) << part << " is not in\n" << all;
  }
}

TEST(PlanCheck, AutomaticDataNeedsAWholeNumber) {
  Plan plan{.tensor = 8, .pipeline = 8, .data = 0, .global_batch = 64};
  EXPECT_TRUE(plan_problems(kGpt, plan, cluster_of(128), megatron()).empty());
  EXPECT_TRUE(
      has(joined(plan_problems(kGpt, plan, cluster_of(96), megatron())), "leaves 32 GPUs over"));
  EXPECT_TRUE(
      has(joined(plan_problems(kGpt, plan, cluster_of(32), megatron())), "needs at least 64 GPUs"));
}

TEST(PlanCheck, SizesBelowOneAndAbsurdOnes) {
  Plan plan{.tensor = 0, .micro_batch = -1, .global_batch = 0};
  const auto texts = plan_problems(kGpt, plan, cluster_of(8), megatron());
  EXPECT_EQ(texts.size(), 3u) << joined(texts);
  plan = Plan{.tensor = 2147483647,
              .pipeline = 2147483647,
              .data = 2147483647,
              .global_batch = 9223372036854775807};
  EXPECT_EQ(plan_problems(kGpt, plan, cluster_of(8), megatron()).size(), 4u);
}

TEST(PlanCheck, PrecisionNeedsItsUnits) {
  const auto on = [&](GpuArchitecture architecture, Precision precision) {
    return joined(
        plan_problems(kGpt, Plan{.precision = precision}, cluster_of(1, architecture), megatron()));
  };
  EXPECT_TRUE(has(on(GpuArchitecture::Volta, Precision::Bf16), "has no bf16 matrix units; fp16"));
  EXPECT_TRUE(has(on(GpuArchitecture::Ampere, Precision::Fp8PerTensor), "has no fp8"));
  EXPECT_TRUE(has(on(GpuArchitecture::Hopper, Precision::Nvfp4), "needs a Blackwell GPU"));
  EXPECT_TRUE(has(on(GpuArchitecture::Hopper, Precision::Mxfp8), "is none; fp8 it has"));
  EXPECT_FALSE(has(on(GpuArchitecture::Ampere, Precision::Mxfp8), "fp8 it has"));
  EXPECT_EQ(on(GpuArchitecture::Volta, Precision::Fp16), "");
  EXPECT_EQ(on(GpuArchitecture::Hopper, Precision::Fp8PerTensor), "");
}

// Mixtral on 16 GPUs: tensor 2 and expert 8 give experts 2 · 8 = 16 ranks; with tensor 4 they
// would need 32, unless expert_tensor is set apart.
TEST(PlanCheck, ExpertsFitTheStage) {
  const Transformer mixtral = zoo::mixtral_8x7b();
  Plan plan{.tensor = 2, .expert = 8, .data = 8, .global_batch = 128, .sequence_parallel = true};
  EXPECT_EQ(problems(mixtral, plan), "");
  plan.tensor = 4;
  plan.data = 4;
  EXPECT_TRUE(has(problems(mixtral, plan), "does not divide the 16 ranks"));
  plan.expert_tensor = 1;
  EXPECT_EQ(problems(mixtral, plan), "");
  plan.expert = 3;
  EXPECT_TRUE(has(problems(mixtral, plan), "does not divide the 8 experts"));
  EXPECT_TRUE(has(problems(kGpt, Plan{.expert = 2, .data = 2, .global_batch = 2}),
                  "the model has no experts"));
  EXPECT_EQ(problems(kGpt, Plan{.expert_tensor = 3, .data = 2, .global_batch = 2}),
            "plan.expert_tensor 3 but the model has no experts\n");
  EXPECT_EQ(problems(kGpt, Plan{.expert_tensor = 1, .data = 2, .global_batch = 2}), "");
}

TEST(PlanCheck, ZeroBubbleVNeedsTwoEqualChunks) {
  const Transformer gpt = zoo::gpt(46, 4096, 32, 51200, 2048);
  Plan plan{.pipeline = 16, .model_chunks = 2, .global_batch = 64};
  plan.schedule = ScheduleKind::ZeroBubbleV;
  EXPECT_TRUE(has(problems(gpt, plan), "46 layers do not divide"));
  EXPECT_EQ(problems(kGpt, plan), "");
  plan.model_chunks = 1;
  EXPECT_TRUE(has(problems(kGpt, plan), "two chunks a rank"));
}

// Published runs are legal: SC21's 530B with 105 layers over 35 stages and 3 chunks; Llama-3.1
// 405B with 126 layers and both ends counted as layers over 8 · 8.
TEST(PlanCheck, PublishedPlansAreLegal) {
  const Transformer turing = zoo::gpt(105, 20480, 128, 51200, 2048);
  Plan plan{.tensor = 8, .pipeline = 35, .model_chunks = 1, .data = 9, .global_batch = 2520};
  EXPECT_EQ(problems(turing, plan), "");
  plan.model_chunks = 3;
  plan.schedule = ScheduleKind::Interleaved;
  EXPECT_EQ(problems(turing, plan), "");
  Plan llama{
      .tensor = 8, .pipeline = 8, .model_chunks = 8, .context = 2, .data = 4, .global_batch = 256};
  llama.schedule = ScheduleKind::Interleaved;
  llama.embedding_as_layer = llama.head_as_layer = true;
  llama.sequence_parallel = true;
  EXPECT_EQ(problems(zoo::llama_3_405b(), llama), "");
  const auto layers = layers_of_virtual_stages(zoo::llama_3_405b(), llama);
  EXPECT_EQ(layers.front(), 1);
  EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), 0), 126);
}

TEST(PlanWarnings, TensorGroupsThatLeaveTheMachine) {
  const Plan plan{.tensor = 16, .global_batch = 1};
  EXPECT_EQ(problems(kGpt, plan), "");
  const std::string text = joined(plan_warnings(kGpt, plan, cluster_of(16), megatron()));
  EXPECT_TRUE(has(text, "leaves a machine of 8 GPUs")) << text;
}

TEST(PlanWarnings, SelectiveRecomputeWithFusedAttention) {
  const Plan plan{.recompute = RecomputeKind::Selective};
  EXPECT_TRUE(has(joined(plan_warnings(kGpt, plan, cluster_of(1), megatron())),
                  "frees no memory with fused attention"));
  SoftwareStack unfused = megatron();
  unfused.attention = AttentionKernel::Unfused;
  EXPECT_EQ(joined(plan_warnings(kGpt, plan, cluster_of(1), unfused)), "");
}

TEST(LayerSplit, StagesHoldEmbeddingHeadAndAllLayers) {
  Plan plan{.pipeline = 2, .model_chunks = 2};
  plan.schedule = ScheduleKind::Interleaved;
  auto stages = contents_of_stages(zoo::gpt(8, 64, 2, 128, 32), plan);
  EXPECT_EQ(stages[0].layers, (std::vector<std::int64_t>{0, 1, 4, 5}));
  EXPECT_TRUE(stages[0].has_embedding && !stages[0].has_head);
  EXPECT_TRUE(stages[1].has_head);
  // ZB-V folds back: embedding and head on stage 0 both.
  plan.schedule = ScheduleKind::ZeroBubbleV;
  stages = contents_of_stages(zoo::gpt(8, 64, 2, 128, 32), plan);
  EXPECT_EQ(stages[0].layers, (std::vector<std::int64_t>{0, 1, 6, 7}));
  EXPECT_TRUE(stages[0].has_embedding && stages[0].has_head);
}

TEST(NearestPlans, ALegalPlanIsItsOwnAnswer) {
  const auto nearest = nearest_legal_plans(kGpt, Plan{}, cluster_of(1), megatron());
  ASSERT_EQ(nearest.size(), 1u);
  EXPECT_EQ(nearest.front().change, "");
}

// Legal, but it must shard its states to be accepted.
TEST(NearestPlans, VariesWhatMemoryDependsOn) {
  NearestPlansOptions options;
  options.accepts = [](const Plan& plan) { return plan.zero_stage >= 1; };
  const auto nearest = nearest_legal_plans(kGpt, Plan{.data = 8, .global_batch = 8}, cluster_of(8),
                                           megatron(), options);
  ASSERT_FALSE(nearest.empty());
  EXPECT_EQ(nearest.front().change, "plan.zero 0 → 1");
}

// Sharding the states or halving the micro-batch suffices: no answer does both, or one of them and
// something else.
TEST(NearestPlans, ChangesNoMoreThanIsNeeded) {
  NearestPlansOptions options{.max_plans = 5};
  options.accepts = [](const Plan& plan) { return plan.zero_stage >= 1 || plan.micro_batch <= 2; };
  const Plan plan{.data = 8, .micro_batch = 4, .global_batch = 64};
  const auto nearest = nearest_legal_plans(kGpt, plan, cluster_of(8), megatron(), options);
  ASSERT_GE(nearest.size(), 2u);
  for (const NearestPlan& near : nearest) {
    const bool sharded = near.plan.zero_stage >= 1;
    const bool smaller = near.plan.micro_batch <= 2;
    EXPECT_NE(sharded, smaller) << near.change;
    EXPECT_EQ(near.change.find(','), std::string::npos) << near.change;
  }
}

// Sizes out of all range still end in a short list, quickly.
TEST(NearestPlans, MendsAbsurdSizes) {
  const Plan plan{.tensor = 2147483647, .micro_batch = -5, .global_batch = 8};
  const auto nearest = nearest_legal_plans(kGpt, plan, cluster_of(8), megatron());
  ASSERT_FALSE(nearest.empty());
  for (const NearestPlan& near : nearest) {
    EXPECT_TRUE(plan_problems(kGpt, near.plan, cluster_of(8), megatron()).empty());
  }
}

// Tensor 6 on 48 GPUs with 32 heads: 4 and 8 are the neighbours.
TEST(NearestPlans, TensorThatDividesTheHeads) {
  const Plan plan{.tensor = 6, .data = 8, .global_batch = 96};
  const auto nearest = nearest_legal_plans(kGpt, plan, cluster_of(48), megatron());
  ASSERT_EQ(nearest.size(), 2u);  // No third one: two answers turn the same keys.
  EXPECT_EQ(nearest[0].change, "plan.tensor 6 → 8, plan.data 8 → 6");
  EXPECT_EQ(nearest[1].change, "plan.tensor 6 → 4, plan.data 8 → 12");
}

// Layers given by hand may be what does not fit: even ones are offered, and once.
TEST(NearestPlans, LeavesLayersGivenByHandOut) {
  NearestPlansOptions options;
  options.accepts = [](const Plan& plan) {
    const std::vector<int> layers = layers_of_virtual_stages(kGpt, plan);
    return *std::max_element(layers.begin(), layers.end()) <= 8;
  };
  const Plan plan{.pipeline = 4, .global_batch = 64, .layers_per_virtual_stage = {0, 0, 0, 32}};
  const auto nearest = nearest_legal_plans(kGpt, plan, cluster_of(4), megatron(), options);
  ASSERT_FALSE(nearest.empty());
  EXPECT_EQ(nearest.front().change, "plan.layers_per_stage [0, 0, 0, 32] → even");
  for (const NearestPlan& near : nearest) {
    EXPECT_EQ(near.change.find("[8, 8, 8, 8]"), std::string::npos) << near.change;
  }
}

// What is warned of says which size it is and which would do; aligned sizes are passed over.
TEST(PlanWarnings, NameUnalignedRowsAndWhatWouldDo) {
  Transformer model = kGpt;
  Plan plan;
  plan.data = 8;
  plan.global_batch = 64;
  const auto warnings = [&](Precision precision) {
    plan.precision = precision;
    return joined(plan_warnings(model, plan, cluster_of(8), megatron()));
  };
  EXPECT_FALSE(has(warnings(Precision::Bf16), "no multiple of"));
  model.hidden_size += 4;
  EXPECT_TRUE(has(
      warnings(Precision::Bf16),
      "the hidden size is " + std::to_string(model.hidden_size) + " on a rank, no multiple of 8"));
  EXPECT_TRUE(has(warnings(Precision::Bf16), std::to_string(model.hidden_size + 4) + " would do"));
  EXPECT_FALSE(has(warnings(Precision::Fp32), "no multiple of"));
  model.hidden_size += 4;
  EXPECT_FALSE(has(warnings(Precision::Bf16), "no multiple of"));
  model.hidden_size = 2056;
  EXPECT_TRUE(has(warnings(Precision::Fp8PerTensor), "no multiple of 16"));
  EXPECT_TRUE(has(warnings(Precision::Mxfp8), "no multiple of 32"));
  EXPECT_TRUE(has(warnings(Precision::Fp8Block), "no multiple of 128"));
}

// What is priced goes by the 16 elements of the tensor cores (fp4: 32), what Transformer Engine
// takes by its blocks; the warning told of blocks alone. linear_type() is what prices.
TEST(PlanWarnings, SayInWhatUnalignedRowsArePriced) {
  Transformer model = kGpt;
  Plan plan;
  plan.data = 8;
  plan.global_batch = 64;
  const std::string loads = "miss the 16-byte loads";
  for (const std::int64_t size : {2049, 2056, 2064, 2080, 2176}) {
    model.hidden_size = size;
    for (const Precision precision :
         {Precision::Fp8PerTensor, Precision::Fp8Block, Precision::Mxfp8, Precision::Nvfp4}) {
      plan.precision = precision;
      const std::string text = joined(plan_warnings(model, plan, cluster_of(8), megatron()));
      const DataType type = linear_type(precision, {.outputs = size, .inputs = size});
      const std::string of_size = "the hidden size is " + std::to_string(size);
      EXPECT_EQ(has(text, of_size), size % operand_multiple(precision) != 0) << text;
      EXPECT_EQ(has(text, "are priced in 16 bits"), type == DataType::Bf16) << text;
      const bool padded = type != DataType::Bf16 && size % operand_multiple(precision) != 0;
      EXPECT_EQ(has(text, "are priced in fp8 with their last blocks padded"), padded) << text;
      EXPECT_EQ(has(text, loads), size == 2049) << text;
    }
  }
}

// Of micro-batch × sequence / (context · tensor) tokens, quantised products take multiples only.
TEST(PlanWarnings, TokensOfARankAreQuantisedInMultiples) {
  struct Row {
    std::int64_t sequence, micro_batch;
    int tensor, context;
    bool sequence_parallel;
    Precision precision;
    std::string says;  // Empty: nothing.
  };
  const std::string sixteen = " on a rank, no multiple of 16: Transformer Engine refuses";
  for (const Row& row : std::vector<Row>{
           {2048, 1, 1, 1, false, Precision::Fp8PerTensor, ""},
           {2056, 1, 1, 1, false, Precision::Fp8PerTensor, "2056" + sixteen},
           {2056, 2, 1, 1, false, Precision::Fp8PerTensor, ""},
           {2064, 1, 2, 1, true, Precision::Fp8Current, "1032" + sixteen},
           {2064, 1, 2, 1, false, Precision::Fp8Current, ""},
           {2064, 1, 1, 2, false, Precision::Fp8Block, "1032" + sixteen},
           {2064, 1, 1, 1, false, Precision::Nvfp4, ""},
           {2064, 1, 1, 1, false, Precision::Mxfp8, "2064 on a rank, no multiple of 32"},
           {2056, 1, 1, 1, false, Precision::Bf16, ""}}) {
    Transformer model = kGpt;
    model.sequence_length = row.sequence;
    const Plan plan{.tensor = row.tensor,
                    .context = row.context,
                    .data = 8 / (row.tensor * row.context),
                    .micro_batch = row.micro_batch,
                    .global_batch = 64,
                    .sequence_parallel = row.sequence_parallel,
                    .precision = row.precision};
    const std::string text = joined(plan_warnings(model, plan, cluster_of(8), megatron()));
    EXPECT_EQ(has(text, "the number of tokens of a micro-batch is "), !row.says.empty()) << text;
    EXPECT_TRUE(has(text, row.says)) << row.says << "\n" << text;
  }
}

TEST(PlanWarnings, FusedAttentionEndsAt256) {
  Transformer model = kGpt;
  Plan plan;
  plan.data = 8;
  plan.global_batch = 64;
  SoftwareStack software = megatron();
  const auto warnings = [&] { return joined(plan_warnings(model, plan, cluster_of(8), software)); };
  model.head_dim = 256;
  EXPECT_FALSE(has(warnings(), "FlashAttention ends"));
  model.head_dim = 288;
  EXPECT_TRUE(has(warnings(), "the head size 288 is above 256, where FlashAttention ends"));
  software.attention = AttentionKernel::Unfused;
  EXPECT_FALSE(has(warnings(), "FlashAttention ends"));
}

// 50,257 words: Megatron pads to 128 · t rows, which every rank of a group shares evenly; stacks
// that do not pad leave 50,257 rows, whose products are slow.
TEST(PlanWarnings, OnlyUnpaddedVocabulariesAreUnaligned) {
  Transformer model = kGpt;
  model.vocab_size = 50257;
  Plan plan;
  plan.data = 8;
  plan.global_batch = 64;
  const auto warnings = [&](Framework framework) {
    return joined(plan_warnings(model, plan, cluster_of(8), software_stack(framework)));
  };
  EXPECT_FALSE(has(warnings(Framework::MegatronCore), "the vocabulary is"));
  EXPECT_TRUE(
      has(warnings(Framework::Fsdp2), "the vocabulary is 50257 on a rank, no multiple of 8"));
  EXPECT_TRUE(has(warnings(Framework::Fsdp2), "50264 would do"));
}

TEST(PlanWarnings, FusedAttentionPadsUnusualHeads) {
  Transformer model = kGpt;
  Plan plan;
  plan.data = 8;
  plan.global_batch = 64;
  model.head_dim = 100;
  EXPECT_TRUE(has(joined(plan_warnings(model, plan, cluster_of(8), megatron())),
                  "the head size 100 is padded to 128"));
  model.head_dim = 127;
  EXPECT_TRUE(has(joined(plan_warnings(model, plan, cluster_of(8), megatron())),
                  "spends less than 1 % of its work"));
}

}  // namespace
}  // namespace megatwin::model
