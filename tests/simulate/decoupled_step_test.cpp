// The report of a decoupled job: which engine, where the step goes, what the ranks of each side
// hold, where they are placed, and the limits.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "model/program/job_program.h"
#include "sim/decoupled/decoupled_job.h"
#include "sim/simulate.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

using sim::EngineChoice;
using sim::PlanRefusal;
using sim::SimulateOptions;
using sim::SimulationReport;

// Sixteen H100 in two machines: a stage has two forward ranks and two backward ranks.
model::Job job_of(const std::string& policy, const std::string& node = "", int batch = 16) {
  return job_from(
      "model: {name: llama-3-8b, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100, count: 2" +
      node +
      "}]}\n"
      "software: {framework: megatron-core}\n"
      "plan: {tensor: 2, pipeline: 4, data: 1, micro_batch: 1, global_batch: " +
      std::to_string(batch) + ", recompute: none}\npolicy: {schedule: fbd, " + policy + "}\n");
}
SimulationReport report_with(const model::Job& job, SimulateOptions options = {}) {
  options.sensitivities = false;
  return report_of(job, options);
}

bool has(const std::vector<std::string>& sentences, const std::string& words) {
  return std::any_of(sentences.begin(), sentences.end(), [&](const std::string& sentence) {
    return sentence.find(words) != std::string::npos;
  });
}

double sum(const sim::StepBreakdown& parts) {
  return (parts.compute + parts.exposed_tp + parts.exposed_pp + parts.exposed_dp +
          parts.exposed_ep + parts.exposed_cp + parts.bubble + parts.optimizer + parts.other)
      .value;
}

TEST(DecoupledStep, RunsThroughTheExecutorWhereAProgramSaysAllOfIt) {
  for (const char* feed : {"feed: stage-input", "feed: activations"}) {
    const SimulationReport report = report_with(job_of(feed));
    EXPECT_EQ(report.engine, "events") << feed;
    EXPECT_EQ(report.ranks_simulated, 8);
    EXPECT_NEAR(sum(report.breakdown), report.step_time.value, 1e-9);
    EXPECT_GT(report.breakdown.bubble.value, 0);
    EXPECT_GT(report.breakdown.exposed_pp.value, 0);
  }
  EXPECT_EQ(report_with(job_of("feed: activations, weight_gradients_on_forward: auto")).engine,
            "instances");
}

TEST(DecoupledStep, SaysWhenAnotherEngineWasAskedFor) {
  const auto warned = [](const std::string& policy, EngineChoice engine) {
    for (const std::string& warning : report_with(job_of(policy), {.engine = engine}).warnings) {
      if (warning.starts_with("--engine ")) return true;
    }
    return false;
  };
  EXPECT_FALSE(warned("feed: stage-input", EngineChoice::Auto));
  EXPECT_FALSE(warned("feed: stage-input", EngineChoice::Events));
  EXPECT_TRUE(warned("feed: stage-input", EngineChoice::Dataflow));
  EXPECT_TRUE(warned("feed: activations, weight_gradients_on_forward: auto", EngineChoice::Events));
}

// The busiest rank's work and collectives are all there is.
TEST(DecoupledStep, WithoutThePipelineNobodyWaits) {
  model::PricedEffects effects;
  effects.pipeline_schedule = false;
  for (const char* policy :
       {"feed: stage-input", "feed: activations, weight_gradients_on_forward: auto"}) {
    const SimulationReport whole = report_with(job_of(policy));
    const SimulationReport bare = report_with(job_of(policy), {.effects = effects});
    EXPECT_LT(bare.step_time, whole.step_time);
    EXPECT_EQ(bare.breakdown.exposed_pp.value, 0);
    EXPECT_NEAR(bare.breakdown.compute.value, whole.breakdown.compute.value,
                1e-9 * whole.breakdown.compute.value);
    EXPECT_NEAR(sum(bare.breakdown), bare.step_time.value, 1e-9);
  }
}

