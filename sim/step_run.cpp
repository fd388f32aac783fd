#include "sim/step_run.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "model/assert.h"
#include "model/numbers.h"
#include "model/program/program_builder.h"
#include "policies/equal_memory.h"
#include "policies/policy_choice.h"
#include "policies/user_policy.h"
#include "sim/delayed_program.h"
#include "sim/disturbed_job.h"
#include "sim/flapping.h"
#include "sim/job_network.h"
#include "sim/memory_report.h"
#include "sim/mixed/mixed_report.h"
#include "sim/network_step.h"
#include "sim/step_limit.h"

namespace megatwin::sim {
namespace {

using model::Instant;
using model::Job;
using model::JobProgram;
using model::PricedChunk;
using model::Seconds;

// What flows find on the graph must not be in the closed forms as well.
Job without_fabric_guesses(Job job) {
  if (job.network == model::NetworkKind::Analytic) return job;
  job.cluster.fabric.oversubscription = 1;
  job.cluster.fabric.spine_efficiency = 1;
  return job;
}

// The slowest member of each unit: a tensor- or context-parallel group waits for it.
std::vector<double> unit_factors(const Job& job, Instant now) {
  const model::Plan& plan = job.plan;
  const auto num_units = model::as_index(std::int64_t{plan.data} * plan.pipeline);
  if (job.disturbances.empty()) return std::vector<double>(num_units, 1.0);
  std::vector<double> units(num_units, 0.0);
  const std::vector<double> factors = compute_factors(job, now);
  const model::RankLayout layout(plan);
  for (int r = 0; r < plan.gpus(); ++r) {
    const model::RankCoordinates at = layout.coordinates({r});
    double& unit = units[model::as_index(std::int64_t{at.data} * plan.pipeline + at.pipeline)];
    unit = std::max(unit, factors[static_cast<std::size_t>(r)]);
  }
  return units;
}

std::vector<StepRun::Stretch> stretches_of(const Job& job) {
  std::vector<StepRun::Stretch> stretches;
  for (const Instant from : stretch_starts(job)) {
    stretches.push_back({from, unit_factors(job, from)});
  }
  return stretches;
}

std::vector<Replicas::Difference> differences(const JobProgram& program,
                                              const std::vector<double>& unit_factor) {
  std::vector<Replicas::Difference> list;
  const int p = program.spec.pipeline;
  for (std::size_t unit = 0; unit < unit_factor.size(); ++unit) {
    if (unit_factor[unit] == 1) continue;
    const int stage = static_cast<int>(unit) % p;
    list.push_back(
        {.replica = static_cast<int>(unit) / p,
         .stage = {stage},
         .cost = slowed(program.spec.stages[static_cast<std::size_t>(stage)],
                        program.stages[static_cast<std::size_t>(stage)], unit_factor[unit])});
  }
  return list;
}

// Stretches in which nothing else is slow than before are none.
Replicas disturbed_replicas(const StepRun& run, int count) {
  const JobProgram& program = run.programs.front();
  Replicas replicas{.count = count};
  for (std::size_t k = 0; k < run.stretches.size(); ++k) {
    const std::vector<double>& factors = run.stretches[k].unit_factor;
    if (k == 0) {
      replicas.differences = differences(program, factors);
    } else if (factors != run.stretches[k - 1].unit_factor) {
      replicas.later.push_back({run.stretches[k].from, differences(program, factors)});
    }
  }
  return replicas;
}

// The class of replicas and its stage that work longest.
struct CriticalRank {
  std::size_t replica_class = 0, stage = 0;
};
CriticalRank critical_rank(const std::vector<JobProgram>& programs) {
  CriticalRank worst;
  Seconds longest;
  for (std::size_t k = 0; k < programs.size(); ++k) {
    for (std::size_t i = 0; i < programs[k].stages.size(); ++i) {
      Seconds busy;
      for (const PricedChunk& chunk : programs[k].stages[i].chunks) {
        busy += chunk.forward.duration + chunk.backward.duration + chunk.sharded_forward +
                chunk.sharded_backward;
      }
      busy = static_cast<double>(programs[k].spec.micro_batches) * busy;
      if (busy > longest) {
        longest = busy;
        worst = {k, i};
      }
    }
  }
  return worst;
}

SimulationOptions simulation_options(const Job& job, const std::vector<JobProgram>& programs,
                                     const StepRunOptions& options) {
  SimulationOptions simulation{.timeline = options.timeline, .cache = options.cache};
  simulation.executor = policies::executor_options_of(job.plan);
  if (!model::is_dynamic(job.plan.schedule)) return simulation;
  simulation.memory_limits = task_memory_limits(job, programs);
  simulation.policy = options.policy;
  if (simulation.policy) return simulation;
  std::vector<model::Program> ranks;
  for (const JobProgram& program : programs) {
    for (model::Program& rank : model::build_programs(program.spec)) {
      ranks.push_back(std::move(rank));
    }
  }
  simulation.policy =
      policies::policy_of(job.plan, policies::equal_memory_of(ranks, simulation.memory_limits));
  return simulation;
}

// Ranks that stopped for good: a fixed order sends in another order than its receivers take, or a
// policy waits for nothing.
model::Diagnostic stopped(const Job& job, const std::string& who) {
  return {.key = kReceiveSlotsKey,
          .message = "policy.receive_slots " + std::to_string(job.plan.receive_slots) +
                     ": the ranks wait for each other, " + who,
          .allowed = "more slots, or 0 for no limit"};
}

// How often a step is laid out with more outages than before.
constexpr int kFlapRounds = 4;

std::size_t reported_unit(const Job& job, const StepRun& run) {
  const std::vector<RankResult>& ranks = run.result.ranks;
  const std::size_t p = run.programs.front().stages.size();
  if (has_sound_cluster(job)) {
    const CriticalRank critical = critical_rank(run.programs);
    const bool alike = run.programs.size() == 1;
    return (alike ? static_cast<std::size_t>(run.result.critical_rank) / p
                  : critical.replica_class) *
               p +
           critical.stage;
  }
  const auto longest = std::max_element(
      ranks.begin(), ranks.end(),
      [](const RankResult& a, const RankResult& b) { return a.compute < b.compute; });
  return static_cast<std::size_t>(longest - ranks.begin());
}

// `job` with the closed forms that its program was priced by; the graph is that of `placed`. The
// program becomes that of the replica whose rank is reported.
model::Result<bool> run_on_network(const Job& placed, const Job& job, const StepRunOptions& options,
                                   StepRun& run) {
  const JobProgram plain = run.programs.front();
  std::vector<bool> counted;
  const auto input_of = [&](const Job& with, const Job& closed) {
    return NetworkStepInput{.named = placed,
                            .placed = with,
                            .priced = closed,
                            .program = plain,
                            .effects = options.effects,
                            .stretches = run.stretches,
                            .counted = counted,
                            .slowest = run.slowest()};
  };
  Job phased_closed = job;
  MEGATWIN_TRY(NetworkStep step, network_step(input_of(placed, job), options));
  counted = counted_flaps(placed, step.result.makespan);
  Job phased = placed;
  if (std::find(counted.begin(), counted.end(), true) != counted.end()) {
    // Outages that fall badly may make the step longer than those that were laid out.
    for (int round = 0; round < kFlapRounds; ++round) {
      PhasedJob flaps = with_flaps(placed, counted, step.result.makespan);
      phased = std::move(flaps.job);
      phased_closed.disturbances = phased.disturbances;
      run.stretches = stretches_of(phased_closed);
      MEGATWIN_TRY(step, network_step(input_of(phased, phased_closed), options));
      if (step.result.makespan <= flaps.until) break;
    }
  }
  run.flaps = counted;
  const NetworkStepInput input = input_of(phased, phased_closed);
  run.result = std::move(step.result);
  run.links = std::move(step.links);
  run.flows = step.flows;
  run.closed_form = step.closed_form;
  run.sends_over = std::move(step.sends_over);
  run.notes = std::move(step.notes);
  const auto p = static_cast<std::size_t>(job.plan.pipeline);
  const auto replica = static_cast<int>(reported_unit(placed, run) / p);
  run.programs.front() = program_of_replica(input, step, replica);
  run.unit = reported_unit(placed, run);
  return true;
}

}  // namespace

model::Diagnostics unsupported(const Job& job) {
  if (!ranks_differ(job)) return {};
  const std::string where =
      "stages or replicas differ (several kinds of machines, plan.tensor_per_stage or "
      "plan.micro_batches_per_replica)";
  model::Diagnostics faults;
  if (job.network != model::NetworkKind::Analytic) {
    faults.push_back({.key = "network",
                      .message = "network " + std::string(model::name_of(job.network)) +
                                 " lays out replicas and stages that are alike; here " + where,
                      .allowed = "network analytic"});
  }
  if (!job.disturbances.empty()) {
    faults.push_back({.key = "disturbances",
                      .message = "disturbances strike a job of equal replicas; here " + where,
                      .allowed = "no disturbances"});
  }
  return faults;
}

model::Result<StepRun> run_step(const Job& job, const StepRunOptions& options) {
  if (model::Diagnostics faults = unsupported(job); !faults.empty()) {
    return model::fail(std::move(faults));
  }
  if (model::Diagnostics faults = missing_gpus(job); !faults.empty()) {
    return model::fail(std::move(faults));
  }
  const Job priced = with_imbalance(without_fabric_guesses(job));
  StepRun run{.programs = build_job_programs(priced, options.effects)};
  if (!ranks_differ(job)) run.stretches = stretches_of(priced);
  for (const JobProgram& program : run.programs) {
    if (auto fault = endless_step(program, run.slowest())) return model::fail(*std::move(fault));
  }
  if (needs_network(job)) {
    MEGATWIN_ASSERT(!model::is_dynamic(job.plan.schedule), "flows need orders known beforehand");
    MEGATWIN_ASSERT(job.network == network_of(job), "closed forms share no link");
    MEGATWIN_TRY([[maybe_unused]] const bool done, run_on_network(job, priced, options, run));
    return run;
  }
  const SimulationOptions simulation = simulation_options(job, run.programs, options);
  const Replicas replicas = disturbed_replicas(run, job.plan.data);
  run.engine = replicas.later.empty() ? options.engine : Engine::Events;
  if (replicas.differences.empty() && replicas.later.empty()) {
    run.result = simulate_classes(classes_of(run.programs), run.engine, simulation);
  } else {
    run.result = simulate_replicas(run.programs.front().spec, replicas, run.engine, simulation);
  }
  if (!run.result.stalled.empty()) {
    if (job.plan.receive_slots > 0) return model::fail(stopped(job, run.result.stalled.front()));
    throw policies::UserPolicyError("the step never ends: " + run.result.stalled.front());
  }
  run.unit = reported_unit(job, run);
  return run;
}

}  // namespace megatwin::sim
