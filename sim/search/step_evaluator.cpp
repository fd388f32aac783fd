#include "sim/search/step_evaluator.h"

#include <utility>

#include "sim/pipeline_costs.h"

namespace megatwin::sim {
namespace {

std::size_t bytes_of(const CompiledPipeline& compiled) {
  std::size_t bytes = compiled.steps.size() * sizeof(CompiledPipeline::Step);
  for (const policies::Order& order : compiled.orders) bytes += order.size() * sizeof(order[0]);
  return bytes;
}

}  // namespace

PlanShape shape_of(const model::Plan& plan) {
  return {plan.schedule, plan.pipeline, plan.model_chunks, plan.num_micro_batches()};
}

std::int64_t num_tasks(const PlanShape& shape) {
  const bool split = shape.schedule == model::ScheduleKind::ZeroBubbleH1 ||
                     shape.schedule == model::ScheduleKind::ZeroBubbleV;
  return (split ? 3 : 2) * shape.micro_batches * shape.pipeline * shape.model_chunks;
}

model::Instant StepEvaluator::makespan(const model::Plan& plan, const PricedPlan& priced) {
  const model::ProgramSpec spec = program_spec(plan, priced);
  const CompiledPipeline& program = compiled(spec, shape_of(plan));
  return {dataflow_.makespan(program, pipeline_costs(spec))};
}

const CompiledPipeline& StepEvaluator::compiled(const model::ProgramSpec& spec,
                                                const PlanShape& shape) {
  const auto found = places_.find(shape);
  if (found != places_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->compiled;
  }
  entries_.push_front({shape, compile_pipeline(spec)});
  places_[shape] = entries_.begin();
  entries_.front().bytes = bytes_of(entries_.front().compiled);
  bytes_ += entries_.front().bytes;
  while (bytes_ > bytes_max_ && entries_.size() > 1) {
    bytes_ -= entries_.back().bytes;
    places_.erase(entries_.back().shape);
    entries_.pop_back();
  }
  return entries_.front().compiled;
}

}  // namespace megatwin::sim
