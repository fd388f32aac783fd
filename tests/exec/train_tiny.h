// Trains the tiny models for five steps, and holds runs against each other and against the memory
// planner.
#ifndef MEGATWIN_TESTS_EXEC_TRAIN_TINY_H_
#define MEGATWIN_TESTS_EXEC_TRAIN_TINY_H_

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/program/memory_planner.h"
#include "tests/exec/tiny_jobs.h"

namespace megatwin::tests {

inline std::string describe(const model::Plan& plan) {
  const auto number = [](const char* name, int value) {
    return value == 1 ? std::string() : std::string(" ") + name + std::to_string(value);
  };
  return std::string(name_of(plan.schedule)) + number("p", plan.pipeline) +
         number("v", plan.model_chunks) + number("t", plan.tensor) + number("c", plan.context) +
         number("e", plan.expert) + number("et", plan.effective_expert_tensor()) +
         number("d", plan.data) + " zero " + std::to_string(plan.zero_stage) + " recompute " +
         std::string(name_of(plan.recompute)) + (plan.sequence_parallel ? " sp" : "");
}

inline model::Plan pipeline(model::ScheduleKind schedule, int p, int v = 1) {
  model::Plan plan;
  plan.schedule = schedule;
  plan.pipeline = p;
  plan.model_chunks = v;
  return plan;
}

// The arena of every rank is what the planner said, to the byte, and so is the model state.
inline void expect_planned_memory(const exec::HostJob& job, const exec::HostResult& result) {
  const std::vector<model::ProgramSpec> specs = host_program_specs(job);
  const auto orders = policies::schedule_orders(specs);
  const std::size_t num_stages = specs.front().stages.size();
  std::vector<double> state_max(orders.size(), 0);
  const auto cost_of = [&](std::size_t stage) -> const model::StageCost& {
    return specs[stage / num_stages].stages[stage % num_stages];
  };
  for (const exec::HostRankReport& rank : result.ranks) {
    const auto stage = static_cast<std::size_t>(rank.stage.value);
    EXPECT_EQ(rank.executed, orders[stage]);
    const model::PipelineShape shape = pipeline_shape(specs[stage / num_stages]);
    const model::MemoryRequest request{shape, cost_of(stage), orders[stage]};
    EXPECT_EQ(rank.activations_max.value, plan_memory(request).buffers.value) << describe(job.plan);
    EXPECT_EQ(rank.activations_reserved.value, plan_arena(request).high_water.value)
        << describe(job.plan);
    state_max[stage] = std::max(state_max[stage], rank.state.value);
  }
  // The last shards may be a number short.
  for (std::size_t stage = 0; stage < orders.size(); ++stage) {
    const model::StageCost& cost = cost_of(stage);
    EXPECT_EQ(state_max[stage], (cost.parameters + cost.gradients + cost.optimizer_state).value)
        << describe(job.plan);
  }
}

inline exec::HostResult train(const exec::HostJob& job) {
  const auto problems = host_job_problems(job);
  EXPECT_TRUE(problems.empty()) << describe(job.plan) << ": " << problems.front();
  if (!problems.empty()) {
    return {};
  }
  exec::HostResult result = run_host(job);
  EXPECT_FALSE(result.fault) << describe(job.plan) << ": " << to_text(*result.fault);
  EXPECT_EQ(result.losses.size(), 5u);
  expect_planned_memory(job, result);
  return result;
}

inline exec::HostResult train(const model::Transformer& transformer, const model::Plan& plan,
                              const exec::ExpertSettings& experts = {}) {
  TinyJob tiny(transformer, plan);
  tiny.job.experts = experts;
  tiny.job.gradient_norm_max = 1e9;  // Clips nothing, but measures: AdamW hides a factor.
  return train(tiny.job);
}

inline void expect_close(const exec::HostResult& result, const exec::HostResult& single,
                         const std::string& what) {
  ASSERT_EQ(result.losses.size(), single.losses.size()) << what;
  for (std::size_t step = 0; step < single.losses.size(); ++step) {
    EXPECT_NEAR(result.losses[step], single.losses[step], 1e-5 * single.losses[step])
        << what << " step " << step;
  }
  ASSERT_EQ(result.gradient_norms.size(), single.gradient_norms.size()) << what;
  for (std::size_t step = 0; step < single.gradient_norms.size(); ++step) {
    EXPECT_NEAR(result.gradient_norms[step] / single.gradient_norms[step], 1, 1e-5)
        << what << " gradients of step " << step;
  }
}

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_EXEC_TRAIN_TINY_H_
