// When everything in one simulated step happened, as either engine leaves it behind: instants only.
// What they mean (waits, breakdown, timeline) is worked out from them by one function for both.
#ifndef MEGATWIN_SIM_STEP_TIMES_H_
#define MEGATWIN_SIM_STEP_TIMES_H_

#include <cstddef>
#include <vector>

#include "model/ids.h"
#include "policies/schedule.h"
#include "sim/pipeline_costs.h"

namespace megatwin::sim {

// A layout of per-task values over all stages of one replica class: slot 0 stands for "nothing to
// wait for" and holds zero, then the tasks stage by stage, then the gathers, then a slot that
// nobody reads.
struct SlotLayout {
  model::PipelineShape shape;

  std::size_t task(int stage, model::TaskId task) const {
    return 1 + static_cast<std::size_t>(stage) * static_cast<std::size_t>(shape.num_tasks()) +
           static_cast<std::size_t>(task.value);
  }
  std::size_t gather(int stage, int chunk) const {
    return 1 +
           static_cast<std::size_t>(shape.pipeline) * static_cast<std::size_t>(shape.num_tasks()) +
           static_cast<std::size_t>(shape.chunk_number(stage, chunk));
  }
  std::size_t unread() const { return gather(shape.pipeline, 0); }
  std::size_t size() const { return unread() + 1; }
};

// One data-parallel transfer of one (unit, chunk).
struct Transfer {
  model::ChunkId chunk;
  Nanoseconds start = 0;
  Nanoseconds end = 0;
};

struct StepTimes {
  // Per class, from PipelineCosts::first_slot on, by SlotLayout: when the task ended, and when what
  // it sent (if anything) arrived.
  std::vector<Nanoseconds> end, arrival;
  // When the transfer began; only where disturbances make transfers differ, else arrival − send.
  std::vector<Nanoseconds> send_start;
  // What each task took; only where costs change within the step.
  std::vector<Nanoseconds> duration;
  // Decoupled: when what the task sent across arrived.
  std::vector<Nanoseconds> crossing;
  std::vector<std::vector<Transfer>> reduces;  // One list a unit, in the order they ran.
  std::vector<Nanoseconds> optimizer_end;      // One a unit.
  Nanoseconds makespan = 0;
};

// Ends of the parameter gathers of one unit, which start with the step. With overlap each chunk
// waits for its own, otherwise all compute waits for the last. A backward side waits for none.
std::vector<Nanoseconds> gather_ends(const PipelineCosts& costs, std::size_t unit);

// Durations of the tasks of one unit in the order given, slowed by data-parallel traffic; indexed
// by task. Requires: costs.slows_down().
std::vector<Nanoseconds> slowed_durations(const PipelineCosts& costs, std::size_t unit,
                                          const policies::Order& order);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_STEP_TIMES_H_
