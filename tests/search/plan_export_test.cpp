// A plan that leaves as a scenario, a script or a Slurm job comes back as the same plan.
#include "cli/plan_export.h"

#include <cstdio>
#include <fstream>

#include <gtest/gtest.h>

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

// What Megatron-LM has a flag for: schedules other than its own two are named in a comment instead.
bool has_flags(const model::Plan& plan) {
  return plan.schedule == model::ScheduleKind::OneForwardOneBackward ||
         plan.schedule == model::ScheduleKind::Interleaved;
}

TEST(PlanExport, ScriptsComeBackAsTheSamePlanAndModel) {
  for (const char* name : {"mixtral-8x7b", "gpt-7.5b", "llama-2-70b"}) {
    const model::Job job = job_from(yaml_of(name, 4, "megatron-core", 64, "dgx-h100"));
    int compared = 0;
    for (model::Plan plan : some_plans(job)) {
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

}  // namespace
}  // namespace megatwin::tests
