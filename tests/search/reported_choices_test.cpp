// Public reports that a search must answer rightly: a refusal with its reason, a ranking, or why a
// choice brings little. Each test names its report; the numbers in comments are the reports'.
#include <map>
#include <string>
#include <variant>

#include <gtest/gtest.h>

#include "model/plan_check.h"
#include "model/program/job_program.h"
#include "sim/search/best_plan.h"
#include "sim/search/search.h"
#include "sim/simulate.h"
#include "tests/search/search_jobs.h"

namespace megatwin::tests {
namespace {

using sim::PlanRefusal;
using sim::SimulationReport;

SimulationReport report_of(const std::string& yaml) {
  auto answer = sim::simulate(job_from(yaml), {.sensitivities = false});
  if (const auto* report = std::get_if<SimulationReport>(&answer)) return *report;
  const auto& refusal = std::get<PlanRefusal>(answer);
  EXPECT_TRUE(refusal.report.has_value()) << refusal.message;
  return refusal.report.value_or(SimulationReport{});
}

// All reasons of a refusal, or "" when the plan is legal.
std::string reasons_of(const std::string& yaml) {
  const auto answer = sim::simulate(job_from(yaml));
  std::string all;
  if (const auto* refusal = std::get_if<PlanRefusal>(&answer)) {
    for (const std::string& reason : refusal->reasons) all += reason + "\n";
    EXPECT_FALSE(refusal->nearest.empty()) << all;
  }
  return all;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Megatron-LM issue 756: Mixtral 8x7B, 16 H100, batch 128. After the move to EP 8 with TP 2 a step
// took 5.52 s. Of expert × tensor sizes over the two machines that one comes first, and the search
// does not do worse. (Of the all-gather dispatcher before it: docs/search.md.)
TEST(ReportedChoices, MixtralWantsExpertsBeforeTensors) {
  const auto job = [](int tensor, int expert) {
    return "model: {name: mixtral-8x7b, sequence_length: 4096}\n"
           "cluster: {nodes: [{type: dgx-h100, count: 2}]}\n"
           "plan: {tensor: " +
           std::to_string(tensor) + ", expert: " + std::to_string(expert) +
           ", data: auto, micro_batch: 1, global_batch: 128, zero: 1}\n";
  };
  const double best = report_of(job(2, 8)).step_time.value;
  EXPECT_LT(best, report_of(job(4, 4)).step_time.value);
  EXPECT_LT(1.5 * best, report_of(job(8, 2)).step_time.value);
  EXPECT_NEAR(best / 5.52, 1, 0.2);
  const model::Job free = job_from(job(2, 8));
  sim::SearchSpace space = sim::whole_space(free);
  space.micro_batch = {1, 2};
  space.model_chunks = {1, 2};
  const auto found = sim::best_plan(free, space, {.num_threads = 2});
  ASSERT_TRUE(found.has_value());
  EXPECT_LE(found->step_time.value, best);
}

// torchtitan issue 773: on 512 GPUs 1F1B got 100 tokens/s, interleaving 128, interleaved zero
// bubble 13. By their bubbles the last is the fastest, so that the 13 are a fault of the code, not
// of the schedule; it does hold more memory than interleaving.
TEST(ReportedChoices, ABubbleDoesNotExplainASlowZeroBubble) {
  const auto run = [](const std::string& policy) {
    return report_of(
        "model: {name: llama-3.1-70b, sequence_length: 8192}\n"
        "cluster: {nodes: [{type: hgx-h100-96g, count: 64}]}\n"
        "software: {framework: fsdp2}\n"
        "plan: {tensor: 8, pipeline: 8, data: 8, micro_batch: 1, global_batch: 128,\n"
        "       recompute: full, zero: 1, " +
        policy);
  };
  const SimulationReport plain = run("model_chunks: 1}\npolicy: {schedule: 1f1b}\n");
  const SimulationReport interleaved = run("model_chunks: 2}\npolicy: {schedule: interleaved}\n");
  const SimulationReport zero = run("model_chunks: 2}\npolicy: {schedule: zb-v}\n");
  EXPECT_GT(plain.step_time, interleaved.step_time);
  EXPECT_GT(interleaved.step_time, zero.step_time);
  EXPECT_GT(plain.bubble_fraction, interleaved.bubble_fraction);
  EXPECT_GT(interleaved.bubble_fraction, zero.bubble_fraction);
  EXPECT_GT(zero.memory_peak, interleaved.memory_peak);
}

// torchtitan issue 775: PP 8 on 8 GPUs with two micro-batches hangs. Refused before launch, and
// interleaving wants a multiple of the stages.
TEST(ReportedChoices, FewerMicroBatchesThanStagesAreRefusedBeforeLaunch) {
  const auto job = [](int batch, const std::string& policy) {
    return "model: {name: llama-3-8b, sequence_length: 4096}\n"
           "cluster: {nodes: [{type: dgx-h100, count: 1}]}\n"
           "software: {framework: fsdp2}\n"
           "plan: {pipeline: 8, data: 1, micro_batch: 1, recompute: full, global_batch: " +
           std::to_string(batch) + ", " + policy;
  };
  EXPECT_TRUE(says(reasons_of(job(2, "model_chunks: 1}\npolicy: {schedule: 1f1b}\n")),
                   "at least as many micro-batches as stages"));
  EXPECT_TRUE(says(reasons_of(job(2, "model_chunks: 2}\npolicy: {schedule: interleaved}\n")),
                   "a multiple of plan.pipeline 8"));
  EXPECT_TRUE(says(reasons_of(job(12, "model_chunks: 2}\npolicy: {schedule: interleaved}\n")),
                   "a multiple of plan.pipeline 8"));
  EXPECT_EQ(reasons_of(job(16, "model_chunks: 2}\npolicy: {schedule: interleaved}\n")), "");
}

// Megatron-LM issue 750: interleaving over two stages sends to one peer in both directions.
TEST(ReportedChoices, InterleavingOverTwoStagesNeedsOverlapAndGainsLittle) {
  const auto job = [](const std::string& plan) {
    return "model: {name: llama-3-8b, sequence_length: 4096}\n"
           "cluster: {nodes: [{type: dgx-a100-80g, count: 1}]}\n"
           "plan: {tensor: 4, pipeline: 2, data: 1, micro_batch: 1, global_batch: 32, " +
           plan;
  };
  const std::string policy = "policy: {schedule: interleaved}\n";
  EXPECT_TRUE(
      says(reasons_of(job("model_chunks: 2, overlap_p2p: false}\n" + policy)), "same peer"));
  const SimulationReport interleaved =
      report_of(job("model_chunks: 2, overlap_p2p: true}\n" + policy));
  const SimulationReport plain = report_of(job("model_chunks: 1}\n"));
  const double gain = 1 - interleaved.step_time.value / plain.step_time.value;
  EXPECT_GT(gain, 0);
  EXPECT_LT(gain, 0.03);
  bool warned = false;
  for (const std::string& warning : interleaved.warnings) {
    warned = warned || says(warning, "gains little at plan.pipeline 2");
  }
  EXPECT_TRUE(warned);
}

// gpt-neox issue 965: with accumulation over slow links ZeRO 2 reduces every micro-batch, ZeRO 1
// once a step. The search takes stage 1, not 2, and says that the other lost by its traffic.
TEST(ReportedChoices, SearchPrefersZeroOneOverTwoWithAccumulation) {
  const model::Job job = job_from(
      "model: {name: llama-3-8b, sequence_length: 4096}\n"
      "cluster: {nodes: [{gpu: A100-SXM4-80GB, gpus: 8, nics: 1, nic_bandwidth: 100 Gbit/s, "
      "count: 8}]}\n"
      "software: {framework: megatron-deepspeed}\n"
      "plan: {tensor: 1, data: 64, micro_batch: 1, global_batch: 1024, zero: 2, recompute: "
      "full}\n");
  sim::SearchSpace space = sim::whole_space(job);
  space.tensor = space.pipeline = space.context = {1};
  space.micro_batch = {1};
  space.zero = {1, 2};
  const auto found = sim::search(job, space, {.num_threads = 2});
  ASSERT_FALSE(found.best.empty());
  EXPECT_EQ(found.best.front().report.plan.zero_stage, 1);
  bool blamed = false;
  for (const sim::Loser& loser : found.losers) {
    blamed = blamed || (loser.plan.zero_stage == 2 && says(loser.reason, "data-parallel traffic"));
  }
  EXPECT_TRUE(blamed);
}

// Megatron-LM issues 1276 and 1565, fms-fsdp issue 89: 420 TFLOP/s are 42.4 % of the dense 989.5,
// not 21 % of a sparse 1,979.
TEST(ReportedChoices, MfuIsOverTheDensePeak) {
  const SimulationReport report = report_of(
      "model: {name: llama-3-8b, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100, count: 1}]}\n"
      "plan: {tensor: 1, data: 8, micro_batch: 1, global_batch: 64, zero: 1}\n");
  EXPECT_NEAR(report.model_flops_per_gpu.value / report.mfu / 1e12, 989.5, 1);
}

// SimAI issue 202: TP 8, PP 8 on 1,472 GPUs leaves 23 replicas. The search for a batch of 32 finds
// no plan at all at these sizes, and another batch is the way out.
TEST(ReportedChoices, ABatchThatNoReplicaCountDividesIsTheOneToRelax) {
  model::Job job = job_from(
      "model: {name: gpt-7.5b, sequence_length: 2048}\n"
      "cluster: {nodes: [{type: dgx-a100-80g, count: 184}]}\n"
      "plan: {tensor: 8, pipeline: 8, data: auto, micro_batch: 1, global_batch: 32}\n");
  sim::SearchSpace space = sim::whole_space(job);
  space.tensor = space.pipeline = {8};
  space.context = {1};
  const auto found = sim::search(job, space, {.num_threads = 2});
  ASSERT_TRUE(found.impossible.has_value());
  std::string reasons;
  for (const std::string& reason : found.impossible->reasons) reasons += reason + "\n";
  EXPECT_TRUE(says(reasons, "plan.global_batch 32") && says(reasons, "23")) << reasons;
  EXPECT_FALSE(found.impossible->relaxations.empty());
}

// Megatron-LM issues 1304 and 381: 30 layers over 4 stages, 40 over 16. Refused as they stand, with
// an uneven split beside it; the search deals them out and drops none.
TEST(ReportedChoices, LayersThatDoNotDivideAreNeverDropped) {
  for (const auto& [layers, pipeline] : std::map<int, int>{{30, 4}, {40, 16}}) {
    const std::string yaml =
        "model: {name: gpt-3.6b, sequence_length: 2048, num_layers: " + std::to_string(layers) +
        "}\ncluster: {nodes: [{type: dgx-a100-80g, count: 2}]}\n"
        "plan: {tensor: 1, pipeline: " +
        std::to_string(pipeline) + ", data: auto, micro_batch: 1, global_batch: 64}\n";
    EXPECT_TRUE(says(reasons_of(yaml), "none is dropped")) << layers;
    const model::Job job = job_from(yaml);
    sim::SearchSpace space = sim::whole_space(job);
    space.pipeline = {pipeline};
    space.tensor = space.model_chunks = {1};
    const auto found = sim::best_plan(job, space, {.num_threads = 2});
    ASSERT_TRUE(found.has_value());
    const model::Plan& plan = found->plan;
    int dealt = 0;
    for (const int n : plan.layers_per_virtual_stage) dealt += n;
    EXPECT_TRUE(plan.embedding_as_layer || plan.head_as_layer || dealt == layers) << dealt;
  }
}

// zero-bubble issues 36, 9 and 63: ZB-V is heavier than ZB-H1 since one stage has embedding and
// head; 46 layers on 16 stages are refused. (That 1F1B was measured faster than ZB-V on this job,
// issue 24, does not follow from the model, which knows no cost of splitting a backward pass.)
TEST(ReportedChoices, ZeroBubbleVIsHeavierAndWantsAnEvenSplit) {
  const auto job = [](const std::string& plan) {
    return "model: {name: llama-2-13b, sequence_length: 2048}\n"
           "cluster: {nodes: [{gpu: A100-SXM4-80GB, gpus: 4, count: 1}]}\n"
           "plan: {pipeline: 4, data: 1, micro_batch: 1, global_batch: 64, " +
           plan;
  };
  const SimulationReport h1 = report_of(job("model_chunks: 1}\npolicy: {schedule: zb-h1}\n"));
  const SimulationReport v = report_of(job("model_chunks: 2}\npolicy: {schedule: zb-v}\n"));
  EXPECT_GT(v.memory_peak, h1.memory_peak);
  // A backward pass needs more memory for a moment than a forward one, but for the head's logits.
  const auto program =
      model::build_job_program(job_from(job("model_chunks: 2}\npolicy: {schedule: zb-v}\n")));
  const model::ChunkCost& middle = program.spec.stages[1].chunks.front();
  EXPECT_GT(middle.backward_transient, middle.forward_transient);
  EXPECT_TRUE(says(reasons_of("model: {name: llama-2-13b, sequence_length: 2048, num_layers: 46}\n"
                              "cluster: {nodes: [{type: dgx-a100-80g, count: 2}]}\n"
                              "plan: {pipeline: 16, model_chunks: 2, data: 1, micro_batch: 1, "
                              "global_batch: 64}\npolicy: {schedule: zb-v}\n"),
                   "do not divide"));
}

}  // namespace
}  // namespace megatwin::tests
