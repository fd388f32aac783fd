#include "sim/pipeline_simulation.h"

#include <memory>

#include "model/assert.h"
#include "sim/dataflow.h"
#include "sim/step_analysis.h"

namespace megatwin::sim {
namespace {

std::shared_ptr<const CompiledPipeline> compiled_for(const model::ProgramSpec& spec,
                                                     const SimulationOptions& options) {
  if (options.cache != nullptr) return options.cache->get(spec);
  return std::make_shared<const CompiledPipeline>(compile_pipeline(spec));
}

}  // namespace

PipelineResult simulate_pipeline(const model::ProgramSpec& spec, Engine engine,
                                 const SimulationOptions& options) {
  const PipelineCosts costs = pipeline_costs(spec);
  const auto compiled = compiled_for(spec, options);
  MEGATWIN_ASSERT(engine == Engine::Dataflow, "not yet");
  DataflowEvaluator evaluator;
  evaluator.makespan(*compiled, costs);
  std::vector<const policies::Order*> orders;
  for (const auto& order : compiled->orders) orders.push_back(&order);
  return analyse_step({.costs = costs,
                       .times = evaluator.times(),
                       .orders = orders,
                       .multiplicities = {1},
                       .timeline = options.timeline});
}

}  // namespace megatwin::sim
