// Parallel runs against one rank: the same losses to the bit where only the schedule differs, and
// within 1e-5 relative where sums run in another order. Every run is also held against the memory
// planner.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/exec/train_tiny.h"

namespace megatwin::exec {
namespace {

using model::Plan;
using model::ScheduleKind;
using tests::describe;
using tests::expect_close;
using tests::pipeline;
using tests::tiny_gpt;
using tests::tiny_llama;
using tests::TinyJob;
using tests::train;

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
    expect_close(zero0, single, describe(plan));
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
      expect_close(train(transformer, plan), single, describe(plan));
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
    expect_close(train(tiny_llama(), plan), single, describe(plan));
  }
}

// Two stages that run all forwards, then the backwards in `backwards`.
Plan in_order(HostJob& job, const std::vector<int>& backwards) {
  Plan plan = job.plan;
  plan.schedule = ScheduleKind::OrderFile;
  plan.pipeline = 2;
  std::vector<std::string> order;
  order.reserve(16);
  for (int n = 0; n < 8; ++n) order.push_back("F" + std::to_string(n) + ".0");
  for (const int n : backwards) order.push_back("B" + std::to_string(n) + ".0");
  job.orders = {order, order};
  return plan;
}

// An order file is run as it is written, sums of gradients included: backwards that ascend have the
// bits of every schedule, others bits of their own, the same each time.
TEST(Parity, AnOrderFileSumsAsItIsWritten) {
  const HostResult single = train(tiny_llama(), {});
  const auto run = [&](const std::vector<int>& backwards) {
    TinyJob tiny(tiny_llama());
    tiny.job.gradient_norm_max = 1e9;
    tiny.job.plan = in_order(tiny.job, backwards);
    return train(tiny.job);
  };
  EXPECT_EQ(run({0, 1, 2, 3, 4, 5, 6, 7}).losses, single.losses);
  const HostResult down = run({7, 6, 5, 4, 3, 2, 1, 0});
  expect_close(down, single, "descending");
  EXPECT_NE(down.losses, single.losses);
  EXPECT_EQ(run({7, 6, 5, 4, 3, 2, 1, 0}).weights_hash, down.weights_hash);
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

}  // namespace
}  // namespace megatwin::exec
