#include "scenarios/megatron_launch.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "model/parameters.h"
#include "scenarios/pipeline_layout.h"
#include "scenarios/shell_script.h"
#include "scenarios/zoo.h"

namespace megatwin::tests {
namespace {

using scenarios::LaunchKind;

scenarios::MegatronLaunch read(const std::string& text) {
  const auto kind = scenarios::recognise_launch(text);
  EXPECT_TRUE(kind.has_value());
  auto launch =
      scenarios::read_megatron_launch("launch", text, kind.value_or(LaunchKind::Megatron));
  EXPECT_TRUE(launch.has_value()) << (launch ? "" : model::to_text(launch.error()));
  return launch ? *std::move(launch) : scenarios::MegatronLaunch{};
}

bool warns_of(const scenarios::MegatronLaunch& launch, const std::string& part) {
  return std::any_of(launch.warnings.begin(), launch.warnings.end(),
                     [&](const auto& warning) { return warning.find(part) != std::string::npos; });
}

// In the manner of Megatron-LM's examples: arrays with comments, defaults, arithmetic, $1.
constexpr const char* kScript = R"(#!/bin/bash
# Runs the "175B" model
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NUM_NODES=${NUM_NODES:-16}
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
CHECKPOINT_PATH=$1 # where to save
HIDDEN=12288
TP=8

DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --master_addr ${MASTER_ADDR:-localhost}
)

GPT_MODEL_ARGS=(
    --num-layers 96   # layers
    --hidden-size ${HIDDEN}
    --ffn-hidden-size $((4 * HIDDEN))
    --num-attention-heads 96
    --seq-length 2048
    --max-position-embeddings 2048
    --attention-backend auto # can use (flash/fused/unfused/local)
)

TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size $((16 * (WORLD_SIZE / (TP * 16)) * 2))
    --lr 6.0e-5
    --fp16
    --recompute-activations
)
MODEL_PARALLEL_ARGS=(
    --tensor-model-parallel-size ${TP}
    --pipeline-model-parallel-size 16
    --num-layers-per-virtual-pipeline-stage 2
    --sequence-parallel
)
DATA_ARGS=( --data-path "$2" --vocab-size 50257 --split 949,50,1 )

torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${GPT_MODEL_ARGS[@]} \
    "${TRAINING_ARGS[@]}" \
    ${MODEL_PARALLEL_ARGS[@]} \
    ${DATA_ARGS[@]} \
    --save $CHECKPOINT_PATH --use-distributed-optimizer
)";

TEST(MegatronLaunch, ReadsAScriptOfArraysDefaultsAndArithmetic) {
  const auto launch = read(kScript);
  EXPECT_EQ(launch.kind, LaunchKind::Megatron);
  EXPECT_EQ(launch.gpus, 128);  // 8 · 16.
  EXPECT_EQ(launch.plan.tensor, 8);
  EXPECT_EQ(launch.plan.pipeline, 16);
  EXPECT_EQ(launch.plan.data, 1);          // 128 / (8 · 16).
  EXPECT_EQ(launch.plan.model_chunks, 3);  // 96 / 16 / 2.
  EXPECT_EQ(launch.plan.schedule, model::ScheduleKind::Interleaved);
  EXPECT_EQ(launch.plan.global_batch, 32);  // 16 · 1 · 2.
  EXPECT_EQ(launch.plan.zero_stage, 1);
  EXPECT_TRUE(launch.plan.sequence_parallel);
  EXPECT_EQ(launch.plan.recompute, model::RecomputeKind::Selective);
  EXPECT_EQ(launch.plan.precision, model::Precision::Fp16);
  ASSERT_TRUE(launch.transformer.has_value());
  EXPECT_EQ(launch.transformer->ffn_hidden_size, 49152);
  EXPECT_EQ(launch.padded_vocab_size, 51200);  // 50257 up to a multiple of 128 · 8 = 1024.
  EXPECT_TRUE(warns_of(launch, "recompute_activations is a short form"));
  const auto& ignored = launch.ignored;
  EXPECT_NE(std::find(ignored.begin(), ignored.end(), "lr"), ignored.end());
}