// Each side on machines of its own, with adapters that take long for an activation: of sixteen
// micro-batches most wait at the forward ranks of the first stage, and are in their memory.
TEST(DecoupledStep, ForwardRanksHoldWhatIsUnsent) {
  const model::Job job = job_from(
      "model: {name: llama-3-8b, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100, count: 1}, {type: dgx-h100, count: 1, "
      "nic_bandwidth: 1 GB/s}]}\n"
      "plan: {tensor: 2, pipeline: 4, data: 1, micro_batch: 1, global_batch: 16}\n"
      "policy: {schedule: fbd, feed: activations, forward: {nodes: 1}}\n");
  const sim::DecoupledJob priced = sim::price_decoupled(job);
  const sim::DecoupledResult result = sim::simulate_decoupled(priced.spec);
  const int held = result.ranks[0].activations_max;
  EXPECT_GE(held, 8);
  for (const sim::StageMemory& memory : report_with(job).memory) {
    if (memory.side != "forward" || memory.stage != 0) continue;
    const model::Bytes one = priced.forward_program.spec.stages[0].chunks[0].activation;
    EXPECT_NEAR(memory.activations.value, held * one.value, 1);
    EXPECT_EQ(memory.optimizer.value, 0);
    EXPECT_EQ(memory.gradients.value, 0);
  }
}

TEST(DecoupledStep, WeightGradientsLeftBehindAreHeld) {
  const auto forward_activations = [](const std::string& policy) {
    double most = 0;
    for (const sim::StageMemory& memory : report_with(job_of(policy)).memory) {
      if (memory.side == "forward") most = std::max(most, memory.activations.value);
    }
    return most;
  };
  EXPECT_GT(forward_activations("feed: activations, weight_gradients_on_forward: 1"),
            forward_activations("feed: activations"));
}

// A kind of GPU for each side; seven micro-batches, of which a share of 14 % is none.
model::Job two_kinds(const std::string& share, const std::string& policy, int batch = 7) {
  return job_from(
      "model: {name: gpt-7.5b}\n"
      "cluster: {nodes: [{type: dgx-a100-80g, count: 1}, {type: dgx-1v-32g, count: 1}]}\n"
      "plan: {tensor: 2, pipeline: 4, data: 1, micro_batch: 1, precision: fp16, global_batch: " +
      std::to_string(batch) +
      "}\npolicy: {schedule: fbd, backward: {nodes: 0}, weight_gradients_on_forward: " + share +
      ", " + policy + "}\n");
}
model::Job with_share(model::Job job, double share) {
  job.plan.decoupled.balance_weights = false;
  job.plan.decoupled.weight_share = share;
  return job;
}
const char* const kTwoInstances = "feed: stage-input, forward: {nodes: 1, tensor: 1, instances: 2}";

// One micro-batch left here makes the step longer.
TEST(DecoupledStep, AutoLeavesWholeMicroBatchesOrNone) {
  const SimulationReport found = report_with(two_kinds("auto", kTwoInstances));
  const SimulationReport none = report_with(two_kinds("0", kTwoInstances));
  const SimulationReport one = report_with(two_kinds("0.15", kTwoInstances));
  const SimulationReport below_one = report_with(two_kinds("0.14", kTwoInstances));
  EXPECT_GT(one.step_time, none.step_time);
  EXPECT_EQ(found.step_time, none.step_time);
  for (const SimulationReport* report : {&found, &below_one}) {
    ASSERT_EQ(report->memory.size(), none.memory.size());
    for (std::size_t i = 0; i < none.memory.size(); ++i) {
      EXPECT_EQ(report->memory[i].peak, none.memory[i].peak) << i;
    }
  }
  EXPECT_GT(one.sides[0].memory_peak, none.sides[0].memory_peak);
  EXPECT_TRUE(has(found.assumptions, "of no micro-batch"));
  for (const int batch : {5, 16, 33}) {
    const std::string same = "feed: activations, forward: {nodes: 1}";
    EXPECT_LE(report_with(two_kinds("auto", same, batch)).step_time,
              report_with(two_kinds("0", same, batch)).step_time)
        << batch;
  }
}

// A job on so many machines with instances of a side, which take micro-batches in turn.
model::Job with_instances(int forward, int backward, const std::string& feed, int batch) {
  return job_from(
      "model: {name: gpt-7.5b, vocab_size: 51200}\ncluster: {nodes: [{type: dgx-a100-80g, count: " +
      std::to_string(forward + backward) + "}]}\nplan: {tensor: 2, pipeline: 4, data: 1, " +
      "micro_batch: 1, global_batch: " + std::to_string(batch) + "}\npolicy: {schedule: fbd, " +
      feed + ", weight_gradients_on_forward: auto, forward: {instances: " +
      std::to_string(forward) + "}, backward: {instances: " + std::to_string(backward) + "}}\n");
}

