#include "sim/search/step_bound.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/step_limit.h"

namespace megatwin::sim {
namespace {

using model::ChunkCost;
using model::Instant;
using model::ScheduleKind;
using model::StageCost;

using Nanoseconds = std::int64_t;

bool splits_backward(ScheduleKind schedule) {
  return schedule == ScheduleKind::ZeroBubbleH1 || schedule == ScheduleKind::ZeroBubbleV;
}

// What one kind of stage adds to any step.
struct StageWork {
  Nanoseconds micro_batch = 0;    // All chunks, both passes, sends that hold the lane.
  Nanoseconds forward_first = 0;  // Of chunk 0, which every micro-batch visits first.
  Nanoseconds backward_min = 0;   // The shortest backward pass.
  Nanoseconds gather = 0;         // Before the first task.
  Nanoseconds reduce = 0;         // Reductions that nothing can hide.
  Nanoseconds optimizer = 0;
};

StageWork work_of(const model::Plan& plan, const StageCost& stage) {
  const bool split = splits_backward(plan.schedule);
  StageWork work{.backward_min = std::numeric_limits<Nanoseconds>::max()};
  Nanoseconds reduce_sum = 0, reduce_min = std::numeric_limits<Nanoseconds>::max();
  Nanoseconds gather_sum = 0;
  for (const ChunkCost& chunk : stage.chunks) {
    work.micro_batch += chunk.forward.ns;
    work.micro_batch +=
        split ? chunk.backward_input.ns + chunk.backward_weight.ns : chunk.backward.ns;
    work.backward_min = std::min(work.backward_min, chunk.backward.ns);
    reduce_sum += chunk.gradient_reduce.ns;
    reduce_min = std::min(reduce_min, chunk.gradient_reduce.ns);
    gather_sum += chunk.parameter_gather.ns;
  }
  work.forward_first = stage.chunks.front().forward.ns;
  work.gather = plan.overlap_param_gather ? stage.chunks.front().parameter_gather.ns : gather_sum;
  work.reduce = plan.overlap_grad_reduce ? reduce_min : reduce_sum;
  work.optimizer = stage.optimizer.ns;
  return work;
}

// Both directions of the boundary behind a stage, and of the one before it.
struct StageHops {
  model::PipelineHop after, before;
};
StageHops hops_of(const model::Plan& plan, const PricedPlan& priced, int index) {
  if (plan.pipeline == 1 || priced.hops.empty()) return {};
  const int before = (index + plan.pipeline - 1) % plan.pipeline;
  return {priced.hops[static_cast<std::size_t>(index)],
          priced.hops[static_cast<std::size_t>(before)]};
}

// Sends of one micro-batch that hold the lane of stage `index`: one for each virtual stage that
// has a neighbour on another rank, in either direction.
Nanoseconds blocking_sends(const model::Plan& plan, int index, const StageHops& hops) {
  if (plan.overlap_p2p || plan.pipeline == 1) return 0;
  const int p = plan.pipeline, v = plan.model_chunks;
  const bool first = index == 0, last = index == p - 1;
  if (plan.schedule == ScheduleKind::ZeroBubbleV) {
    // Down the V activations leave behind and gradients before, up the V the other way round; its
    // turning point stays on the last rank, its ends on the first.
    const Nanoseconds down = last ? 0 : hops.after.activation.ns + hops.after.gradient.ns;
    const Nanoseconds up = first ? 0 : hops.before.gradient.ns + hops.before.activation.ns;
    return down + up;
  }
  return (v - (last ? 1 : 0)) * hops.after.activation.ns +
         (v - (first ? 1 : 0)) * hops.before.gradient.ns;
}

Nanoseconds longest(const StageHops& hops) {
  return std::max({hops.after.activation.ns, hops.after.gradient.ns, hops.before.activation.ns,
                   hops.before.gradient.ns});
}

}  // namespace

bool is_endless(const model::Plan& plan, const PricedPlan& priced) {
  model::PipelineHop slowest;
  for (const model::PipelineHop& hop : priced.hops) {
    slowest.activation = std::max(slowest.activation, hop.activation);
    slowest.gradient = std::max(slowest.gradient, hop.gradient);
  }
  if (plan.pipeline == 1) slowest = {};
  return std::any_of(priced.stages.begin(), priced.stages.end(),
                     [&](const StageCost& stage) { return is_endless(plan, stage, slowest); });
}

Instant step_lower_bound(const model::Plan& plan, const PricedPlan& priced) {
  const Nanoseconds m = plan.num_micro_batches();
  std::vector<StageWork> kinds;
  for (const StageCost& stage : priced.stages) kinds.push_back(work_of(plan, stage));
  const auto at = [&](int stage) -> const StageWork& {
    return kinds[static_cast<std::size_t>(
        priced.layout->kind_of_stage[static_cast<std::size_t>(stage)])];
  };
  // A stage can start when the first micro-batch has come through those before it.
  std::vector<Nanoseconds> compute_end(static_cast<std::size_t>(plan.pipeline));
  Nanoseconds start = 0;
  for (int stage = 0; stage < plan.pipeline; ++stage) {
    const StageWork& work = at(stage);
    start = std::max(start, work.gather);
    const StageHops hops = hops_of(plan, priced, stage);
    const Nanoseconds lane = m * (work.micro_batch + blocking_sends(plan, stage, hops));
    compute_end[static_cast<std::size_t>(stage)] = start + lane;
    start += work.forward_first + hops.after.activation.ns;
  }
  // The last backward of a stage is followed by one of the stage before it; where weight gradients
  // are apart, the stage may end with one of those, which nobody waits for. A send that holds the
  // lane belongs to the stage's time, yet its reductions need not wait for that.
  const bool chained = !splits_backward(plan.schedule);
  Nanoseconds step = 0;
  Nanoseconds next_end = 0;
  for (int stage = plan.pipeline - 1; stage >= 0; --stage) {
    const StageWork& work = at(stage);
    const StageHops hops = hops_of(plan, priced, stage);
    // What the last task of the stage, and of the one behind it, sends.
    const Nanoseconds sent = hops.before.gradient.ns, received = hops.after.gradient.ns;
    const bool holds = !plan.overlap_p2p;
    Nanoseconds end = compute_end[static_cast<std::size_t>(stage)];
    if (chained && stage < plan.pipeline - 1) {
      end = std::max(end, next_end + (holds ? 0 : received) + work.backward_min +
                              (holds && stage > 0 ? sent : 0));
    }
    next_end = end;
    // The last send may be any of the stage's: take the longest off.
    const Nanoseconds held = holds ? longest(hops) : 0;
    step = std::max(step, std::max(end, end - held + work.reduce) + work.optimizer);
  }
  return {step};
}

}  // namespace megatwin::sim
