// The closed forms of the search against what a simulation does: prices, memory, bounds.
#include "sim/search/plan_pricer.h"

#include <gtest/gtest.h>

#include "model/program/job_program.h"
#include "sim/search/candidates.h"
#include "sim/search/loser_reasons.h"
#include "sim/search/step_bound.h"
#include "tests/search/search_jobs.h"

namespace megatwin::tests {
namespace {

struct Case {
  const char* model;
  int nodes;
  const char* framework;
  int global_batch;
  const char* machine = "dgx-a100-80g";
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {{"gpt-18b", 4, "megatron-core", 96},
                                        {"gpt-7.5b", 2, "megatron-2021", 64},
                                        {"llama-2-70b", 4, "megatron-core", 64},
                                        {"llama-2-7b", 1, "fsdp2", 32, "dgx-h100"},
                                        {"mixtral-8x7b", 2, "megatron-core", 32, "dgx-h100"},
                                        {"deepseek-v3", 16, "megatron-core", 256, "dgx-h100"},
                                        {"gpt2-xl", 1, "megatron-2020", 48},
                                        {"gpt-7.5b", 2, "megatron-deepspeed", 32}};
  return all;
}

// Plans drawn at random from the whole space of every case.
template <class Body>
void for_random_plans(int plans_a_case, Body body) {
  for (const Case& one : cases()) {
    const model::Job job =
        job_from(yaml_of(one.model, one.nodes, one.framework, one.global_batch, one.machine));
    Dice dice(static_cast<std::uint64_t>(one.global_batch));
    const auto plans = all_plans(job, small_space(job, dice));
    if (plans.empty()) continue;
    SCOPED_TRACE(std::string(one.model) + " under " + one.framework);
    sim::SearchWorker worker(job, 1U << 20U);
    for (int i = 0; i < plans_a_case; ++i) {
      model::Job changed = job;
      changed.plan =
          plans[static_cast<std::size_t>(dice.below(static_cast<int>(plans.size())))].plan;
      body(changed, worker);
    }
  }
}

TEST(PlanPricer, PricesEveryPlanAsTheJobProgramDoes) {
  int compared = 0;
  for_random_plans(25, [&](const model::Job& job, sim::SearchWorker& worker) {
    const model::ProgramSpec expected = model::build_job_program(job).spec;
    const model::ProgramSpec spec = sim::program_spec(job.plan, worker.pricer.price(job.plan));
    ASSERT_EQ(spec.stages.size(), expected.stages.size());
    for (std::size_t stage = 0; stage < spec.stages.size(); ++stage) {
      ASSERT_EQ(spec.stages[stage], expected.stages[stage]) << "stage " << stage;
    }
    EXPECT_EQ(spec.hops, expected.hops);
    EXPECT_EQ(spec.micro_batches, expected.micro_batches);
    EXPECT_EQ(spec.schedule, expected.schedule);
    EXPECT_EQ(spec.overlap_p2p, expected.overlap_p2p);
    EXPECT_EQ(spec.overlap_grad_reduce, expected.overlap_grad_reduce);
    EXPECT_EQ(spec.overlap_param_gather, expected.overlap_param_gather);
    EXPECT_EQ(spec.micro_batch_group, expected.micro_batch_group);
    EXPECT_EQ(spec.overlap_slowdown, expected.overlap_slowdown);
    ++compared;
  });
  EXPECT_GE(compared, 100);
}

TEST(PlanPricer, TimeAndMemoryAreThoseOfASimulationAndTheBoundIsBelow) {
  for_random_plans(12, [&](const model::Job& job, sim::SearchWorker& worker) {
    const sim::SimulationReport report =
        sim::report_of_plan(job, job.plan, {.sensitivities = false});
    const sim::PricedPlan& priced = worker.pricer.price(job.plan);
    EXPECT_EQ(worker.memory(job.plan, priced).value, report.memory_peak.value);
    const model::Instant time = worker.evaluator.makespan(job.plan, priced);
    EXPECT_EQ((model::to_seconds(time) + priced.step_overhead).value, report.step_time.value);
    EXPECT_LE(sim::step_lower_bound(job.plan, priced), time);
  });
}

// Uniform 1F1B without transfers takes (m + p − 1)(F + B), and the bound says just that: nothing is
// lost to the closed form where the schedule itself is tight.
TEST(StepBound, IsTheStepTimeOfUniformPipelines) {
  model::Plan plan{.pipeline = 4, .micro_batch = 1, .global_batch = 8};
  plan.overlap_p2p = true;
  sim::ChunkLayout layout{.pipeline = 4, .model_chunks = 1};
  layout.contents.resize(1);
  layout.content_of_chunk = layout.kind_of_stage = {0, 0, 0, 0};
  layout.first_of_kind = {0};
  model::StageCost stage;
  stage.chunks.push_back({.forward = {100}, .backward = {200}});
  sim::PricedPlan priced{.layout = &layout, .stages = {stage}};
  EXPECT_EQ(sim::step_lower_bound(plan, priced).ns, (8 + 4 - 1) * 300);
}

}  // namespace
}  // namespace megatwin::tests