// Against every share there is: of sides on one kind of machine, whose forward ranks end first, up
// to batches whose inputs of weight gradients fill the memory, of a slower forward side, and of
// several instances, for which the share that balances is no good beginning.
TEST(DecoupledStep, AutoTakesTheFastestShareThatFits) {
  int none = 0, some = 0, all = 0;
  const auto try_job = [&](const model::Job& job) {
    const int batch = static_cast<int>(job.plan.global_batch);
    double best = std::numeric_limits<double>::max();
    for (int left = 0; left <= batch; ++left) {
      const SimulationReport report =
          report_with(with_share(job, static_cast<double>(left) / batch));
      if (report.fits) best = std::min(best, report.step_time.value);
    }
    const SimulationReport decided = report_with(job);
    EXPECT_EQ(decided.step_time.value, best) << batch;
    EXPECT_TRUE(decided.fits) << batch;
    const double share = sim::decided_weight_share(job);
    ++(share == 0 ? none : share == 1 ? all : some);
  };
  for (const std::string feed : {"feed: activations", "feed: stage-input"}) {
    std::vector<int> batches = {96};
    for (int batch = 2; batch <= 20; ++batch) batches.push_back(batch);
    for (const int batch : batches) {
      try_job(job_of(feed + ", weight_gradients_on_forward: auto", "", batch));
    }
    for (const int batch : {5, 16, 33}) {
      try_job(two_kinds("auto", feed + ", forward: {nodes: 1}", batch));
    }
  }
  for (const int batch : {7, 24}) {
    try_job(with_instances(1, 3, "feed: stage-input", batch));
    try_job(with_instances(2, 1, "feed: activations", batch));
  }
  EXPECT_GT(none, 0);
  EXPECT_GT(some, 0);
  EXPECT_GT(all, 0);
}

// Inputs of weight gradients queue up on forward ranks until their memory is nearly full; from then
// on weight gradients go before forwards. Without that bound these would not fit.
TEST(DecoupledStep, WeightGradientsWaitNoLongerThanMemoryLasts) {
  for (const std::string feed : {"feed: activations", "feed: stage-input"}) {
    const model::Job job = job_of(feed + ", weight_gradients_on_forward: 1", "", 200);
    EXPECT_TRUE(report_with(job).fits) << feed;
    sim::DecoupledSpec spec = sim::price_decoupled(job).spec;
    const sim::DecoupledResult bounded = sim::simulate_decoupled(spec);
    for (sim::DecoupledStage& stage : spec.stages) stage.forward_room = {};
    const sim::DecoupledResult unbounded = sim::simulate_decoupled(spec);
    const auto fullest = [&](const sim::DecoupledResult& result) {
      double part = 0;
      for (const sim::DecoupledRank& rank : result.ranks) {
        if (!rank.forward_side) continue;
        const auto s = static_cast<std::size_t>(rank.stage.value);
        part = std::max(
            part, ratio(rank.held_max / sim::price_decoupled(job).spec.stages[s].forward_room));
      }
      return part;
    };
    EXPECT_LE(fullest(bounded), 1) << feed;
    EXPECT_GT(fullest(bounded), 0.9) << feed;
    EXPECT_GT(fullest(unbounded), 1) << feed;
    for (std::size_t rank = 0; rank < bounded.ranks.size(); ++rank) {
      EXPECT_EQ(bounded.ranks[rank].busy, unbounded.ranks[rank].busy);
    }
  }
}

