// A plan that leaves as a scenario, a script or a Slurm job comes back as the same plan.
#include "cli/plan_export.h"

#include <cstdio>
#include <fstream>

#include <gtest/gtest.h>

#include "model/parameters.h"
#include "scenarios/megatron_launch.h"
#include "sim/search/plan_list.h"
#include "tests/search/search_jobs.h"
#include "tests/temporary_folder.h"

namespace megatwin::tests {
namespace {

std::string plan_text(const model::Plan& plan) {
  std::string text;
  for (int i = 0; i < sim::kNumSpaceKeys; ++i) {
    const auto key = static_cast<sim::SpaceKey>(i);
    text += std::string(name_of(key)) + " " + value_text(plan, key) + ", ";
  }
  return text;
}

// Some plans of a model's space, spread over it.
std::vector<model::Plan> some_plans(const model::Job& job) {
  sim::SearchSpace space = sim::whole_space(job);
  space.rank_order = {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"};
  const auto plans = all_plans(job, space);
  std::vector<model::Plan> some;
  for (std::size_t i = 0; i < plans.size(); i += plans.size() / 40 + 1) {
    some.push_back(plans[i].plan);
  }
  return some;
}

TEST(PlanExport, AScenarioIsTheSamePlan) {
  const std::string yaml = yaml_of("mixtral-8x7b", 2, "megatron-core", 32, "dgx-h100");
  const tests::TemporaryFolder folder;
  const std::string path = folder.path("plan.yaml");
  std::ofstream(path) << yaml << "search: {fix: [tensor]}\n";
  const model::Job job = job_from(yaml);
  for (const model::Plan& plan : some_plans(job)) {
    const auto text = cli::scenario_text({.file = path, .settings = {"name=exported"}}, plan);
    ASSERT_TRUE(text.has_value());
    EXPECT_EQ(text->find("search:"), std::string::npos);
    const scenarios::Scenario again = scenario_from(*text);
    EXPECT_EQ(again.jobs.front().name, "exported");
    EXPECT_EQ(plan_text(again.jobs.front().plan), plan_text(plan));
    EXPECT_EQ(again.jobs.front().plan.layers_per_virtual_stage, plan.layers_per_virtual_stage);
    EXPECT_EQ(again.jobs.front().plan.head_as_layer, plan.head_as_layer);
  }
}

// The copy lies elsewhere and still finds the switches and the tokens: their paths stayed as they
// were, and the copy was refused.
TEST(PlanExport, FilesOfTheClusterAreFoundFromElsewhere) {
  const tests::TemporaryFolder folder;
  std::ofstream(folder.path("switches.conf")) << "SwitchName=s0 Nodes=a[1-2]\n";
  std::ofstream(folder.path("tokens.csv")) << "3,1\n3,1\n";
  std::ofstream(folder.path("matrix.txt")) << "\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n";
  const std::string path = folder.path("plan.yaml");
  std::ofstream(path) << "model: {name: mixtral-8x7b}\n"
                         "cluster: {nodes: [{type: dgx-h100, gpus: 2, nics: 2, count: 2, topology: "
                         "matrix.txt}], fabric: {from: switches.conf}}\n"
                         "plan: {tensor: 2, expert: 2, data: 2, global_batch: 4}\n"
                         "disturbances: [{kind: expert-imbalance, tokens: tokens.csv}]\n";
  const auto jobs = scenarios::load_scenario(path, {});
  ASSERT_TRUE(jobs) << to_text(jobs.error());
  const auto text = cli::scenario_text({.file = path, .settings = {}}, jobs->front().plan);
  ASSERT_TRUE(text.has_value());
  const model::Job again = job_from(*text);
  ASSERT_FALSE(again.cluster.groups.empty());
  EXPECT_TRUE(again.cluster.groups.front().node.inside);
  EXPECT_TRUE(again.cluster.fabric.graph);
  ASSERT_EQ(again.disturbances.size(), 1U);
  EXPECT_DOUBLE_EQ(again.disturbances.front().factor, 1.5);

  // On one rank an expert group the table of two has no meaning; the factor that it comes to has.
  model::Plan alone = jobs->front().plan;
  alone.expert = 1;
  const auto other = cli::scenario_text(
      {.file = path, .settings = {}, .disturbances = jobs->front().disturbances}, alone);
  ASSERT_TRUE(other.has_value());
  const model::Job of_one = job_from(*other);
  ASSERT_EQ(of_one.disturbances.size(), 1U);
  EXPECT_TRUE(of_one.disturbances.front().tokens.empty());
  EXPECT_EQ(of_one.disturbances.front().factor, jobs->front().disturbances.front().factor);
}

// What Megatron-LM has a flag for: schedules other than its own two are named in a comment instead.
bool has_flags(const model::Plan& plan) {
  return plan.schedule == model::ScheduleKind::OneForwardOneBackward ||
         plan.schedule == model::ScheduleKind::Interleaved;
}

TEST(PlanExport, ScriptsComeBackAsTheSamePlanAndModel) {
  for (const char* name : {"mixtral-8x7b", "gpt-7.5b", "llama-2-70b"}) {
    const model::Job job = job_from(yaml_of(name, 4, "megatron-core", 64, "dgx-h100"));
    int compared = 0;
    for (const model::Plan& plan : some_plans(job)) {
      if (!has_flags(plan)) continue;
      for (const std::string& script :
           {cli::megatron_script(job, plan), cli::slurm_script(job, plan)}) {
        const auto launch =
            scenarios::read_megatron_launch("plan", script, scenarios::LaunchKind::Megatron);
        ASSERT_TRUE(launch.has_value());
        model::Plan back = launch->plan;
        // Without its traffic a switch is not written.
        if (plan.model_chunks == 1) back.overlap_p2p = plan.overlap_p2p;
        if (plan.zero_stage == 0) back.overlap_param_gather = plan.overlap_param_gather;
        if (!job.transformer.experts) back.dispatcher = plan.dispatcher;
        if (plan.tensor == 1) {
          back.sequence_parallel = plan.sequence_parallel;
          back.overlap_tensor_parallel = plan.overlap_tensor_parallel;
        }
        EXPECT_EQ(plan_text(back), plan_text(plan)) << script;
        EXPECT_EQ(launch->gpus, job.cluster.num_gpus());
        ASSERT_TRUE(launch->transformer.has_value());
        EXPECT_EQ(launch->transformer->num_layers, job.transformer.num_layers);
        EXPECT_EQ(launch->transformer->num_key_value_heads, job.transformer.num_key_value_heads);
        EXPECT_EQ(launch->transformer->ffn_hidden_size, job.transformer.ffn_hidden_size);
        EXPECT_EQ(launch->transformer->experts.has_value(), job.transformer.experts.has_value());
        ++compared;
      }
    }
    EXPECT_GT(compared, 10) << name;
  }
}

// Latent attention, the layers without experts and the prediction layer go out and come back: not
// a parameter is lost, and the shell finds no pattern to look for files by.
TEST(PlanExport, DeepSeeksModelComesBackToTheParameter) {
  const model::Job job = job_from(yaml_of("deepseek-v3", 8, "megatron-core", 64, "dgx-h100"));
  ASSERT_TRUE(job.transformer.latent.has_value());
  model::Plan plan = job.plan;
  plan.pipeline = 4;
  plan.data = 16;
  plan.layers_per_virtual_stage = {16, 16, 15, 14};
  const std::string script = cli::megatron_script(job, plan);
  EXPECT_NE(script.find("--moe-layer-freq '[0]*3+[1]*58'"), std::string::npos) << script;
  EXPECT_NE(script.find("\"${MODEL_AND_PLAN_ARGS[@]}\""), std::string::npos) << script;
  EXPECT_NE(script.find("--pipeline-model-parallel-layout"), std::string::npos) << script;
  for (const std::string& text : {script, cli::slurm_script(job, plan)}) {
    const auto launch =
        scenarios::read_megatron_launch("plan", text, scenarios::LaunchKind::Megatron);
    ASSERT_TRUE(launch.has_value() && launch->transformer.has_value()) << text;
    const model::Transformer& back = *launch->transformer;
    ASSERT_TRUE(back.latent.has_value());
    EXPECT_EQ(back.latent->q_lora_rank, job.transformer.latent->q_lora_rank);
    EXPECT_EQ(back.latent->kv_lora_rank, job.transformer.latent->kv_lora_rank);
    EXPECT_EQ(back.latent->qk_nope_head_dim, job.transformer.latent->qk_nope_head_dim);
    EXPECT_EQ(back.latent->qk_rope_head_dim, job.transformer.latent->qk_rope_head_dim);
    EXPECT_EQ(back.latent->v_head_dim, job.transformer.latent->v_head_dim);
    EXPECT_EQ(back.head_dim, job.transformer.head_dim);
    EXPECT_EQ(back.num_mtp_layers, job.transformer.num_mtp_layers);
    EXPECT_EQ(model::count_parameters(back).total, model::count_parameters(job.transformer).total);
    EXPECT_EQ(model::count_parameters(back).active,
              model::count_parameters(job.transformer).active);
    EXPECT_EQ(launch->plan.layers_per_virtual_stage, plan.layers_per_virtual_stage);
  }
}

// Experts on every n-th layer are no "dense first" layers.
TEST(PlanExport, APatternOfExpertLayersComesBack) {
  model::Job job = job_from(yaml_of("mixtral-8x7b", 1, "megatron-core", 64, "dgx-h100"));
  for (int i = 0; i < 32; ++i) job.transformer.layer_is_moe.push_back(i % 2 == 1);
  const auto launch = scenarios::read_megatron_launch("plan", cli::megatron_script(job, job.plan),
                                                      scenarios::LaunchKind::Megatron);
  ASSERT_TRUE(launch.has_value() && launch->transformer.has_value());
  EXPECT_EQ(launch->transformer->layer_is_moe, job.transformer.layer_is_moe);
}

// Megatron-LM stops at the start when it is not so.
TEST(PlanExport, OneHardwareQueueIsAskedForWhereMegatronDemandsIt) {
  const std::string wanted = "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";
  const std::string unset = "unset CUDA_DEVICE_MAX_CONNECTIONS\n";
  const struct {
    const char* machine;
    int tensor, context, zero;
    bool is_wanted, is_unset;
  } cases[] = {{"dgx-h100", 2, 1, 1, true, false},  {"dgx-h100", 1, 2, 0, true, false},
               {"dgx-h100", 1, 1, 1, false, false}, {"dgx-h100", 2, 1, 3, false, true},
               {"dgx-h100", 1, 1, 2, false, true},  {"dgx-a100-80g", 2, 1, 1, true, false},
               {"dgx-b200", 2, 2, 1, false, false}};
  for (const auto& one : cases) {
    const model::Job job = job_from(yaml_of("llama-2-7b", 1, "megatron-core", 64, one.machine));
    model::Plan plan = job.plan;
    plan.tensor = one.tensor;
    plan.context = one.context;
    plan.data = 8 / (one.tensor * one.context);
    plan.zero_stage = one.zero;
    for (const std::string& text :
         {cli::megatron_script(job, plan), cli::slurm_script(job, plan)}) {
      EXPECT_EQ(text.find(wanted) != std::string::npos, one.is_wanted) << text;
      EXPECT_EQ(text.find(unset) != std::string::npos, one.is_unset) << text;
    }
  }
}

}  // namespace
}  // namespace megatwin::tests
