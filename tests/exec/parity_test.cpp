// Parallel runs against one rank: the same losses to the bit where only the schedule differs, and
// within 1e-5 relative where sums run in another order.
#include <gtest/gtest.h>

#include "model/program/memory_planner.h"
#include "tests/exec/tiny_jobs.h"

namespace megatwin::exec {
namespace {

using model::Plan;
using model::ScheduleKind;
using tests::tiny_gpt;
using tests::tiny_llama;
using tests::TinyJob;

HostResult train(const model::Transformer& transformer, const Plan& plan) {
  TinyJob tiny(transformer, plan);
  const auto problems = host_job_problems(tiny.job);
  EXPECT_TRUE(problems.empty()) << problems.front();
  HostResult result = run_host(tiny.job);
  EXPECT_FALSE(result.fault) << to_text(*result.fault);
  EXPECT_EQ(result.losses.size(), 5u);
  return result;
}

Plan pipeline(ScheduleKind schedule, int p, int v = 1) {
  Plan plan;
  plan.schedule = schedule;
  plan.pipeline = p;
  plan.model_chunks = v;
  return plan;
}

void expect_close(const HostResult& result, const HostResult& single, const char* what) {
  ASSERT_EQ(result.losses.size(), single.losses.size()) << what;
  for (std::size_t step = 0; step < single.losses.size(); ++step) {
    EXPECT_NEAR(result.losses[step], single.losses[step], 1e-5 * single.losses[step])
        << what << " step " << step;
  }
}

const std::vector<Plan>& pipelines() {
  static const std::vector<Plan> kPlans = {
      pipeline(ScheduleKind::GPipe, 2),
      pipeline(ScheduleKind::GPipe, 2, 2),
      pipeline(ScheduleKind::OneForwardOneBackward, 2),
      pipeline(ScheduleKind::OneForwardOneBackward, 4),
      pipeline(ScheduleKind::Interleaved, 2, 2),
      pipeline(ScheduleKind::ZeroBubbleH1, 2),
      pipeline(ScheduleKind::ZeroBubbleH1, 4),
      pipeline(ScheduleKind::ZeroBubbleV, 2, 2),
  };
  return kPlans;
}

std::string describe(const Plan& plan) {
  return std::string(name_of(plan.schedule)) + " p" + std::to_string(plan.pipeline) + " v" +
         std::to_string(plan.model_chunks) + " t" + std::to_string(plan.tensor) + " d" +
         std::to_string(plan.data) + " zero " + std::to_string(plan.zero_stage) +
         (plan.sequence_parallel ? " sp" : "");
}

TEST(Parity, OneRankLearns) {
  for (const auto& transformer : {tiny_llama(), tiny_gpt()}) {
    const HostResult result = train(transformer, {});
    EXPECT_LT(result.losses.back(), result.losses.front() - 0.1) << transformer.name;
  }
}

// A pipeline does the same sums in the same order, wherever the layers lie.
TEST(Parity, SchedulesGiveTheSameBits) {
  for (const auto& transformer : {tiny_llama(), tiny_gpt()}) {
    const HostResult single = train(transformer, {});
    for (const Plan& plan : pipelines()) {
      EXPECT_EQ(train(transformer, plan).losses, single.losses)
          << transformer.name << " " << describe(plan);
    }
  }
}

TEST(Parity, TwoRunsGiveTheSameBits) {
  Plan plan = pipeline(ScheduleKind::ZeroBubbleV, 2, 2);
  plan.data = 2;
  EXPECT_EQ(train(tiny_llama(), plan).weights_hash, train(tiny_llama(), plan).weights_hash);
}

// Replicas: sums in another order. Sharding the optimizer changes no sum.
TEST(Parity, DataParallelReplicas) {
  const HostResult single = train(tiny_llama(), {});
  for (Plan plan : pipelines()) {
    plan.data = 2;
    const HostResult zero0 = train(tiny_llama(), plan);
    expect_close(zero0, single, describe(plan).c_str());
    plan.zero_stage = 1;
    plan.overlap_grad_reduce = true;
    EXPECT_EQ(train(tiny_llama(), plan).losses, zero0.losses) << describe(plan);
  }
  Plan four;
  four.data = 4;
  expect_close(train(tiny_gpt(), four), train(tiny_gpt(), {}), "d4");
}

TEST(Parity, TensorParallelGroups) {
  for (const auto& transformer : {tiny_llama(), tiny_gpt()}) {
    const HostResult single = train(transformer, {});
    for (const bool sequence_parallel : {false, true}) {
      Plan plan;
      plan.tensor = 2;
      plan.sequence_parallel = sequence_parallel;
      expect_close(train(transformer, plan), single, describe(plan).c_str());
    }
  }
  Plan four;
  four.tensor = 4;
  expect_close(train(tiny_gpt(), four), train(tiny_gpt(), {}), "t4");
}

TEST(Parity, Products) {
  const HostResult single = train(tiny_llama(), {});
  for (Plan plan : pipelines()) {
    plan.tensor = 2;
    plan.data = 2;
    plan.zero_stage = 1;
    plan.sequence_parallel = true;
    expect_close(train(tiny_llama(), plan), single, describe(plan).c_str());
  }
}

TEST(Parity, ClippingDoesNotDependOnTheStages) {
  TinyJob tiny(tiny_llama());
  tiny.job.gradient_norm_max = 0.05;
  const HostResult single = run_host(tiny.job);
  EXPECT_NE(single.losses, train(tiny_llama(), {}).losses);
  for (const Plan& plan : {pipelines()[4], pipelines()[7]}) {
    TinyJob piped(tiny_llama(), plan);
    piped.job.gradient_norm_max = 0.05;
    EXPECT_EQ(run_host(piped.job).losses, single.losses) << describe(plan);
  }
  Plan product = pipelines()[2];
  product.tensor = product.data = 2;
  product.zero_stage = 1;
  product.sequence_parallel = true;
  TinyJob many(tiny_llama(), product);
  many.job.gradient_norm_max = 0.05;
  expect_close(run_host(many.job), single, "clipped product");
}

// The planner's peak is what is live, and its arena is what is used, to the byte.
TEST(Memory, IsWhatThePlannerSays) {
  for (Plan plan : pipelines()) {
    plan.tensor = 2;
    plan.sequence_parallel = true;
    TinyJob tiny(tiny_llama(), plan);
    const HostResult result = run_host(tiny.job);
    const model::ProgramSpec spec = host_program_spec(tiny.job);
    const model::PipelineShape shape = pipeline_shape(spec);
    const auto orders = policies::schedule_orders(spec);
    for (const HostRankReport& rank : result.ranks) {
      const auto stage = static_cast<std::size_t>(rank.stage.value);
      EXPECT_EQ(rank.executed, orders[stage]);
      const model::MemoryRequest request{shape, spec.stages[stage], orders[stage]};
      EXPECT_EQ(rank.activations_max.value, model::plan_memory(request).buffers.value)
          << describe(plan);
      EXPECT_EQ(rank.activations_reserved.value, model::plan_arena(request).high_water.value)
          << describe(plan);
    }
  }
}

}  // namespace
}  // namespace megatwin::exec
