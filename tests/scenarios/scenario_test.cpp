#include "scenarios/scenario.h"

#include <algorithm>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "model/parameters.h"

namespace megatwin::scenarios {
namespace {

constexpr const char* kMinimal = R"(
model: {name: llama-3-8b}
cluster: {nodes: [{type: dgx-h100, count: 2}]}
plan: {tensor: 2, global_batch: 32}
)";

model::Job job_of(const std::string& text, const ScenarioOptions& options = {}) {
  const model::Result<Scenario> scenario = parse_scenario("job.yaml", text, options);
  EXPECT_TRUE(scenario) << to_text(scenario.error());
  return scenario ? scenario->jobs.front() : model::Job{};
}

bool assumes(const model::Job& job, const std::string& sentence) {
  return std::find(job.assumptions.begin(), job.assumptions.end(), sentence) !=
         job.assumptions.end();
}

// 16 GPUs / (tensor 2 × pipeline 1 × context 1) = 8.
TEST(Scenario, FillsInDefaultsAndSaysSo) {
  const model::Job job = job_of(kMinimal);
  EXPECT_EQ(job.name, "job.yaml");
  EXPECT_EQ(job.software.framework, model::Framework::MegatronCore);
  EXPECT_EQ(job.plan.data, 8);
  EXPECT_EQ(job.plan.micro_batch, 1);
  EXPECT_TRUE(job.plan.sequence_parallel);
  EXPECT_EQ(job.plan.zero_stage, 1);
  EXPECT_EQ(job.plan.recompute, model::RecomputeKind::None);
  EXPECT_EQ(job.plan.precision, model::Precision::Bf16);
  EXPECT_EQ(job.plan.schedule, model::ScheduleKind::OneForwardOneBackward);
  EXPECT_EQ(job.transformer.sequence_length, 8192);
  EXPECT_EQ(job.profile.gpu_name, "H100-SXM5-80GB");
  for (const char* sentence :
       {"The software was not given: megatron-core is taken.",
        "The data-parallel size was not given: 16 GPUs / (tensor × pipeline × context) = 8.",
        "The micro-batch size was not given: 1 is taken.",
        "Sequence parallelism was not given: on, the default of megatron-core with tensor "
        "parallelism.",
        "The ZeRO stage was not given: 1, the default of megatron-core.",
        "Recomputation was not given: none is taken, the default of megatron-core.",
        "The precision was not given: bf16 is taken.",
        "The fabric was not given: a rail-optimised fat tree without oversubscription is "
        "taken."}) {
    EXPECT_TRUE(assumes(job, sentence)) << sentence;
  }
}

TEST(Scenario, InterleavesWhereARankHoldsSeveralChunks) {
  const model::Job job = job_of(kMinimal, {.set = {"plan.pipeline=2", "plan.model_chunks=4"}});
  EXPECT_EQ(job.plan.schedule, model::ScheduleKind::Interleaved);
  EXPECT_EQ(job.plan.data, 4);
  EXPECT_TRUE(assumes(job, "The schedule was not given: interleaved is taken."));
}

// 16 GPUs / 3 is no whole number: the plan's own check says so later.
TEST(Scenario, LeavesAnImpossibleDataSizeToTheCheckOfThePlan) {
  EXPECT_EQ(job_of(kMinimal, {.set = {"plan.tensor=3"}}).plan.data, 0);
}

TEST(Scenario, TakesTheDefaultsOfOlderSoftware) {
  const model::Job job = job_of(kMinimal, {.set = {"software=megatron-2021"}});
  EXPECT_EQ(job.plan.precision, model::Precision::Fp16);
  EXPECT_EQ(job.plan.recompute, model::RecomputeKind::Full);
  EXPECT_EQ(job.plan.zero_stage, 0);
  EXPECT_FALSE(job.plan.sequence_parallel);
  EXPECT_FALSE(job.plan.overlap_grad_reduce);
}

TEST(Scenario, SetsEverySwitchOfTheStackApart) {
  const model::Job job = job_of(R"(
model: {name: llama-3-8b}
cluster: {nodes: [{type: dgx-h100}]}
software:
  {framework: megatron-core, attention: unfused, fusion: eager, dropout: true, fused_softmax: false,
   fused_cross_entropy: false, distributed_optimizer: false, overlap_grad_reduce: false,
   overlap_param_gather: false, overlap_tensor_parallel: false, overlap_tp_backward_wgrad: false,
   overlap_p2p: false, scatter_gather_p2p: false, gradient_accumulation_fusion: false,
   cuda_graphs: true, python_launch: false, default_zero_stage: 2,
   default_sequence_parallel: false, full_recompute_default: true, allocator_slack: 7 %}
plan: {tensor: 8, global_batch: 8, overlap_p2p: true}
)");
  EXPECT_EQ(job.software.attention, model::AttentionKernel::Unfused);
  EXPECT_EQ(job.software.fusion, model::ElementwiseFusion::Eager);
  EXPECT_TRUE(job.software.dropout);
  EXPECT_TRUE(job.software.cuda_graphs);
  EXPECT_FALSE(job.software.python_launch);
  EXPECT_DOUBLE_EQ(job.software.allocator_slack, 0.07);
  EXPECT_EQ(job.plan.zero_stage, 2);
  EXPECT_EQ(job.plan.recompute, model::RecomputeKind::Full);
  EXPECT_FALSE(job.plan.sequence_parallel);
  EXPECT_FALSE(job.plan.overlap_grad_reduce);
  EXPECT_TRUE(job.plan.overlap_p2p);
}

TEST(Scenario, ReadsEveryKeyOfAPlan) {
  const model::Plan plan = job_of(R"(
model: {name: mixtral-8x7b}
cluster: {nodes: 16 of dgx-a100-80g}
plan:
  {tensor: 2, pipeline: 4, model_chunks: 2, context: 2, expert: 8, expert_tensor: 1, data: 8,
   micro_batch: 2, global_batch: 64, sequence_parallel: false, zero: 3,
   recompute: {kind: full, layers: 2}, precision: fp8-block,
       layers_per_stage: [4, 4, 4, 4, 4, 4, 4, 4],
   embedding_as_layer: true, head_as_layer: true, overlap_grad_reduce: false,
   overlap_param_gather: false, overlap_tensor_parallel: true, fp32_parameters: true,
   rank_order: tp-cp-ep-pp-dp, dispatcher: deep-ep, expert_capacity_imbalance: 1.25}
policy: {schedule: zb-v, issue_depth: 3, receive_slots: 2}
)")
                               .plan;
  EXPECT_EQ(plan.expert_tensor, 1);
  EXPECT_EQ(plan.micro_batch, 2);
  EXPECT_EQ(plan.recompute, model::RecomputeKind::Full);
  EXPECT_EQ(plan.recompute_layers, 2);
  EXPECT_EQ(plan.precision, model::Precision::Fp8Block);
  EXPECT_EQ(plan.layers_per_virtual_stage, std::vector<int>(8, 4));
  EXPECT_TRUE(plan.embedding_as_layer && plan.head_as_layer && plan.fp32_parameters);
  EXPECT_TRUE(plan.overlap_tensor_parallel);
  EXPECT_EQ(plan.rank_order, "tp-cp-ep-pp-dp");
  EXPECT_EQ(plan.dispatcher, model::ExpertDispatcher::DeepEp);
  EXPECT_EQ(plan.expert_capacity_imbalance, 1.25);
  EXPECT_EQ(plan.schedule, model::ScheduleKind::ZeroBubbleV);
  EXPECT_EQ(plan.issue_depth, 3);
  EXPECT_EQ(plan.receive_slots, 2);
}

TEST(Scenario, ReceiveSlotsAreCounted) {
  EXPECT_EQ(job_of(kMinimal).plan.receive_slots, 0);
  EXPECT_EQ(job_of(kMinimal, {.set = {"policy.receive_slots=0"}}).plan.receive_slots, 0);
  for (const char* slots : {"-1", "1.5", "two", "1000001"}) {
    const auto wrong = parse_scenario(
        "job.yaml", std::string(kMinimal) + "policy: {receive_slots: " + slots + "}");
    ASSERT_FALSE(wrong) << slots;
    const std::string text = to_text(wrong.error());
    EXPECT_NE(text.find(":25: error: policy.receive_slots"), std::string::npos) << text;
    EXPECT_NE(text.find("a whole number from 0 to 1000000"), std::string::npos) << text;
  }
}

TEST(Scenario, LiveActivationsBoundWhatDecides) {
  EXPECT_EQ(job_of(kMinimal).plan.live_activations, 0);
  for (const char* schedule : {"dpp", "dpp-depth", "dpp-breadth"}) {
    const std::string policy =
        "policy={schedule: " + std::string(schedule) + ", live_activations: 12}";
    EXPECT_EQ(job_of(kMinimal, {.set = {policy}}).plan.live_activations, 12);
  }
  const auto refusal = [](const std::string& policy) {
    const auto wrong =
        parse_scenario("job.yaml", std::string(kMinimal) + "policy: {" + policy + "}");
    return wrong ? std::string() : to_text(wrong.error());
  };
  EXPECT_NE(refusal("schedule: dpp, live_activations: 0").find("a whole number from 1 to"),
            std::string::npos);
  const std::string fixed = refusal("schedule: interleaved, live_activations: 12");
  EXPECT_NE(fixed.find(":51: error: policy.live_activations: has no effect with this schedule"),
            std::string::npos)
      << fixed;
  EXPECT_NE(fixed.find("policy.schedule: dpp, dpp-depth or dpp-breadth"), std::string::npos);
}

TEST(Scenario, ReadsTheShortFormOfPartialRecomputation) {
  const model::Plan plan = job_of(kMinimal, {.set = {"plan.recompute=full:3"}}).plan;
  EXPECT_EQ(plan.recompute, model::RecomputeKind::Full);
  EXPECT_EQ(plan.recompute_layers, 3);
  EXPECT_FALSE(parse_scenario("job.yaml", kMinimal, {.set = {"plan.recompute=full:0"}}));
  EXPECT_FALSE(parse_scenario("job.yaml", kMinimal, {.set = {"plan.recompute=full:"}}));
}

// The same framework runs other kernels on a V100, and is priced with them.
TEST(Scenario, TakesUnfusedAttentionOnVolta) {
  const model::Job a100 = job_of(kMinimal, {.set = {"cluster.nodes=2 of dgx-a100-80g"}});
  EXPECT_NE(a100.software.attention, model::AttentionKernel::Unfused);
  const model::Job v100 = job_of(kMinimal, {.set = {"cluster.nodes=2 of dgx-1v-32g"}});
  EXPECT_EQ(v100.software.attention, model::AttentionKernel::Unfused);
}

TEST(Scenario, BuildsMachinesAroundAGpu) {
  const model::Job job = job_of(R"(
model: {name: gpt2}
cluster: {nodes: 3, gpu: A100, gpus: 4, nics: 2, nic_bandwidth: 100 Gbit/s, price_per_hour: 9 USD/h,
          fabric: {type: fat-tree, oversubscription: 2, switch_latency: 300 ns, sharp: true}}
plan: {global_batch: 12}
)");
  ASSERT_EQ(job.cluster.groups.size(), 1U);
  const model::NodeGroup& group = job.cluster.groups.front();
  EXPECT_EQ(job.cluster.num_gpus(), 12);
  EXPECT_EQ(group.gpu.name, "A100-SXM4-80GB");
  EXPECT_EQ(group.node.num_nics, 2);
  EXPECT_EQ(group.node.nic_per_direction.value, 12.5e9);
  EXPECT_EQ(group.node.price_per_hour.value, 9);
  EXPECT_EQ(job.cluster.fabric.kind, model::FabricKind::FatTree);
  EXPECT_EQ(job.cluster.fabric.oversubscription, 2);
  EXPECT_TRUE(job.cluster.fabric.sharp);
  EXPECT_TRUE(assumes(job, "'A100' names more than one part: A100-SXM4-80GB is taken."));
}

TEST(Scenario, MixesMachinesAndAddsOnes) {
  const model::Job job = job_of(R"(
hardware:
  gpus: {H20: {like: H100-SXM5-80GB, bf16: 148 TFLOP/s}}
  nodes: {h20-box: {like: dgx-h100, gpu: H20}}
model: {name: gpt2}
cluster: {nodes: [{type: h20-box, count: 2}, {type: dgx-1v-32g}], fabric: {bandwidth: 10 GB/s}}
plan: {global_batch: 24}
network: maxmin
)");
  ASSERT_EQ(job.cluster.groups.size(), 2U);
  EXPECT_EQ(job.cluster.groups[0].gpu.peak.bf16.value, 148e12);
  EXPECT_EQ(job.cluster.groups[1].gpu.name, "V100-SXM2-32GB");
  EXPECT_EQ(job.cluster.groups[1].node.nic_per_direction.value, 10e9);
  EXPECT_EQ(job.network, model::NetworkKind::MaxMin);
}

// A GPU without 16-bit products trains in fp32; zero says that a part lacks a format.
TEST(Scenario, TakesAPrecisionThatTheGpuHas) {
  const auto precision = [](const std::string& rates) {
    return job_of(
               "hardware: {gpus: {A: {architecture: other, memory: 64 GB, memory_bandwidth: "
               "1600 GB/s, fp32: 40 TFLOP/s" +
               rates +
               "}}}\nmodel: {name: gpt2}\ncluster: {nodes: 1, gpu: A}\n"
               "plan: {global_batch: 8}\n")
        .plan.precision;
  };
  EXPECT_EQ(precision(""), model::Precision::Fp32);
  EXPECT_EQ(precision(", bf16: 0 TFLOP/s, fp16: 80 TFLOP/s"), model::Precision::Fp16);
  EXPECT_EQ(precision(", bf16: 80 TFLOP/s"), model::Precision::Bf16);
}

// 2 of 8 experts on 8 ranks can be as uneven as 8/2, on 2 ranks as 2. What a search recommends on 2
// ranks is simulated under the same disturbances: 2 are counted, with a warning.
TEST(Scenario, TakesAnImbalanceThatRoutingCanGive) {
  const std::string text =
      "model: {name: mixtral-8x7b}\ncluster: {nodes: 1 of dgx-h100}\n"
      "plan: {global_batch: 8, expert: 8, expert_capacity_imbalance: 2}\n"
      "disturbances: [{kind: expert-imbalance, factor: 2}]\n";
  EXPECT_EQ(job_of(text).plan.expert_capacity_imbalance, 2);
  EXPECT_TRUE(job_of(text).warnings.empty());
  const auto two = parse_scenario("job.yaml", text, {.set = {"plan.expert=2"}});
  ASSERT_TRUE(two);
  ASSERT_EQ(two->jobs.front().warnings.size(), 1u);
  EXPECT_EQ(two->jobs.front().warnings.front(),
            "no rank of 2 can have 4 times the mean of the tokens: with plan.expert 2 an imbalance "
            "of 2 is counted");
  // As `search` and `plan` read it without the section; they do not run the file's own plan.
  const auto varied =
      parse_scenario("job.yaml", text, {.set = {"plan.expert=2"}, .plan_varies = true});
  ASSERT_TRUE(varied);
  EXPECT_TRUE(varied->jobs.front().warnings.empty());
  EXPECT_FALSE(parse_scenario("job.yaml", text,
                              {.set = {"plan.expert_capacity_imbalance=5"}, .plan_varies = true}));
  const auto swept = parse_scenario("job.yaml", text, {.sweep = {"plan.expert=1,4,8"}});
  ASSERT_TRUE(swept);
  std::vector<std::size_t> warnings;
  for (const model::Job& job : swept->jobs) warnings.push_back(job.warnings.size());
  EXPECT_EQ(warnings, (std::vector<std::size_t>{1, 0, 0}));
}

// Entries before it that cannot be read do not move the place.
TEST(Scenario, RefusesAnImbalanceAtItsOwnEntry) {
  const auto scenario =
      parse_scenario("job.yaml",
                     "model: {name: mixtral-8x7b}\ncluster: {nodes: 1 of dgx-h100}\n"
                     "plan: {global_batch: 8, expert: 8}\n"
                     "disturbances:\n  - {kind: slow-gpux, rank: 0, factor: 5}\n"
                     "  - {kind: expert-imbalance, factor: 9}\n",
                     {});
  ASSERT_FALSE(scenario);
  ASSERT_EQ(scenario.error().size(), 2u);
  EXPECT_EQ(scenario.error()[0].line, 5);
  EXPECT_EQ(scenario.error()[1].line, 6);
  EXPECT_EQ(scenario.error()[1].key, "disturbances[1].factor");
}

TEST(Scenario, ReadsAModelFromItsFields) {
  const model::Transformer t = job_of(R"(
model: {family: gpt, num_layers: 24, hidden_size: 2048, num_attention_heads: 16, vocab_size: 50304,
        sequence_length: 2048}
cluster: {nodes: [{type: dgx-h100}]}
plan: {global_batch: 8}
)")
                                   .transformer;
  EXPECT_EQ(t.ffn_hidden_size, 8192);
  EXPECT_EQ(t.head_dim, 128);
  EXPECT_EQ(t.num_key_value_heads, 16);
  EXPECT_EQ(t.max_position_embeddings, 2048);
}

// A proxy with fewer layers keeps everything else; longer sequences lengthen the learned table.
TEST(Scenario, ReplacesFieldsOfANamedModel) {
  const model::Job proxy = job_of(kMinimal, {.set = {"model.num_layers=2"}});
  EXPECT_EQ(proxy.transformer.num_layers, 2);
  EXPECT_EQ(proxy.transformer.num_key_value_heads, 8);
  const model::Job mpt = job_of(kMinimal, {.set = {"model={name: mpt-7b, sequence_length: 8192}"}});
  EXPECT_EQ(model::count_parameters(mpt.transformer).total / 1'000'000, 6684);
}

TEST(Scenario, SweepsMultiply) {
  const auto scenario = parse_scenario(
      "job.yaml", kMinimal,
      {.set = {"model.sequence_length=4096"}, .sweep = {"plan.tensor=1,2", "plan.zero=1,3"}});
  ASSERT_TRUE(scenario) << to_text(scenario.error());
  ASSERT_EQ(scenario->jobs.size(), 4U);
  EXPECT_EQ(scenario->jobs[1].name, "job.yaml plan.tensor=1 plan.zero=3");
  const auto named =
      parse_scenario("job.yaml", kMinimal, {.set = {"name=mine"}, .sweep = {"plan.tensor=1,2"}});
  ASSERT_TRUE(named) << to_text(named.error());
  EXPECT_EQ(named->jobs[1].name, "mine plan.tensor=2");
  EXPECT_EQ(scenario->jobs[2].plan.tensor, 2);
  EXPECT_EQ(scenario->jobs[2].plan.data, 8);
  EXPECT_EQ(scenario->jobs[3].transformer.sequence_length, 4096);
}

// One point that is none ended the whole sweep, under the name of the option that the striking key
// came from. The file's own faults are told once.
TEST(Scenario, ASweepGoesOnPastAPointThatIsNone) {
  const std::string struck =
      std::string(kMinimal) + "disturbances: [{kind: slow-gpu, gpu: n1/gpu0, factor: 2}]\n";
  const std::vector<std::string> machines = {"cluster.nodes[0].count=2,1,zero,4"};
  const auto swept = parse_scenario("job.yaml", struck, {.sweep = machines});
  ASSERT_TRUE(swept) << to_text(swept.error());
  ASSERT_EQ(swept->jobs.size(), 2U);
  EXPECT_EQ(swept->jobs.front().name, "job.yaml cluster.nodes[0].count=2");
  EXPECT_EQ(swept->jobs.back().cluster.groups.front().count, 4);
  ASSERT_EQ(swept->unread.size(), 2U);
  EXPECT_EQ(swept->unread[0].place, 1U);
  EXPECT_EQ(swept->unread[0].name, "job.yaml cluster.nodes[0].count=1");
  EXPECT_EQ(swept->unread[0].settings, "cluster.nodes[0].count=1");
  ASSERT_EQ(swept->unread[0].faults.size(), 1U);
  EXPECT_NE(swept->unread[0].faults.front().message.find("no part 'n1/gpu0'"), std::string::npos);
  EXPECT_EQ(swept->unread[1].place, 2U);
  EXPECT_EQ(swept->unread[1].faults.back().file, "--sweep");

  const auto none =
      parse_scenario("job.yaml", struck + "seed: one\n", {.sweep = {"cluster.nodes[0].count=1,2"}});
  ASSERT_FALSE(none);
  const std::string text = to_text(none.error());
  EXPECT_NE(text.find("seed: 'one' is not"), std::string::npos) << text;
  EXPECT_NE(text.find("no part 'n1/gpu0' (with cluster.nodes[0].count=1)"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("whole number (with"), std::string::npos) << text;
}

TEST(Scenario, SweepsOverListsAndMaps) {
  const auto scenario =
      parse_scenario("job.yaml", kMinimal,
                     {.sweep = {"cluster.nodes=[{type: dgx-h100, count: 2}],[{type: dgx-2}]"}});
  ASSERT_TRUE(scenario) << to_text(scenario.error());
  ASSERT_EQ(scenario->jobs.size(), 2U);
  EXPECT_EQ(scenario->jobs[1].cluster.groups[0].node.name, "dgx-2");
}

TEST(Scenario, KeepsTheSearch) {
  const auto scenario = parse_scenario(
      "job.yaml", std::string(kMinimal) + "search: {fix: [tensor], micro_batch: [1, 2, 4]}\n");
  ASSERT_TRUE(scenario) << to_text(scenario.error());
  ASSERT_TRUE(scenario->search);
  EXPECT_EQ(scenario->search->fixed, std::vector<std::string>{"tensor"});
  EXPECT_EQ(scenario->search->candidates.at("micro_batch"),
            (std::vector<std::string>{"1", "2", "4"}));
}

TEST(Scenario, EveryShippedOneLoads) {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator("scenarios")) {
    const std::string path = file.path().string();
    if (!path.ends_with(".yaml") || path == "scenarios/zoo.yaml") continue;
    const model::Result<std::vector<model::Job>> jobs = load_scenario(path);
    ASSERT_TRUE(jobs) << to_text(jobs.error());
    const model::Job& job = jobs->front();
    EXPECT_EQ(job.plan.gpus(), job.cluster.num_gpus()) << path;
    EXPECT_EQ(job.plan.global_batch % (job.plan.micro_batch * job.plan.data), 0) << path;
    EXPECT_TRUE(job.warnings.empty()) << path;
    ++count;
  }
  EXPECT_GE(count, 5);
}

}  // namespace
}  // namespace megatwin::scenarios
