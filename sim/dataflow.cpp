#include "sim/dataflow.h"

#include <algorithm>

#include "model/assert.h"
#include "sim/changing_costs.h"

namespace megatwin::sim {
namespace {

using Step = CompiledPipeline::Step;

// The arrays of one replica class.
struct Arrays {
  const Nanoseconds* duration;
  const Nanoseconds* send;
  Nanoseconds* end;
  Nanoseconds* arrival;
  Nanoseconds* lane_free;
  Nanoseconds* send_free;
};

// The inner loop: a handful of loads, two maxima and two sums a task. Without overlap a send holds
// the compute lane; with overlap it queues in the lane of its direction.
template <bool kOverlap, bool kDurationBySlot, bool kSendBySlot = false>
void evaluate(const std::vector<Step>& steps, const Arrays& a) {
  for (const Step& step : steps) {
    const Nanoseconds start = std::max(a.lane_free[step.stage], a.arrival[step.waits_for]);
    const Nanoseconds end = start + a.duration[kDurationBySlot ? step.slot : step.cost];
    const Nanoseconds send = a.send[kSendBySlot ? step.slot : step.send];
    a.end[step.slot] = end;
    if constexpr (kOverlap) {
      const Nanoseconds arrival = std::max(a.send_free[step.send_lane], end) + send;
      a.send_free[step.send_lane] = arrival;
      a.arrival[step.slot] = arrival;
      a.lane_free[step.stage] = end;
    } else {
      const Nanoseconds arrival = end + send;
      a.arrival[step.slot] = arrival;
      a.lane_free[step.stage] = arrival;
    }
  }
}

}  // namespace

void DataflowEvaluator::evaluate_class(const CompiledPipeline& compiled, const PipelineCosts& costs,
                                       int replica_class) {
  const model::PipelineShape& shape = compiled.shape;
  const SlotLayout layout{shape};
  const std::size_t first_unit = costs.unit(replica_class, 0);
  const std::size_t first_slot = costs.first_slot[static_cast<std::size_t>(replica_class)];
  Arrays arrays{
      .duration =
          costs.task.data() + static_cast<std::size_t>(replica_class) * costs.class_stride(),
      .send = costs.class_sends(replica_class),
      .end = times_.end.data() + first_slot,
      .arrival = times_.arrival.data() + first_slot,
      .lane_free = lane_free_.data() + first_unit,
      .send_free = send_free_.data(),
  };
  std::fill(send_free_.begin(), send_free_.end(), 0);
  arrays.arrival[0] = 0;
  for (int stage = 0; stage < shape.pipeline; ++stage) {
    const std::vector<Nanoseconds> ends =
        gather_ends(costs, first_unit + static_cast<std::size_t>(stage));
    std::copy(ends.begin(), ends.end(), arrays.arrival + layout.gather(stage, 0));
  }
  if (!costs.send_by_slot.empty()) {
    MEGATWIN_ASSERT(!costs.slows_down(), "sends by slot and durations by slot");
    arrays.send = costs.send_by_slot.data() + first_slot;
    if (costs.task_by_slot.empty()) {
      costs.overlap_p2p ? evaluate<true, false, true>(compiled.steps, arrays)
                        : evaluate<false, false, true>(compiled.steps, arrays);
    } else {
      arrays.duration = costs.task_by_slot.data() + first_slot;
      costs.overlap_p2p ? evaluate<true, true, true>(compiled.steps, arrays)
                        : evaluate<false, true, true>(compiled.steps, arrays);
    }
    return;
  }
  if (costs.slows_down()) {
    slowed_.assign(layout.size(), 0);
    for (int stage = 0; stage < shape.pipeline; ++stage) {
      const auto durations = slowed_durations(costs, first_unit + static_cast<std::size_t>(stage),
                                              compiled.orders[static_cast<std::size_t>(stage)]);
      std::copy(durations.begin(), durations.end(),
                slowed_.begin() + static_cast<std::ptrdiff_t>(layout.task(stage, {0})));
    }
    arrays.duration = slowed_.data();
    costs.overlap_p2p ? evaluate<true, true>(compiled.steps, arrays)
                      : evaluate<false, true>(compiled.steps, arrays);
    return;
  }
  costs.overlap_p2p ? evaluate<true, false>(compiled.steps, arrays)
                    : evaluate<false, false>(compiled.steps, arrays);
}

// A reduction starts when the last class has brought its gradients and the lane is free, and ends
// for all classes at once. Requires: the classes finish the chunks of a stage in the same order.
void DataflowEvaluator::evaluate_reduces(CompiledShapes compiled, const PipelineCosts& costs,
                                         int stage) {
  const auto stage_index = static_cast<std::size_t>(stage);
  Nanoseconds lane_free = 0;
  const auto& ends = compiled.front()->chunk_ends[stage_index];
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const model::ChunkId chunk = ends[i].chunk;
    Nanoseconds start = lane_free;
    for (int k = 0; k < costs.num_classes; ++k) {
      const auto replica_class = static_cast<std::size_t>(k);
      const CompiledPipeline& own =
          *compiled[static_cast<std::size_t>(costs.shape_of_class[replica_class])];
      const CompiledPipeline::ChunkEnd& end = own.chunk_ends[stage_index][i];
      MEGATWIN_ASSERT(end.chunk == chunk, "stage ", stage, " finishes its chunks in two orders");
      const std::size_t last = SlotLayout{own.shape}.task(stage, own.orders[stage_index].back());
      const std::size_t after = costs.overlap_grad_reduce ? end.slot : last;
      start = std::max(start, times_.end[costs.first_slot[replica_class] + after]);
    }
    lane_free = start + costs.reduce[costs.chunk_index(stage, chunk.value)];
    for (int k = 0; k < costs.num_classes; ++k) {
      times_.reduces[costs.unit(k, stage)].push_back({chunk, start, lane_free});
    }
  }
  for (int k = 0; k < costs.num_classes; ++k) {
    const std::size_t unit = costs.unit(k, stage);
    const Nanoseconds start = std::max(lane_free, lane_free_[unit]);
    times_.optimizer_end[unit] = start + optimizer_duration(costs, unit, start);
    times_.makespan = std::max(times_.makespan, times_.optimizer_end[unit]);
  }
}

