#include "policies/policy_choice.h"

#include <algorithm>

#include "policies/adaptive_pipeline.h"
#include "policies/dynamic_pipeline.h"

namespace megatwin::policies {

using model::ScheduleKind;

ExecutorOptions executor_options_of(const model::Plan& plan) {
  return {.issue_depth = plan.issue_depth,
          .receive_slots = plan.pipeline > 1 ? plan.receive_slots : 0};
}

PolicyFactory policy_of(const model::Plan& plan, const EqualMemory& memory) {
  // Of both bounds the smaller; 0 is none. Without a limit of slots each rank lets in what fits
  // there.
  const bool has_slots = executor_options_of(plan).receive_slots > 0;
  const int fit = has_slots ? memory.micro_batches * plan.model_chunks : 0;
  const int most = fit > 0 && plan.live_activations > 0 ? std::min(fit, plan.live_activations)
                                                        : std::max(fit, plan.live_activations);
  switch (plan.schedule) {
    case ScheduleKind::DynamicAdaptive:
      return adaptive_pipeline_factory(
          {.live_activations_max = plan.live_activations, .equal_memory = memory});
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

// A micro-batch that has entered must be able to pass all chunks, whatever else waits.
std::vector<std::string> bound_problems(const model::Plan& plan) {
  if (plan.live_activations == 0 || plan.live_activations >= plan.model_chunks) {
    return {};
  }
  return {"policy.live_activations is " + std::to_string(plan.live_activations) +
          ", but one micro-batch alone holds " + std::to_string(plan.model_chunks) +
          " activations on a rank, one in each of its model chunks (allowed: " +
          std::to_string(plan.model_chunks) + " or more)"};
}

}  // namespace megatwin::policies
