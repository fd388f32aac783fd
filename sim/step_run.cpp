#include "sim/step_run.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "model/assert.h"
#include "model/numbers.h"
#include "model/program/data_parallel.h"
#include "model/program/lowering.h"
#include "model/program/program_builder.h"
#include "policies/equal_memory.h"
#include "policies/policy_choice.h"
#include "policies/user_policy.h"
#include "sim/dataflow.h"
#include "sim/flow/flow_net.h"
#include "sim/group_contention.h"
#include "sim/memory_report.h"
#include "sim/mixed/mixed_report.h"
#include "sim/step_analysis.h"
#include "sim/step_flows.h"
#include "sim/step_limit.h"
#include "sim/stretch_prices.h"
#include "sim/task_traffic.h"

namespace megatwin::sim {
namespace {

using model::ChunkCost;
using model::Instant;
using model::Job;
using model::JobProgram;
using model::PricedChunk;
using model::PricedStage;
using model::Seconds;
using model::StageCost;
using model::TaskPrice;

void add(Instant& instant, Seconds more) { instant.ns += model::round_to_instant(more).ns; }

std::unique_ptr<FlowNet> flow_net(model::NetworkKind kind) {
  switch (kind) {
    case model::NetworkKind::Analytic:
      return make_analytic_net();
    case model::NetworkKind::MaxMin:
      return make_max_min_net();
    case model::NetworkKind::Simgrid:
      return make_simgrid_net();
  }
  return make_analytic_net();
}

// What flows find on the graph must not be in the closed forms as well.
Job without_fabric_guesses(Job job) {
  if (job.network == model::NetworkKind::Analytic) return job;
  job.cluster.fabric.oversubscription = 1;
  job.cluster.fabric.spine_efficiency = 1;
  return job;
}

Job with_imbalance(Job job) {
  for (const model::Disturbance& d : job.disturbances) {
    if (d.kind == model::DisturbanceKind::ExpertImbalance) {
      job.plan.expert_capacity_imbalance *= d.factor;
    }
  }
  return job;
}

// Traffic inside a task that nothing hides grows with its factor. What hides goes on hiding.
Seconds delay_of(TaskPrice& price, double tensor, double context, double expert) {
  const Seconds more = (tensor - 1) * price.exposed_tp + (context - 1) * price.exposed_cp +
                       (expert - 1) * price.exposed_ep;
  price.exposed_tp = tensor * price.exposed_tp;
  price.exposed_cp = context * price.exposed_cp;
  price.exposed_ep = expert * price.exposed_ep;
  price.duration += more;
  return more;
}

void delay_data_parallel(const Job& job, double factor, PricedChunk& chunk, ChunkCost& cost) {
  if (factor == 1) return;
  chunk.gather = factor * chunk.gather;
  chunk.reduce = factor * chunk.reduce;
  if (job.plan.zero_stage >= 2) {
    // Inside the tasks, layer by layer: the part that waits grows.
    const Seconds forward = (factor - 1) * chunk.sharded_forward;
    const Seconds backward = (factor - 1) * chunk.sharded_backward;
    chunk.sharded_forward += forward;
    chunk.sharded_backward += backward;
    add(cost.forward, forward);
    add(cost.backward, backward);
    add(cost.backward_input, backward);
  }
  const auto exposed = [&](Seconds traffic, const TaskPrice& task, bool overlapped) {
    return model::exposed_part({.traffic = traffic,
                                .compute = task.duration,
                                .layers = static_cast<double>(std::max(1, chunk.content.layers())),
                                .slowdown = job.profile.communication_sm_slowdown,
                                .overlapped = overlapped});
  };
  if (chunk.reduce_exposed.value > 0) {
    chunk.reduce_exposed = exposed(chunk.reduce, chunk.backward,
                                   job.plan.overlap_grad_reduce && job.plan.zero_stage < 3);
  }
  if (chunk.gather_exposed.value > 0) {
    chunk.gather_exposed = exposed(chunk.gather, chunk.forward,
                                   job.plan.overlap_param_gather && job.plan.zero_stage < 3);
  }
  cost.gradient_reduce = model::round_to_instant(chunk.reduce_exposed);
  cost.parameter_gather = model::round_to_instant(chunk.gather_exposed);
}

void delay_program(const Job& job, const GroupContention& contention, JobProgram& program) {
  for (std::size_t s = 0; s < program.stages.size(); ++s) {
    for (std::size_t c = 0; c < program.stages[s].chunks.size(); ++c) {
      PricedChunk& chunk = program.stages[s].chunks[c];
      ChunkCost& cost = program.spec.stages[s].chunks[c];
      const auto delayed = [&](TaskPrice& price) {
        return delay_of(price, contention.tensor[s], contention.context[s], contention.expert[s]);
      };
      add(cost.forward, delayed(chunk.forward));
      const Seconds backward = delayed(chunk.backward);
      add(cost.backward, backward);
      add(cost.backward_input, backward);
      delay_data_parallel(job, contention.data[s], chunk, cost);
    }
  }
}

// Kernels take `factor` times as long; collectives and the host do not.
StageCost slowed(const StageCost& plain, const PricedStage& stage, double factor) {
  StageCost cost = plain;
  const double more = factor - 1;
  for (std::size_t c = 0; c < cost.chunks.size(); ++c) {
    const PricedChunk& priced = stage.chunks[c];
    ChunkCost& chunk = cost.chunks[c];
    const auto kernels = [](const TaskPrice& price) { return price.compute() - price.host_bound; };
    const Seconds backward = kernels(priced.backward);
    add(chunk.forward, more * kernels(priced.forward));
    // A split backward's parts share its kernels; the weight part is kernels only.
    const Seconds weight = std::min(model::to_seconds(plain.chunks[c].backward_weight), backward);
    add(chunk.backward, more * backward);
    add(chunk.backward_weight, more * weight);
    add(chunk.backward_input, more * (backward - weight));
  }
  add(cost.optimizer, more * stage.optimizer);
  return cost;
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

std::shared_ptr<const CompiledPipeline> compiled_for(const model::ProgramSpec& spec,
                                                     PipelineCache* cache) {
  if (cache != nullptr) return cache->get(spec);
  return std::make_shared<const CompiledPipeline>(compile_pipeline(spec));
}

// How many times as long as it should the slowest GPU takes.
double slowest_of(const StepRun& run) {
  double slowest = 1;
  for (const StepRun::Stretch& stretch : run.stretches) {
    for (const double factor : stretch.unit_factor) slowest = std::max(slowest, factor);
  }
  return slowest;
}

// By disturbance: whether anybody of the job sends over the cable that it names, either way.
std::vector<bool> sends_over(const Job& job, const model::Topology& topology,
                             const std::vector<bool>& used) {
  std::vector<bool> sends;
  for (const model::Disturbance& d : job.disturbances) {
    const auto uses = [&](const std::string& from, const std::string& to) {
      const model::LinkId link = topology.find_link(from, to);
      return link.value >= 0 && used[static_cast<std::size_t>(link.value)];
    };
    sends.push_back(uses(d.at, d.to) || uses(d.to, d.at));
  }
  return sends;
}

// The step as it would be if all of it were as in one stretch; delays `program` by what its network
// does to it.
model::Result<StepStretch> priced_stretch(const Job& job, const StepRun::Stretch& stretch,
                                          const GroupContention& contention,
                                          const GroupAlgorithms& algorithms, const StepRun& run,
                                          JobProgram& program) {
  delay_program(job, contention, program);
  if (auto fault = endless_step(program, slowest_of(run))) return model::fail(*std::move(fault));
  const model::ProgramSpec& spec = program.spec;
  const std::vector<Replicas::Difference> slow = differences(program, stretch.unit_factor);
  std::vector<ReplicaClass> classes(static_cast<std::size_t>(job.plan.data), replica_class(spec));
  for (const Replicas::Difference& unit : slow) {
    classes[static_cast<std::size_t>(unit.replica)]
        .stages[static_cast<std::size_t>(unit.stage.value)] = &unit.cost;
  }
  StepStretch priced{.from = stretch.from, .costs = pipeline_costs(classes)};
  constexpr auto kData = model::GroupKind::Data;
  for (const double factor : contention.data) {
    priced.ring_rate.push_back(group_rate(job, kData, algorithms.of(kData)) / factor);
  }
  priced.traffic = task_traffic(program, priced.costs);
  priced.traffic_rates = task_traffic_rates(job, contention, priced.traffic, algorithms);
  return priced;
}

// A link that is too small for groups, as their closed forms have it in the stretch from `from` on.
struct GroupLink {
  Instant from;
  LinkLoad load;
};

// The worst stretch of the step has the word. A link that flows met too stands as they did where
// that is a part of the step: they are held against durations that have the slowdown of groups in
// them already. One that is short only when the step is over slows nobody.
std::vector<LinkLoad> with_group_links(std::vector<LinkLoad> links, std::vector<GroupLink> groups,
                                       Instant makespan) {
  constexpr double kPartOfStep = 0.01;
  for (GroupLink& group : groups) {
    if (group.from > Instant{} && group.from >= makespan) continue;
    LinkLoad& load = group.load;
    const auto listed = std::find_if(links.begin(), links.end(),
                                     [&](const LinkLoad& l) { return l.link == load.link; });
    if (listed == links.end()) {
      links.push_back(std::move(load));
    } else if (listed->of_one_collective
                   ? load.slowdown > listed->slowdown
                   : listed->delay < kPartOfStep * model::to_seconds(makespan)) {
      *listed = std::move(load);
    }
  }
  return links;
}

// `job` with the closed forms that its program was priced by; the graph is that of `placed`.
model::Result<bool> run_on_network(const Job& placed, const Job& job, const StepRunOptions& options,
                                   StepRun& run) {
  MEGATWIN_TRY(ChangingNetwork network, ChangingNetwork::build(placed));
  const std::unique_ptr<FlowNet> net = flow_net(job.network);
  const GroupAlgorithms algorithms(job, run.programs.front());
  const JobProgram plain = network.size() > 1 ? run.programs.front() : JobProgram{};
  std::vector<StepStretch> stretches;
  std::vector<StretchPrices> prices;
  std::vector<GroupLink> group_links;
  std::vector<bool> used(static_cast<std::size_t>(network.at(0).topology().num_links()));
  GroupContention contention;
  for (std::size_t k = 0; k < network.size(); ++k) {
    if (!network.same_as_before(k)) {
      MEGATWIN_TRY(contention, group_contention(job, network.at(k), *net, algorithms));
      const Instant from = run.stretches[k].from;
      for (LinkLoad& load : contention.links) group_links.push_back({from, std::move(load)});
      for (std::size_t i = 0; i < used.size(); ++i) used[i] = used[i] || contention.used[i];
    }
    StretchPrices later{.from = run.stretches[k].from, .program = k == 0 ? JobProgram{} : plain};
    JobProgram& program = k == 0 ? run.programs.front() : later.program;
    MEGATWIN_TRY(StepStretch stretch,
                 priced_stretch(job, run.stretches[k], contention, algorithms, run, program));
    stretches.push_back(std::move(stretch));
    if (network.size() == 1) continue;
    if (k == 0) later.program = program;
    prices.push_back(std::move(later));
  }
  const model::ProgramSpec& spec = run.programs.front().spec;
  const PipelineCosts costs = stretches.front().costs;
  const auto compiled = compiled_for(spec, options.cache);
  const model::LoweringInput lowering = model::lowering_input(job);
  StepFlowsInput input{.job = job,
                       .compiled = *compiled,
                       .stretches = std::move(stretches),
                       .message = model::pipeline_message(lowering),
                       .algorithms = algorithms};
  MEGATWIN_TRY(StepFlows flows, run_step_flows(input, network, *net));
  if (auto fault = endless_traffic(flows.costs)) return model::fail(*std::move(fault));
  DataflowEvaluator evaluator;
  const Instant makespan{evaluator.makespan(*compiled, flows.costs)};
  if (const Instant last = run.stretches.back().from; last > Instant{} && last >= makespan) {
    // What comes after the step has no part in it.
    input.sized_until = makespan;
    MEGATWIN_TRY(flows, run_step_flows(input, network, *net));
    if (auto fault = endless_traffic(flows.costs)) return model::fail(*std::move(fault));
    evaluator.makespan(*compiled, flows.costs);
  }
  std::vector<const policies::Order*> orders;
  for (std::size_t unit = 0; unit < costs.num_units(); ++unit) {
    orders.push_back(&compiled->orders[unit % compiled->orders.size()]);
  }
  run.result =
      analyse_step({.costs = flows.costs,
                    .rows = {&compiled->rows},
                    .times = evaluator.times(),
                    .orders = orders,
                    .multiplicities = std::vector<int>(static_cast<std::size_t>(job.plan.data), 1),
                    .timeline = options.timeline});
  if (!prices.empty()) {
    run.programs.front() = mean_prices(prices, run.result.makespan);
  }
  run.links = with_group_links(std::move(flows.links), std::move(group_links), run.result.makespan);
  for (std::size_t i = 0; i < used.size(); ++i) used[i] = used[i] || flows.used[i];
  run.sends_over = sends_over(placed, network.at(0).topology(), used);
  run.flows = flows.flows;
  run.closed_form = flows.closed_form;
  return true;
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
  simulation.executor.receive_slots = job.plan.pipeline > 1 ? job.plan.receive_slots : 0;
  if (!model::is_dynamic(job.plan.schedule)) return simulation;
  simulation.executor.issue_depth = job.plan.issue_depth;
  simulation.memory_limits = task_memory_limits(job, programs);
  simulation.policy = options.policy;
  if (simulation.policy) return simulation;
  policies::EqualMemory memory;
  if (job.plan.receive_slots > 0) {
    std::vector<model::Program> ranks;
    for (const JobProgram& program : programs) {
      for (model::Program& rank : model::build_programs(program.spec)) {
        ranks.push_back(std::move(rank));
      }
    }
    memory = policies::equal_memory_of(ranks, simulation.memory_limits);
  }
  simulation.policy = policies::policy_of(job.plan, memory);
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

// Adds which disturbances took ways away to the fault that there is none.
model::Diagnostics with_cuts(const Job& job, model::Diagnostics faults) {
  std::string cuts;
  for (const model::Disturbance& d : job.disturbances) {
    if (d.kind != model::DisturbanceKind::DeadNic) continue;
    cuts += (cuts.empty() ? "" : ", ") + to_text(d);
  }
  if (cuts.empty()) return faults;
  for (model::Diagnostic& fault : faults) {
    if (fault.message.starts_with("no route")) fault.message += "; disturbances: " + cuts;
  }
  return faults;
}

std::size_t reported_unit(const Job& job, const StepRun& run) {
  const std::vector<RankResult>& ranks = run.result.ranks;
  const std::size_t p = run.programs.front().stages.size();
  if (job.disturbances.empty()) {
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
  const Job priced = with_imbalance(without_fabric_guesses(job));
  StepRun run{.programs = build_job_programs(priced, options.effects)};
  if (!ranks_differ(job)) run.stretches = stretches_of(priced);
  for (const JobProgram& program : run.programs) {
    if (auto fault = endless_step(program, slowest_of(run))) return model::fail(*std::move(fault));
  }
  if (needs_network(job)) {
    MEGATWIN_ASSERT(!model::is_dynamic(job.plan.schedule), "flows need orders known beforehand");
    MEGATWIN_ASSERT(job.network == network_of(job), "closed forms share no link");
    if (auto done = run_on_network(job, priced, options, run); !done) {
      return model::fail(with_cuts(job, std::move(done.error())));
    }
    run.unit = reported_unit(job, run);
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
