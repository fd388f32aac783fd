// Decoupled runs of the host world for its tests: what training ends with, and the simulator's view
// of the same programs.
#ifndef MEGATWIN_TESTS_EXEC_DECOUPLED_RUNS_H_
#define MEGATWIN_TESTS_EXEC_DECOUPLED_RUNS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "exec/model_state.h"
#include "model/program/program_builder.h"
#include "policies/replay.h"
#include "sim/decoupled/decoupled_program.h"
#include "sim/pipeline_simulation.h"
#include "tests/exec/decision_runs.h"
#include "tests/exec/train_tiny.h"

namespace megatwin::tests {

inline constexpr model::SideFeed kFeeds[] = {model::SideFeed::StageInput,
                                             model::SideFeed::Activations};

inline model::Plan decoupled(model::Plan plan, model::SideFeed feed) {
  plan.schedule = model::ScheduleKind::Decoupled;
  plan.decoupled.ship_activations = feed == model::SideFeed::Activations;
  return plan;
}

inline model::Plan one_f_one_b(int p) {
  return pipeline(model::ScheduleKind::OneForwardOneBackward, p);
}

// What a run ends with, and how it got there.
struct Trained {
  std::vector<double> losses, norms;
  std::uint64_t weights_hash = 0;
  exec::ModelState state;
  friend bool operator==(const Trained&, const Trained&) = default;
};
inline Trained train_to_the_end(const model::Transformer& transformer, const model::Plan& plan,
                                std::int64_t batch = 8, const exec::TokenSource* tokens = nullptr) {
  TinyJob tiny(transformer, plan);
  if (tokens != nullptr) tiny.job.tokens = tokens;
  tiny.job.plan.global_batch = batch;
  tiny.job.gradient_norm_max = 0.05;
  Trained trained;
  tiny.job.on_step = [&](const exec::StepEnd& end) {
    trained.state = exec::gather_state(end.state(), exec::StatePart::WeightsAndMoments);
    return true;
  };
  const exec::HostResult result = train(tiny.job);
  trained.losses = result.losses;
  trained.norms = result.gradient_norms;
  trained.weights_hash = result.weights_hash;
  return trained;
}

inline model::Plan with_instances(model::Plan plan, int forward, int backward) {
  plan.decoupled.forward.instances = forward;
  plan.decoupled.backward.instances = backward;
  return plan;
}

// So many micro-batches leave their weight gradients to the forward side, as a random cluster would
// decide: the order that its forward ranks have where everything takes some time.
inline void leave_weights(Random& random, exec::HostJob& job) {
  const model::Plan& plan = job.plan;
  sim::DecoupledSpec spec{.stages = {},
                          .micro_batches = static_cast<int>(plan.num_micro_batches()),
                          .forward_instances = plan.decoupled.forward.instances,
                          .backward_instances = plan.decoupled.backward.instances,
                          .feed = plan.decoupled.ship_activations
                                      ? policies::DecoupledFeed::Activations
                                      : policies::DecoupledFeed::StageInput};
  const std::int64_t left = random.in(1, spec.micro_batches);
  spec.weight_share = static_cast<double>(left) / spec.micro_batches;
  for (std::size_t stage = 0; stage < static_cast<std::size_t>(plan.pipeline); ++stage) {
    spec.stages.push_back({.forward = {random.in(1, 9)},
                           .again = {random.in(1, 9)},
                           .backward = {random.in(1, 9)},
                           .backward_input = {random.in(1, 9)},
                           .weight_on_forward = {random.in(1, 9)},
                           .feed = {random.in(0, 9)},
                           .weight_input = {random.in(0, 9)},
                           .waiting_max = job.decided.fed_max[stage]});
  }
  job.decided.weight_share = spec.weight_share;
  job.decided.forward_orders = sim::forward_orders(spec);
}

// The simulator, of the same programs, runs the same tasks of each role in the same order as every
// rank that has it, forced by the picks of one or not; and every decision comes out of the log
// again.
inline void expect_both_worlds_alike(const exec::HostJob& job) {
  const exec::HostResult host = run_host(job);
  ASSERT_FALSE(host.fault) << to_text(*host.fault);
  const auto specs = exec::host_program_specs(job);
  const auto programs = build_programs(specs);
  const auto orders = policies::schedule_orders(specs);
  const sim::PipelineResult simulated =
      sim::simulate_sides(specs, {.executor = job.executor, .log = true});
  std::vector<const model::ExecutorLog*> log_of_role(programs.size(), nullptr);
  for (const exec::HostRankReport& rank : host.ranks) {
    log_of_role[static_cast<std::size_t>(rank.stage.value)] = &rank.logs.front();
  }
  for (const model::ExecutorLog* log : log_of_role) ASSERT_NE(log, nullptr);
  const auto forced = [&](const model::Program&, model::RankId rank) {
    return std::make_unique<policies::RecordedPicks>(
        log_of_role[static_cast<std::size_t>(rank.value)]->decisions);
  };
  const sim::PipelineResult obeying =
      sim::simulate_sides(specs, {.policy = forced, .executor = job.executor});
  ASSERT_TRUE(obeying.stalled.empty());
  ASSERT_EQ(simulated.ranks.size(), programs.size());
  ASSERT_EQ(std::ssize(host.ranks), exec::HostLayout(job.plan).num_ranks());
  for (const exec::HostRankReport& rank : host.ranks) {
    const auto role = static_cast<std::size_t>(rank.stage.value);
    EXPECT_EQ(simulated.ranks[role].order, rank.executed);
    EXPECT_EQ(obeying.ranks[role].order, rank.executed);
    const std::pair logs{&rank.logs.front(), &simulated.logs[role]};
    for (const model::ExecutorLog* log : {logs.first, logs.second}) {
      const policies::Replay again = policies::replay({.program = programs[role],
                                                       .source = policies::OrderSource::List,
                                                       .order = orders[role],
                                                       .options = job.executor},
                                                      log->events);
      EXPECT_EQ(again.divergence, "");
      EXPECT_EQ(again.decisions, log->decisions);
    }
    // The same events, if not in the same order.
    EXPECT_EQ(logs.first->events.size(), logs.second->events.size());
  }
}

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_EXEC_DECOUPLED_RUNS_H_