// Stages in Megatron-Core's letters; groups repeat, commas mean nothing; 8 stages on 4 ranks are
// two chunks each.
TEST(MegatronLaunch, ReadsALayoutOfThePipeline) {
  EXPECT_EQ(scenarios::read_pipeline_layout("Ett|tt|tttL"), (std::vector<int>{2, 2, 3}));
  EXPECT_EQ(scenarios::read_pipeline_layout("E,t*3|(tt|)*2,m|L"), std::nullopt);
  EXPECT_EQ(scenarios::read_pipeline_layout("E|(t*2|)*3,t,mL"), (std::vector<int>{0, 2, 2, 2, 1}));
  for (const char* bad : {"", "L", "tE", "Lt", "t*", "(t", "t)", "t*99999999", "x"}) {
    EXPECT_EQ(scenarios::read_pipeline_layout(bad), std::nullopt) << bad;
  }
  const std::string flags =
      "--num-layers 13 --hidden-size 1024 --num-attention-heads 8 --seq-length 1024 "
      "--pipeline-model-parallel-size 4 --use-tp-pp-dp-mapping --world-size 4 "
      "--pipeline-model-parallel-layout ";
  const auto launch =
      read_megatron_launch("run.sh", flags + "\"Et*2|(tt|)*5|tL\"", LaunchKind::Megatron);
  ASSERT_TRUE(launch.has_value());
  EXPECT_EQ(launch->plan.layers_per_virtual_stage, (std::vector<int>{2, 2, 2, 2, 2, 2, 0, 1}));
  EXPECT_EQ(launch->plan.model_chunks, 2);
  EXPECT_EQ(launch->plan.rank_order, "tp-cp-ep-pp-dp");
  const auto bad = read_megatron_launch("run.sh", flags + "\"Et|tL\"", LaunchKind::Megatron);
  ASSERT_TRUE(bad.has_value());
  EXPECT_TRUE(bad->plan.layers_per_virtual_stage.empty());
  EXPECT_FALSE(bad->warnings.empty());
}

TEST(MegatronLaunch, SaysWhatComesFromOutsideAndDoesNotGuessIt) {
  const auto launch = read(
      "python pretrain_gpt.py --num-layers $1 --hidden-size 1024 --num-attention-heads 16 \\\n"
      "  --tensor-model-parallel-size $TP --micro-batch-size `cat size` --global-batch-size 8\n");
  EXPECT_FALSE(launch.transformer.has_value());
  EXPECT_EQ(launch.plan.tensor, 1);
  EXPECT_EQ(launch.plan.data, 0);
  EXPECT_TRUE(warns_of(launch, "tensor_model_parallel_size: $TP is not known"));
  EXPECT_TRUE(warns_of(launch, "num_layers: $1 is not known"));
  EXPECT_TRUE(warns_of(launch, "output of a command"));
  EXPECT_TRUE(warns_of(launch, "number of GPUs is not stated"));
}

TEST(MegatronLaunch, TakesStringsSlurmDirectivesAndTheValueBeforeACondition) {
  const auto launch = read(
      "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --gpus-per-node=h100:8\n"
      "PP=2\nif [ $DEBUG -eq 1 ]; then\n  PP=1\nfi\n"
      "ARGS=\"--num-layers 32 --hidden-size 4096 --num-attention-heads 32 \\\n"
      "  --group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm \\\n"
      "  --untie-embeddings-and-output-weights --disable-bias-linear --ffn-hidden-size 14336 \\\n"
      "  --position-embedding-type rope --seq-length 8192 --vocab-size 128256\"\n"
      "srun python pretrain_gpt.py $ARGS --bf16 --tensor-model-parallel-size=4 "
      "--pipeline-model-parallel-size $PP --micro-batch-size 1 --global-batch-size 64\n");
  EXPECT_EQ(launch.gpus, 32);
  EXPECT_EQ(launch.plan.pipeline, 2);
  EXPECT_EQ(launch.plan.data, 4);
  ASSERT_TRUE(launch.transformer.has_value());
  EXPECT_EQ(launch.transformer->num_key_value_heads, 8);
  EXPECT_TRUE(warns_of(launch, "PP is also set under a condition"));
}

