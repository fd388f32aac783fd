#include "sim/pipeline_simulation.h"

#include <algorithm>
#include <functional>
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

// One spec of each shape, in the order of PipelineCosts::shapes.
std::vector<const ProgramSpec*> specs_of_shapes(const PipelineCosts& costs,
                                                const std::vector<ReplicaClass>& classes) {
  std::vector<const ProgramSpec*> specs(costs.shapes.size(), nullptr);
  for (std::size_t k = classes.size(); k-- > 0;) {
    specs[static_cast<std::size_t>(costs.shape_of_class[k])] = classes[k].spec;
  }
  return specs;
}

std::shared_ptr<const CompiledPipeline> compiled_for(const ProgramSpec& spec,
                                                     const SimulationOptions& options) {
  if (options.cache != nullptr) {
    return options.cache->get(spec);
  }
  return std::make_shared<const CompiledPipeline>(compile_pipeline(spec));
}

// What is simulated: the costs of the classes, a spec of each of their shapes, and how many
// replicas each class stands for.
struct World {
  explicit World(const std::vector<ReplicaClass>& classes)
      : costs(pipeline_costs(classes)), specs(specs_of_shapes(costs, classes)) {
    for (const ReplicaClass& replicas : classes) multiplicities.push_back(replicas.multiplicity);
  }
  PipelineCosts costs;
  std::vector<const ProgramSpec*> specs;
  std::vector<int> multiplicities;
};

PipelineResult simulate_dataflow(const World& world, const SimulationOptions& options) {
  MEGATWIN_ASSERT(!options.policy && !options.log && options.links.empty(),
                  "only the event engine runs Executors and knows disturbances");
  MEGATWIN_ASSERT(world.costs.changes.empty(), "only the event engine lets costs change");
  MEGATWIN_ASSERT(!world.costs.is_decoupled(), "only the event engine knows crossings");
  std::vector<std::shared_ptr<const CompiledPipeline>> kept;
  std::vector<const CompiledPipeline*> compiled;
  std::vector<const TaskRows*> rows;
  for (const ProgramSpec* spec : world.specs) {
    kept.push_back(compiled_for(*spec, options));
    compiled.push_back(kept.back().get());
    rows.push_back(&compiled.back()->rows);
  }
  DataflowEvaluator evaluator;
  evaluator.makespan(compiled, world.costs);
  std::vector<const policies::Order*> orders;
  for (const int shape : world.costs.shape_of_class) {
    for (const policies::Order& order : compiled[static_cast<std::size_t>(shape)]->orders) {
      orders.push_back(&order);
    }
  }
  return analyse_step({.costs = world.costs,
                       .rows = rows,
                       .times = evaluator.times(),
                       .orders = orders,
                       .multiplicities = world.multiplicities,
                       .timeline = options.timeline});
}

PipelineResult simulate_events(const World& world, const SimulationOptions& options) {
  std::vector<std::vector<model::Program>> programs;
  std::vector<std::vector<policies::Order>> static_orders;
  std::vector<TaskRows> tables(world.costs.shapes.begin(), world.costs.shapes.end());
  std::vector<const TaskRows*> rows;
  rows.reserve(tables.size());
  for (const TaskRows& table : tables) rows.push_back(&table);
  for (const ProgramSpec* spec : world.specs) {
    programs.push_back(build_programs(*spec));
    if (!options.policy) static_orders.push_back(policies::schedule_orders(*spec));
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
  PipelineResult result =
      analyse_step({.costs = world.costs,
                    .rows = rows,
                    .times = run.times,
                    .orders = orders,
                    .multiplicities = world.multiplicities,
                    .programs = world.costs.is_decoupled() ? &programs : nullptr,
                    .timeline = options.timeline});
  MEGATWIN_ASSERT(options.executor.receive_slots > 0 || run.events == result.events, run.events,
                  " events, ", result.events, " spans");
  result.events = run.events;
  result.logs = std::move(run.logs);
  return result;
}

using ReplicaStages = std::vector<const StageCost*>;

void differ(const std::vector<Replicas::Difference>& differences,
            const std::function<ReplicaStages&(std::size_t)>& stages_of) {
  for (const Replicas::Difference& difference : differences) {
    stages_of(static_cast<std::size_t>(
        difference.replica))[static_cast<std::size_t>(difference.stage.value)] = &difference.cost;
  }
}

bool same_costs(const ReplicaStages& a, const ReplicaStages& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const StageCost* x, const StageCost* y) { return x == y || *x == *y; });
}

bool same_costs(const ReplicaClass& a, const ReplicaClass& b) {
  return same_costs(a.stages, b.stages) &&
         std::equal(a.later.begin(), a.later.end(), b.later.begin(), b.later.end(),
                    [](const ReplicaClass::Later& x, const ReplicaClass::Later& y) {
                      return x.from == y.from && same_costs(x.stages, y.stages);
                    });
}

}  // namespace

PipelineResult simulate_classes(const std::vector<ReplicaClass>& classes, Engine engine,
                                const SimulationOptions& options) {
  const World world(classes);
  switch (engine) {
    case Engine::Dataflow:
      return simulate_dataflow(world, options);
    case Engine::Events:
      return simulate_events(world, options);
  }
  MEGATWIN_ASSERT(false, "unknown engine");
}

PipelineResult simulate_pipeline(const ProgramSpec& spec, Engine engine,
                                 const SimulationOptions& options) {
  return simulate_classes({replica_class(spec)}, engine, options);
}

PipelineResult simulate_sides(const std::vector<ProgramSpec>& specs,
                              const SimulationOptions& options) {
  std::vector<ReplicaClass> classes;
  classes.reserve(specs.size());
  for (const ProgramSpec& spec : specs) classes.push_back(replica_class(spec));
  return simulate_classes(classes, Engine::Events, options);
}

PipelineResult simulate_replicas(const ProgramSpec& spec, const Replicas& replicas, Engine engine,
                                 const SimulationOptions& options) {
  MEGATWIN_ASSERT(replicas.count >= 1, replicas.count);
  std::vector<ReplicaClass> all(static_cast<std::size_t>(replicas.count), replica_class(spec));
  for (ReplicaClass& replica : all) {
    for (const Replicas::Later& later : replicas.later) {
      replica.later.push_back({later.from, replica.stages});
    }
  }
  differ(replicas.differences,
         [&](std::size_t replica) -> ReplicaStages& { return all.at(replica).stages; });
  for (std::size_t i = 0; i < replicas.later.size(); ++i) {
    differ(replicas.later[i].differences,
           [&](std::size_t replica) -> ReplicaStages& { return all.at(replica).later[i].stages; });
  }
  if (!replicas.fold) return simulate_classes(all, engine, options);
  std::vector<ReplicaClass> classes;
  for (ReplicaClass& replica : all) {
    const auto same = std::find_if(classes.begin(), classes.end(), [&](const ReplicaClass& other) {
      return same_costs(replica, other);
    });
    if (same != classes.end()) {
      ++same->multiplicity;
    } else {
      classes.push_back(std::move(replica));
    }
  }
  return simulate_classes(classes, engine, options);
}

}  // namespace megatwin::sim
