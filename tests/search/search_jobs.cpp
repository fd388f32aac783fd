#include "tests/search/search_jobs.h"

#include <utility>

#include "model/assert.h"
#include "model/diagnostic.h"
#include "sim/search/space_key.h"

namespace megatwin::tests {

scenarios::Scenario scenario_from(const std::string& yaml) {
  auto scenario = scenarios::parse_scenario("test.yaml", yaml);
  MEGATWIN_ASSERT(scenario.has_value(), model::to_text(scenario.error()));
  return *std::move(scenario);
}

model::Job job_from(const std::string& yaml) { return scenario_from(yaml).jobs.front(); }

std::string yaml_of(const std::string& model, int nodes, const std::string& framework,
                    int global_batch, const std::string& machine) {
  return "model: {name: " + model +
         ", sequence_length: 2048}\ncluster: {nodes: [{type: " + machine +
         ", count: " + std::to_string(nodes) + "}]}\nsoftware: {framework: " + framework +
         "}\nplan: {global_batch: " + std::to_string(global_batch) + "}\n";
}

const model::Job& sixteen_gpu_job() {
  static const model::Job the_job = job_from(yaml_of("llama-2-13b", 2, "megatron-core", 64));
  return the_job;
}

sim::SearchSpace sixteen_gpu_space(std::vector<int> model_chunks) {
  sim::SearchSpace space = sim::whole_space(sixteen_gpu_job());
  space.model_chunks = std::move(model_chunks);
  space.recompute = {{}, {model::RecomputeKind::Full}};
  return space;
}

std::vector<ListedPlan> all_plans(const model::Job& job, const sim::SearchSpace& space) {
  std::vector<ListedPlan> plans;
  sim::LayerSplits splits;
  for (const sim::PlanFamily& family : sim::plan_families(job, space)) {
    sim::for_each_plan(job, space, family, splits,
                       [&](const sim::PlanCode& code, const model::Plan& plan) {
                         plans.push_back({code, plan});
                       });
  }
  return plans;
}

namespace {

std::string plan_text(const model::Plan& plan) {
  std::string text;
  for (int i = 0; i < sim::kNumSpaceKeys; ++i) {
    text += value_text(plan, static_cast<sim::SpaceKey>(i)) + " ";
  }
  return text;
}

}  // namespace

std::vector<std::string> summary_of(const sim::SearchResult& result) {
  std::vector<std::string> lines = {std::to_string(result.candidates), std::to_string(result.fit),
                                    std::to_string(result.evaluated.dataflow)};
  const auto add = [&](const sim::SimulationReport& report) {
    lines.push_back(plan_text(report.plan) + std::to_string(report.step_time.value) + " " +
                    std::to_string(report.memory_peak.value));
  };
  for (const sim::FoundPlan& found : result.best) add(found.report);
  for (const sim::FrontPlan& point : result.front) add(point.report);
  for (const sim::Loser& loser : result.losers) {
    lines.push_back(plan_text(loser.plan) + loser.reason);
  }
  for (const sim::SwitchEffect& effect : result.switches) {
    lines.push_back(plan_text(effect.plan) + effect.refusal +
                    std::to_string(effect.step_time.value_or(model::Seconds{}).value));
  }
  return lines;
}

sim::SearchSpace small_space(const model::Job& job, Dice& dice) {
  sim::SearchSpace space = sim::whole_space(job);
  space.overlap_tensor_parallel = {false, true};
  space.overlap_p2p = {false, true};
  space.overlap_grad_reduce = {true, false};
  space.overlap_param_gather = {true, false};
  space.rank_order = {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "dp-tp-cp-ep-pp", "pp-dp-ep-cp-tp"};
  for (int i = 0; i < sim::kNumSpaceKeys; ++i) {
    const auto key = static_cast<sim::SpaceKey>(i);
    if (key == sim::SpaceKey::Data) continue;
    sim::visit_list(key, [&](auto member) {
      space.*member = dice.some_of(space.*member, key == sim::SpaceKey::ModelChunks ? 6 : 2);
    });
  }
  return space;
}

}  // namespace megatwin::tests