Nanoseconds DataflowEvaluator::makespan(const CompiledPipeline& compiled,
                                        const PipelineCosts& costs) {
  const CompiledPipeline* const only = &compiled;
  return makespan(CompiledShapes(&only, 1), costs);
}

Nanoseconds DataflowEvaluator::makespan(CompiledShapes compiled, const PipelineCosts& costs) {
  MEGATWIN_ASSERT(compiled.size() == costs.shapes.size(), compiled.size(), " programs for ",
                  costs.shapes.size());
  for (std::size_t i = 0; i < compiled.size(); ++i) {
    MEGATWIN_ASSERT(compiled[i]->shape == costs.shapes[i], compiled[i]->shape.pipeline,
                    " stages against ", costs.shape.pipeline);
  }
  const std::size_t num_slots = costs.first_slot.back();
  times_.end.resize(num_slots);
  times_.arrival.resize(num_slots);
  times_.reduces.resize(costs.num_units());
  for (auto& reduces : times_.reduces) {
    reduces.clear();
  }
  times_.optimizer_end.assign(costs.num_units(), 0);
  times_.makespan = 0;
  lane_free_.assign(costs.num_units(), 0);
  send_free_.resize(2 * static_cast<std::size_t>(costs.shape.pipeline) + 1);
  for (int k = 0; k < costs.num_classes; ++k) {
    const int shape = costs.shape_of_class[static_cast<std::size_t>(k)];
    evaluate_class(*compiled[static_cast<std::size_t>(shape)], costs, k);
  }
  for (int stage = 0; stage < costs.shape.pipeline; ++stage) {
    evaluate_reduces(compiled, costs, stage);
  }
  return times_.makespan;
}

}  // namespace megatwin::sim
