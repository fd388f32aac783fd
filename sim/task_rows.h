// What all micro-batches of one (stage, phase, chunk) have in common: where they are written, whose
// message they wait for, what they cost and send. Worked out once a row, so that going through
// thousands of tasks costs a look-up each.
#ifndef MEGATWIN_SIM_TASK_ROWS_H_
#define MEGATWIN_SIM_TASK_ROWS_H_

#include <cstdint>
#include <vector>

#include "model/ids.h"
#include "model/program/pipeline_shape.h"
#include "sim/pipeline_costs.h"

namespace megatwin::sim {

struct TaskRow {
  std::uint32_t slot = 0;       // SlotLayout, of micro-batch 0; the others follow.
  std::uint32_t waits_for = 0;  // Slot of the producer, of micro-batch 0; 0 when it needs none.
  std::uint32_t cost = 0;       // Into PipelineCosts::task of the class.
  std::uint32_t send_lane = 0;  // 2 · stage + (0 activation, 1 gradient); 2 · p without a send.
  std::uint16_t chunk = 0;
  SendKind send = SendKind::None;
  std::uint16_t send_cost = 0;  // Into PipelineCosts::class_sends().
  bool is_forward = false;
  bool is_last = false;  // Adds to the gradients of the chunk.

  std::uint32_t producer_slot(std::uint32_t micro_batch) const {
    return waits_for == 0 ? 0 : waits_for + micro_batch;
  }
};

class TaskRows {
 public:
  explicit TaskRows(const model::PipelineShape& shape);

  // A task as its row and micro-batch.
  struct Place {
    std::uint32_t row;
    std::uint32_t micro_batch;
  };
  Place place(model::TaskId task) const { return places_[static_cast<std::size_t>(task.value)]; }
  const TaskRow& row(int stage, Place place) const {
    return rows_[static_cast<std::size_t>(stage) * rows_per_stage_ + place.row];
  }

 private:
  std::size_t rows_per_stage_;
  std::vector<TaskRow> rows_;
  std::vector<Place> places_;  // By task; the same on every stage.
};

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_TASK_ROWS_H_
