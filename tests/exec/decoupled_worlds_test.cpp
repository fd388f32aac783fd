// The same scenario of a decoupled pipeline gives the simulator and the host world the same
// programs and orders, how far forwards run ahead and which weight gradients forward ranks work out
// when included.
#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "exec/host_job.h"
#include "model/program/program_builder.h"
#include "policies/schedule.h"
#include "sim/decoupled/decoupled_job.h"
#include "sim/decoupled/decoupled_program.h"
#include "tests/sim/pipeline_specs.h"
#include "tests/sim/seeds.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::exec {
namespace {

using model::Message;
using model::Program;
using tests::Random;

auto ends_of(const std::vector<Message>& messages) {
  std::vector<std::tuple<model::StageId, model::TaskId, int, int>> ends;
  ends.reserve(messages.size());
  for (const Message& message : messages) {
    ends.emplace_back(message.stage, message.task, message.channel, message.instance);
  }
  return ends;
}

// But for bytes, of which each world has its own.
void expect_equal(const Program& a, const Program& b) {
  EXPECT_EQ(a.stage, b.stage);
  EXPECT_TRUE(a.shape == b.shape);
  EXPECT_EQ(a.overlap_p2p, b.overlap_p2p);
  EXPECT_EQ(a.overlap_grad_reduce, b.overlap_grad_reduce);
  EXPECT_EQ(a.overlap_param_gather, b.overlap_param_gather);
  EXPECT_EQ(a.tasks, b.tasks);
  EXPECT_EQ(a.successor_begin, b.successor_begin);
  EXPECT_EQ(a.successors, b.successors);
  EXPECT_EQ(a.num_waits, b.num_waits);
  EXPECT_EQ(ends_of(a.sends), ends_of(b.sends));
  EXPECT_EQ(ends_of(a.receives), ends_of(b.receives));
  EXPECT_EQ(ends_of(a.crossings), ends_of(b.crossings));
  EXPECT_EQ(ends_of(a.rooms), ends_of(b.rooms));
  EXPECT_EQ(ends_of(a.awaited_crossings), ends_of(b.awaited_crossings));
}

// Eight-billion-parameter Llama, whose activations of long sequences fill a GPU.
std::string random_scenario(Random& random) {
  const auto any = [&](std::int64_t most) { return random.in(1, most); };
  const std::int64_t p = std::int64_t{2} << random.in(0, 1);
  const std::int64_t t = std::int64_t{1} << random.in(1, 2);
  const std::int64_t d = any(2), a = any(3), b = any(3);
  // Of the sides; that of the plan is used by neither then.
  const std::int64_t of_forward = std::int64_t{1} << random.in(0, 3);
  const std::int64_t of_backward = std::int64_t{1} << random.in(1, 3);
  const std::int64_t micro_batch = std::int64_t{1} << random.in(0, 2);
  const std::int64_t m = random.in(3, 24);
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  const char* overlap = random.coin() ? "true" : "false";
  return "model: {name: llama-3-8b, sequence_length: 8192}\n"
         "cluster: {nodes: [{gpu: H100-SXM5-80GB, gpus: " +
         text(p * d * (a * of_forward + b * of_backward)) +
         ", count: 1}]}\nplan: {tensor: " + text(t) + ", pipeline: " + text(p) +
         ", data: " + text(d) + ", micro_batch: " + text(micro_batch) +
         ", global_batch: " + text(m * micro_batch * d) +
         ", recompute: none, overlap_grad_reduce: " + overlap +
         "}\npolicy: {schedule: fbd, feed: " + (random.coin() ? "stage-input" : "activations") +
         ", forward: {tensor: " + text(of_forward) + ", instances: " + text(a) +
         "}, backward: {tensor: " + text(of_backward) + ", instances: " + text(b) + "}" +
         (random.coin()
              ? ", weight_gradients_on_forward: " + std::string(random.coin() ? "auto" : "0.4")
              : std::string()) +
         "}\n";
}

TEST(DecoupledWorlds, GetTheSameProgramsOfTheSameScenario) {
  int bounded = 0, free = 0, with_weights_left = 0;
  for (const std::uint64_t seed : tests::seeds(60)) {
    SCOPED_TRACE(tests::rerun_line("exec_decision_test", seed));
    Random random(seed);
    const std::string scenario = random_scenario(random);
    const model::Job job = tests::job_from(scenario);
    ASSERT_TRUE(sim::decoupled_problems(job).empty())
        << scenario << sim::decoupled_problems(job).front();
    const auto simulated = sim::sides_of(sim::price_decoupled(job).spec);

    HostJob host;
    host.transformer = job.transformer;
    host.plan = job.plan;
    host.decided = sim::decided_sides(job);
    ASSERT_TRUE(host_problems(host.transformer, host.plan).empty())
        << host_problems(host.transformer, host.plan).front();
    const auto trained = host_program_specs(host);

    const auto programs = build_programs(simulated), other_programs = build_programs(trained);
    ASSERT_EQ(programs.size(), other_programs.size());
    for (std::size_t role = 0; role < programs.size(); ++role) {
      expect_equal(programs[role], other_programs[role]);
    }
    EXPECT_EQ(policies::schedule_orders(simulated), policies::schedule_orders(trained));
    ASSERT_FALSE(HasFailure()) << scenario;
    (simulated.front().crossing(0).fed_max > 0 ? bounded : free) += 1;
    with_weights_left += simulated.front().weight_share > 0 ? 1 : 0;
  }
  if (std::getenv("MEGATWIN_SEED") == nullptr) {
    EXPECT_GT(bounded, 5);
    EXPECT_GT(free, 5);
    EXPECT_GT(with_weights_left, 5);
  }
}

// Nobody says how much memory there is: nothing is held back, as on GPUs that have enough.
TEST(DecoupledWorlds, WithoutMachinesNothingIsBounded) {
  model::Job job = tests::job_from(
      "model: {name: llama-3-8b, sequence_length: 8192}\n"
      "cluster: {nodes: [{gpu: H100-SXM5-80GB, gpus: 8, count: 1}]}\n"
      "plan: {tensor: 2, pipeline: 2, data: 1, micro_batch: 4, global_batch: 64}\n"
      "policy: {schedule: fbd, feed: activations}\n");
  EXPECT_EQ(sim::decided_sides(job).fed_max.size(), 2u);
  job.cluster.groups.clear();
  EXPECT_TRUE(sim::decided_sides(job).fed_max.empty());
}

}  // namespace
}  // namespace megatwin::exec