// The share is that of the job itself, though another would be better for what is changed.
TEST(DecoupledStep, SensitivitiesKeepTheShare) {
  const model::Job job = job_of("feed: activations, weight_gradients_on_forward: auto", "", 33);
  const double share = sim::decided_weight_share(job);
  ASSERT_GT(share, 0);
  const SimulationReport decided = report_of(job), stated = report_of(with_share(job, share));
  ASSERT_EQ(decided.sensitivities.size(), stated.sensitivities.size());
  EXPECT_GE(decided.sensitivities.size(), 6U);
  for (std::size_t i = 0; i < decided.sensitivities.size(); ++i) {
    EXPECT_EQ(decided.sensitivities[i].change, stated.sensitivities[i].change);
    EXPECT_EQ(decided.sensitivities[i].step_time, stated.sensitivities[i].step_time)
        << decided.sensitivities[i].change;
  }
  EXPECT_EQ(decided.step_time_low, stated.step_time_low);
}

TEST(DecoupledStep, MemoryIsThatOfTheRankNearestItsLimit) {
  const SimulationReport report =
      report_with(two_kinds("0", "feed: activations, forward: {nodes: 1}", 64));
  double fullest = 0;
  for (const sim::StageMemory& memory : report.memory) {
    fullest = std::max(fullest, model::ratio(memory.peak / memory.limit));
  }
  EXPECT_EQ(model::ratio(report.memory_peak / report.memory_limit), fullest);
  EXPECT_EQ(report.memory_limit, report.sides[0].memory_limit);
}

// The bound on what is fed is such that it fits, with and without weight gradients left behind.
TEST(DecoupledStep, WhatIsFedFits) {
  for (const char* share : {"0", "0.5", "1", "auto"}) {
    const model::Job job = job_from(
        "model: {name: gpt-7.5b, vocab_size: 51200}\n"
        "cluster: {nodes: [{type: dgx-a100-80g, count: 2}]}\n"
        "plan: {tensor: 2, pipeline: 4, data: 1, micro_batch: 1, global_batch: 64}\n"
        "policy: {schedule: fbd, feed: activations, weight_gradients_on_forward: " +
        std::string(share) + "}\n");
    const SimulationReport report = report_with(job);
    EXPECT_TRUE(report.fits);
    EXPECT_GT(ratio(report.sides[1].memory_peak / report.sides[1].memory_limit), 0.5) << share;
  }
}

TEST(DecoupledStep, MemoryNamesSideAndStage) {
  const SimulationReport report = report_with(job_of("feed: stage-input"));
  ASSERT_EQ(report.memory.size(), 8u);
  for (std::size_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(report.memory[rank].side, rank < 4 ? "backward" : "forward");
    EXPECT_EQ(report.memory[rank].stage, static_cast<int>(rank % 4));
  }
}

// Two stages a machine, of which each side has half: the second boundary leaves the machine, for
// activations and for gradients alike, and crossings do not.
TEST(DecoupledStep, StagesShareMachinesOneWay) {
  const auto spec_of = [](const std::string& node) {
    return sim::price_decoupled(job_of("feed: activations", node)).spec;
  };
  const auto plain = spec_of(""), slow = spec_of(", nic_bandwidth: 1 GB/s");
  ASSERT_EQ(plain.stages.size(), 4u);
  for (const std::size_t stage : {0u, 1u, 2u}) {
    const bool leaves = stage == 1;
    const auto& before = plain.stages[stage];
    const auto& after = slow.stages[stage];
    EXPECT_EQ(after.send_activation > before.send_activation, leaves) << stage;
    EXPECT_EQ(slow.stages[stage + 1].send_gradient > plain.stages[stage + 1].send_gradient, leaves)
        << stage;
    EXPECT_EQ(after.feed, before.feed) << stage;
  }
}

std::string refusal_of(const model::Job& job) {
  const auto answer = sim::simulate(job, {.sensitivities = false});
  const auto* refusal = std::get_if<PlanRefusal>(&answer);
  return refusal == nullptr ? "" : refusal->code + ": " + refusal->reasons.front();
}

TEST(DecoupledStep, TooManyTasksAndTooLongStepsAreRefused) {
  const std::string many = refusal_of(job_of("feed: stage-input", "", 100'000'000));
  EXPECT_NE(many.find("illegal_plan: plan.global_batch 100000000 makes 1200000000 tasks a step"),
            std::string::npos)
      << many;
  const std::string slow = refusal_of(job_of("feed: stage-input", ", nic_bandwidth: 1e-30 GB/s"));
  EXPECT_NE(slow.find("endless_step: a step would take over 3 years"), std::string::npos) << slow;
}

}  // namespace
}  // namespace megatwin::tests