TEST(MegatronLaunch, QueryGroupsWithoutTheSwitchDoNotCount) {
  const auto launch = read(
      "--num-layers 2 --hidden-size 64 --num-attention-heads 8 --num-query-groups 2 "
      "--vocab-size 128 --seq-length 16 --micro-batch-size 1");
  ASSERT_TRUE(launch.transformer.has_value());
  EXPECT_EQ(launch.transformer->num_key_value_heads, 8);
  EXPECT_TRUE(warns_of(launch, "num_query_groups 2 has no effect"));
}

TEST(MegatronLaunch, ReadsNemoWithItsInterpolations) {
  const auto launch = read(
      "trainer:\n  num_nodes: 4\n  devices: 8\n  precision: bf16\n"
      "model:\n  micro_batch_size: 1\n  global_batch_size: 64\n"
      "  tensor_model_parallel_size: 4\n  pipeline_model_parallel_size: 2\n"
      "  virtual_pipeline_model_parallel_size: 3\n  encoder_seq_length: 2048\n"
      "  num_layers: 24\n  hidden_size: 2048\n  ffn_hidden_size: ${multiply:4, ${.hidden_size}}\n"
      "  num_attention_heads: 16\n  num_query_groups: null\n  sequence_parallel: True\n"
      "  activations_checkpoint_granularity: selective\n  data_dir: ${base_dir}/x\n"
      "  tokenizer: {type: sentencepiece}\n"
      "  optim:\n    name: mcore_distributed_optim\n    overlap_grad_sync: True\n");
  EXPECT_EQ(launch.kind, LaunchKind::Nemo);
  EXPECT_EQ(launch.gpus, 32);
  EXPECT_EQ(launch.plan.data, 4);
  EXPECT_EQ(launch.plan.model_chunks, 3);
  EXPECT_EQ(launch.plan.zero_stage, 1);
  EXPECT_TRUE(launch.plan.overlap_grad_reduce);
  EXPECT_EQ(launch.plan.precision, model::Precision::Bf16);
  const auto& settings = launch.settings;
  const std::pair<std::string, std::string> ffn{"ffn_hidden_size", "8192"};
  EXPECT_NE(std::find(settings.begin(), settings.end(), ffn), settings.end());
}

TEST(MegatronLaunch, ReadsPrimusWithDefaultsOfTheEnvironmentAndTheZoosShape) {
  const auto launch = read(
      "work_group: ${TEAM:amd}\nmodules:\n  pre_trainer:\n    framework: megatron\n"
      "    model: llama3.1_70B.yaml\n    overrides:\n      micro_batch_size: 2\n"
      "      global_batch_size: 128\n      seq_length: ${SEQ:4096}\n"
      "      tensor_model_parallel_size: ${PRIMUS_TP:8}\n      pipeline_model_parallel_size: 1\n"
      "      use_distributed_optimizer: true\n      mock_data: true\n");
  EXPECT_EQ(launch.kind, LaunchKind::Primus);
  EXPECT_EQ(launch.plan.tensor, 8);
  EXPECT_EQ(launch.plan.zero_stage, 1);
  ASSERT_TRUE(launch.transformer.has_value());
  EXPECT_EQ(launch.transformer->num_layers, 80);
  EXPECT_EQ(launch.transformer->sequence_length, 4096);
  EXPECT_TRUE(warns_of(launch, "llama-3.1-70b"));
}

