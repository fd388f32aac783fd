#include "sim/pipeline_simulation.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "model/assert.h"
#include "model/program/program_builder.h"
#include "sim/dataflow.h"
#include "sim/event_engine.h"
#include "sim/step_analysis.h"

namespace megatwin::sim {
namespace {

using model::ProgramSpec;
using model::StageCost;

std::shared_ptr<const CompiledPipeline> compiled_for(const ProgramSpec& spec,
                                                     const SimulationOptions& options) {
  if (options.cache != nullptr) {
    return options.cache->get(spec);
  }
  return std::make_shared<const CompiledPipeline>(compile_pipeline(spec));
}

// What is simulated: the costs of the classes, and how many replicas each stands for.
struct World {
  PipelineCosts costs;
  std::vector<int> multiplicities;
};

PipelineResult simulate_dataflow(const ProgramSpec& spec, const World& world,
                                 const SimulationOptions& options) {
  MEGATWIN_ASSERT(!options.policy && !options.log && options.links.empty(),
                  "only the event engine runs Executors and knows disturbances");
  const auto compiled = compiled_for(spec, options);
  DataflowEvaluator evaluator;
  evaluator.makespan(*compiled, world.costs);
  std::vector<const policies::Order*> orders;
  for (std::size_t unit = 0; unit < world.costs.num_units(); ++unit) {
    orders.push_back(&compiled->orders[unit % compiled->orders.size()]);
  }
  return analyse_step({.costs = world.costs,
                       .rows = compiled->rows,
                       .times = evaluator.times(),
                       .orders = orders,
                       .multiplicities = world.multiplicities,
                       .timeline = options.timeline});
}

PipelineResult simulate_events(const ProgramSpec& spec, const World& world,
                               const SimulationOptions& options) {
  const std::vector<model::Program> programs = build_programs(spec);
  std::vector<policies::Order> static_orders;
  if (!options.policy) {
    static_orders = policies::schedule_orders(spec);
  }
  EventRun run = run_events({.costs = world.costs,
                             .programs = programs,
                             .orders = static_orders,
                             .policy = options.policy,
                             .executor = options.executor,
                             .memory_limits = options.memory_limits,
                             .links = options.links,
                             .log = options.log});
  if (!run.stalled.empty()) {
    PipelineResult result{.shape = world.costs.shape};
    result.logs = std::move(run.logs);
    result.stalled = std::move(run.stalled);
    return result;
  }
  std::vector<const policies::Order*> orders;
  for (const auto& order : run.executed) {
    orders.push_back(&order);
  }
  PipelineResult result = analyse_step({.costs = world.costs,
                                        .rows = TaskRows(world.costs.shape),
                                        .times = run.times,
                                        .orders = orders,
                                        .multiplicities = world.multiplicities,
                                        .timeline = options.timeline});
  MEGATWIN_ASSERT(options.executor.receive_slots > 0 || run.events == result.events, run.events,
                  " events, ", result.events, " spans");
  result.events = run.events;
  result.logs = std::move(run.logs);
  return result;
}

PipelineResult simulate(const ProgramSpec& spec, const World& world, Engine engine,
                        const SimulationOptions& options) {
  switch (engine) {
    case Engine::Dataflow:
      return simulate_dataflow(spec, world, options);
    case Engine::Events:
      return simulate_events(spec, world, options);
  }
  MEGATWIN_ASSERT(false, "unknown engine");
}

using ReplicaStages = std::vector<const StageCost*>;

bool same_costs(const ReplicaStages& a, const ReplicaStages& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const StageCost* x, const StageCost* y) { return x == y || *x == *y; });
}

}  // namespace

PipelineResult simulate_pipeline(const ProgramSpec& spec, Engine engine,
                                 const SimulationOptions& options) {
  return simulate(spec, {pipeline_costs(spec), {1}}, engine, options);
}

PipelineResult simulate_replicas(const ProgramSpec& spec, const Replicas& replicas, Engine engine,
                                 const SimulationOptions& options) {
  MEGATWIN_ASSERT(replicas.count >= 1, replicas.count);
  ReplicaStages plain;
  for (const StageCost& stage : spec.stages) {
    plain.push_back(&stage);
  }
  std::vector<ReplicaStages> all(static_cast<std::size_t>(replicas.count), plain);
  for (const Replicas::Difference& difference : replicas.differences) {
    const auto replica = static_cast<std::size_t>(difference.replica);
    MEGATWIN_ASSERT(replica < all.size(), difference.replica);
    all[replica][static_cast<std::size_t>(difference.stage.value)] = &difference.cost;
  }
  std::vector<ReplicaStages> classes;
  std::vector<int> multiplicities;
  for (const ReplicaStages& stages : all) {
    const auto same =
        replicas.fold ? std::find_if(classes.begin(), classes.end(),
                                     [&](const auto& other) { return same_costs(stages, other); })
                      : classes.end();
    if (same != classes.end()) {
      ++multiplicities[static_cast<std::size_t>(same - classes.begin())];
      continue;
    }
    classes.push_back(stages);
    multiplicities.push_back(1);
  }
  return simulate(spec, {pipeline_costs(spec, classes), multiplicities}, engine, options);
}

}  // namespace megatwin::sim
