#include "policies/policy_choice.h"

#include "policies/adaptive_pipeline.h"
#include "policies/dynamic_pipeline.h"

namespace megatwin::policies {

using model::ScheduleKind;

PolicyFactory policy_of(const model::Plan& plan, const EqualMemory& memory) {
  // Without a limit of slots each rank lets in what fits there.
  const int most = plan.receive_slots > 0 ? memory.micro_batches * plan.model_chunks : 0;
  switch (plan.schedule) {
    case ScheduleKind::DynamicAdaptive:
      return adaptive_pipeline_factory({.equal_memory = memory});
    case ScheduleKind::DynamicDepthFirst:
      return dynamic_pipeline_factory(
          {.traversal = Traversal::DepthFirst, .live_activations_max = most});
    case ScheduleKind::DynamicBreadthFirst:
      return dynamic_pipeline_factory(
          {.traversal = Traversal::BreadthFirst, .live_activations_max = most});
    case ScheduleKind::UserPolicy:
    case ScheduleKind::GPipe:
    case ScheduleKind::OneForwardOneBackward:
    case ScheduleKind::Interleaved:
    case ScheduleKind::ZeroBubbleH1:
    case ScheduleKind::ZeroBubbleV:
    case ScheduleKind::OrderFile:
    case ScheduleKind::Decoupled:
      break;
  }
  return {};
}

}  // namespace megatwin::policies