TEST(MegatronLaunch, PrimusTakesLatentAttentionFromTheZooUnlessTheFileSwitchesItOff) {
  const std::string text =
      "modules:\n  pre_trainer:\n    framework: megatron\n    model: deepseek_v3.yaml\n"
      "    overrides:\n      micro_batch_size: 1\n";
  const auto own = read(text);
  ASSERT_TRUE(own.transformer.has_value());
  const auto zoo = scenarios::find_zoo_model("deepseek-v3");
  ASSERT_TRUE(zoo.has_value());
  const model::ParameterCounts counted = model::count_parameters(*own.transformer);
  EXPECT_EQ(counted.total, model::count_parameters(zoo->transformer).total);
  EXPECT_EQ(counted.active, model::count_parameters(zoo->transformer).active);
  EXPECT_FALSE(warns_of(own, "multi_latent_attention"));

  // Four square matrices of 128 heads of 128, as Primus' own file of the model has it.
  const auto plain = read(text + "      multi_latent_attention: false\n");
  ASSERT_TRUE(plain.transformer.has_value());
  EXPECT_FALSE(plain.transformer->latent.has_value());
  EXPECT_EQ(plain.transformer->head_dim, 128);
  EXPECT_TRUE(warns_of(plain, "multi_latent_attention is switched off"));
}

TEST(ShellScript, HostileTextIsRefusedOrBounded) {
  EXPECT_FALSE(scenarios::parse_shell_script("x", "A=\"never closed").has_value());
  EXPECT_FALSE(scenarios::parse_shell_script("x", "A=( 1 2").has_value());
  EXPECT_FALSE(scenarios::parse_shell_script("x", std::string("a\0b", 3)).has_value());
  std::string doubling = "A=0123456789\n";
  for (int i = 0; i < 60; ++i) doubling += "A=$A$A\n";
  EXPECT_TRUE(scenarios::parse_shell_script("x", doubling + "echo $A\n").has_value());
  EXPECT_TRUE(scenarios::parse_shell_script("x",
                                            "A=$((1/0))\nB=$((9223372036854775807*2))\n"
                                            "cat <<EOF\n\" not a quote\nEOF\n")
                  .has_value());
}

// A flag without its value became "yes", and a size that is none became 1.
TEST(MegatronLaunch, RefusesValuesThatCannotBeRead) {
  const std::string text =
      "torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py \\\n"
      "  --num-layers 24 --hidden-size --num-attention-heads 16 \\\n"
      "  --tensor-model-parallel-size 1e18 --num-experts -2 \\\n"
      "  --context_parallel_size=abc --micro-batch-size 0 --pipeline-model-parallel-size 99999 \\\n"
      "  --ffn-hidden-size 4096\n"
      "# later: micro_batch_size 4\necho tensor_model_parallel_size is large\n";
  const auto launch = scenarios::read_megatron_launch("run.sh", text, LaunchKind::Megatron);
  ASSERT_FALSE(launch);
  const std::string faults = model::to_text(launch.error());
  for (const char* part : {"run.sh:2: error: hidden_size: has no value",
                           "run.sh:3: error: tensor_model_parallel_size: '1e18' is no whole number",
                           "run.sh:3: error: num_experts: '-2' is no whole number",
                           "run.sh:4: error: context_parallel_size: 'abc' is no whole number",
                           "run.sh:4: error: micro_batch_size: a batch of 0",
                           "run.sh:4: error: pipeline_model_parallel_size: 99999 is no size"}) {
    EXPECT_NE(faults.find(part), std::string::npos) << part << "\n" << faults;
  }
}

TEST(MegatronLaunch, SuggestsTheFlagThatASlipMeant) {
  const auto launch = read(
      "pretrain_gpt.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 "
      "--pipelin-model-parallel-size 5 --global-batch-szie 8 --vocab-file x\n");
  EXPECT_TRUE(warns_of(launch, "did you mean pipeline_model_parallel_size?"));
  EXPECT_TRUE(warns_of(launch, "did you mean global_batch_size?"));
  EXPECT_FALSE(warns_of(launch, "vocab_file"));
}

}  // namespace
}  // namespace megatwin::tests
