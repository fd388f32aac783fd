#include "policies/forward_backward_decoupling.h"

#include <algorithm>

#include "model/assert.h"
#include "policies/schedule.h"

namespace megatwin::policies {

model::Instant decoupled_step_time(const DecoupledPipeline& pipeline) {
  MEGATWIN_ASSERT(pipeline.stages >= 1 && pipeline.micro_batches >= 1, pipeline.stages, " stages, ",
                  pipeline.micro_batches, " micro-batches");
  const bool again = pipeline.feed == DecoupledFeed::StageInput;
  const std::int64_t forward_side = pipeline.forward_side.ns;
  const std::int64_t work = pipeline.backward.ns + (again ? pipeline.forward.ns : 0);
  const std::int64_t arrival = (pipeline.stages - (again ? 1 : 0)) * forward_side;
  // A lone stage that runs its forward again reads the tokens itself and waits for nobody.
  const bool waits = !again || pipeline.stages > 1;
  const std::int64_t period = waits ? std::max(forward_side, work) : work;
  const std::int64_t backward_side = arrival + (pipeline.micro_batches - 1) * period + work +
                                     (pipeline.stages - 1) * pipeline.backward.ns;
  return {std::max(backward_side, (pipeline.stages + pipeline.micro_batches - 1) * forward_side)};
}

model::Instant coupled_step_time(const CoupledPipelines& pipelines) {
  MEGATWIN_ASSERT(pipelines.stages >= 1 && pipelines.micro_batches >= 1, pipelines.stages,
                  " stages, ", pipelines.micro_batches, " micro-batches");
  const std::int64_t half = (pipelines.micro_batches + 1) / 2;
  return {(half + pipelines.stages - 1) * (pipelines.forward.ns + pipelines.backward.ns)};
}

Order decoupled_order(const model::PipelineShape& shape, model::StageId /*stage*/) {
  MEGATWIN_ASSERT(shape.side != model::PipelineSide::Both, "a schedule of two sides");
  Order order;
  order.reserve(static_cast<std::size_t>(shape.num_tasks()));
  if (shape.side == model::PipelineSide::Forward) {
    for (std::int32_t id = 0; id < shape.num_tasks(); ++id) order.push_back({id});
    return order;
  }
  for (std::int32_t n = 0; n < shape.micro_batches; ++n) {
    order.push_back({n});
    order.push_back({shape.micro_batches + n});
  }
  return order;
}

}  // namespace megatwin::policies
