// A scenario with a bound of live activations as both worlds take it: a small Llama on one or two
// stages of two chunks, 16 micro-batches.
#ifndef MEGATWIN_TESTS_EXEC_BOUNDED_SCENARIO_H_
#define MEGATWIN_TESTS_EXEC_BOUNDED_SCENARIO_H_

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "exec/host_job.h"
#include "model/job.h"
#include "model/program/job_program.h"
#include "model/program/program_builder.h"
#include "policies/equal_memory.h"
#include "policies/policy_choice.h"
#include "sim/memory_report.h"
#include "sim/pipeline_simulation.h"
#include "sim/simulation_problems.h"
#include "sim/step_run.h"
#include "tests/exec/tiny_jobs.h"
#include "tests/sim/pipeline_specs.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {

struct BoundedPolicy {
  std::string schedule;
  int live_activations = 0;
  int receive_slots = 0;
  int pipeline = 2;
};

class BoundedScenario {
 public:
  explicit BoundedScenario(const BoundedPolicy& policy)
      : job_(job_from("model: {family: llama, num_layers: 4, hidden_size: 16, ffn_hidden_size: 24, "
                      "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 32, "
                      "sequence_length: 8}\n"
                      "cluster: {nodes: [{gpu: H100-SXM5-80GB, gpus: " +
                      std::to_string(policy.pipeline) +
                      ", count: 1}]}\n"
                      "plan: {pipeline: " +
                      std::to_string(policy.pipeline) +
                      ", model_chunks: 2, data: 1, micro_batch: 1, "
                      "global_batch: 16, zero: 0, recompute: none, overlap_p2p: true, precision: "
                      "bf16}\npolicy: {schedule: " +
                      policy.schedule + ", receive_slots: " + std::to_string(policy.receive_slots) +
                      (policy.live_activations == 0
                           ? ""
                           : ", live_activations: " + std::to_string(policy.live_activations)) +
                      "}\n")) {}

  const model::Job& job() const { return job_; }
  std::vector<std::string> problems_in_simulate() const {
    return sim::simulation_problems(job_, false);
  }

  model::ProgramSpec priced() const { return model::build_job_program(job_).spec; }
  // Of the same transformer and plan.
  model::ProgramSpec host() const {
    exec::HostJob job;
    job.transformer = job_.transformer;
    job.plan = job_.plan;
    return exec::host_program_spec(job);
  }

  // As megatwin simulate decides, with the memory of its GPUs, but for the durations: drawn from
  // the seed, 8 to 40 ms, so that the host can sleep as long.
  std::vector<policies::Order> orders_in_simulate(std::uint64_t seed) const {
    const std::vector<model::JobProgram> programs = model::build_job_programs(job_);
    sim::SimulationOptions options{.executor = policies::executor_options_of(job_.plan)};
    options.memory_limits = sim::task_memory_limits(job_, programs);
    options.policy = policies::policy_of(
        job_.plan,
        policies::equal_memory_of(build_programs(programs.front().spec), options.memory_limits));
    return orders_of(
        simulate_pipeline(timed(programs.front().spec, seed), sim::Engine::Events, options));
  }
  // The simulator's picks where memory is the host's, and without a limit in bytes.
  std::vector<policies::Order> orders_on_host_program(std::uint64_t seed) const {
    return orders_on(timed(host(), seed));
  }
  // By all of megatwin simulate, durations too; and as above with these durations.
  std::vector<policies::Order> priced_orders_in_simulate() const {
    const auto run = sim::run_step(job_, {.engine = sim::Engine::Events});
    EXPECT_TRUE(run.has_value());
    return orders_of(run->result);
  }
  std::vector<policies::Order> priced_orders_on_host_program() const {
    model::ProgramSpec spec = priced();
    const model::ProgramSpec own = host();
    for (std::size_t stage = 0; stage < spec.stages.size(); ++stage) {
      for (std::size_t chunk = 0; chunk < spec.stages[stage].chunks.size(); ++chunk) {
        model::ChunkCost& cost = spec.stages[stage].chunks[chunk];
        const model::ChunkCost& memory = own.stages[stage].chunks[chunk];
        cost.activation = memory.activation;
        cost.weight_gradient_input = memory.weight_gradient_input;
      }
    }
    return orders_on(spec);
  }

  static model::ProgramSpec timed(model::ProgramSpec spec, std::uint64_t seed) {
    constexpr std::int64_t kMs = 1'000'000;
    Random random(seed);
    spec.hops.clear();
    spec.send_activation = spec.send_gradient = model::Instant{kMs / 5};
    for (model::StageCost& stage : spec.stages) {
      for (model::ChunkCost& chunk : stage.chunks) {
        chunk.forward = {random.in(8 * kMs, 40 * kMs)};
        chunk.backward = {random.in(8 * kMs, 40 * kMs)};
      }
    }
    return spec;
  }

 private:
  // The simulator's picks without a limit in bytes.
  std::vector<policies::Order> orders_on(const model::ProgramSpec& spec) const {
    return orders_of(simulate_pipeline(spec, sim::Engine::Events,
                                       {.policy = policies::policy_of(job_.plan),
                                        .executor = policies::executor_options_of(job_.plan)}));
  }
  static std::vector<policies::Order> orders_of(const sim::PipelineResult& result) {
    EXPECT_TRUE(result.stalled.empty()) << result.stalled.front();
    std::vector<policies::Order> orders;
    for (const sim::RankResult& rank : result.ranks) orders.push_back(rank.order);
    return orders;
  }

  model::Job job_;
};

// What megatwin train would run of it, on tokens that count. Not to be moved.
struct ScenarioJob {
  explicit ScenarioJob(const BoundedScenario& scenario)
      : tokens(scenario.job().transformer, scenario.job().plan) {
    job.transformer = scenario.job().transformer;
    job.plan = scenario.job().plan;
    job.executor = policies::executor_options_of(job.plan);
    job.tokens = &tokens;
    job.steps = 2;
    job.optimizer.learning_rate = 0.01;
  }
  ScenarioJob(const ScenarioJob&) = delete;
  ScenarioJob& operator=(const ScenarioJob&) = delete;

  CountingTokens tokens;
  exec::HostJob job;
};

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_EXEC_BOUNDED_SCENARIO_H_
