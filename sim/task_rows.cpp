#include "sim/task_rows.h"

#include <algorithm>

#include "model/program/program_builder.h"
#include "sim/step_times.h"

namespace megatwin::sim {
namespace {

using model::Task;
using model::TaskKind;

SendKind send_kind(const model::PipelineShape& shape, int stage, const Task& task) {
  if (!model::sent_message(shape, {stage}, task).exists()) {
    return SendKind::None;
  }
  return task.kind == TaskKind::Forward ? SendKind::Activation : SendKind::Gradient;
}

// The row of micro-batches that leave their weight gradients lies in that of the others.
model::TaskId first_of(const model::PipelineShape& shape, int row) {
  return {std::min(row, shape.phases() * shape.model_chunks - 1) * shape.micro_batches};
}

TaskRow make_row(const model::PipelineShape& shape, int stage, int row_index) {
  const SlotLayout layout{shape};
  const Task task{
      shape.kind_of_row(row_index), shape.micro_batch(0), {row_index % shape.model_chunks}};
  const model::TaskId first = first_of(shape, row_index);
  const auto awaited = model::awaited_message(shape, {stage}, task);
  TaskRow row{.slot = static_cast<std::uint32_t>(layout.task(stage, first)),
              .cost = static_cast<std::uint32_t>(stage * shape.num_rows() + row_index),
              .send_lane = static_cast<std::uint32_t>(2 * shape.pipeline),
              .chunk = static_cast<std::uint16_t>(task.chunk.value),
              .send = send_kind(shape, stage, task),
              .is_forward = task.kind == TaskKind::Forward,
              .is_last = shape.is_last(task.kind)};
  if (awaited.exists()) {
    row.waits_for = static_cast<std::uint32_t>(layout.task(awaited.stage.value, awaited.task));
  }
  if (row.send != SendKind::None) {
    const int direction = row.send == SendKind::Gradient ? 1 : 0;
    const int boundary = model::crossed_boundary(shape, {stage}, task);
    row.send_lane = static_cast<std::uint32_t>(2 * stage + direction);
    row.send_cost = static_cast<std::uint16_t>(1 + 2 * boundary + direction);
  }
  return row;
}

}  // namespace

TaskRows::TaskRows(const model::PipelineShape& shape)
    : rows_per_stage_(static_cast<std::size_t>(shape.num_rows())) {
  const int num_rows = shape.num_rows();
  rows_.reserve(static_cast<std::size_t>(shape.pipeline) * rows_per_stage_);
  for (int stage = 0; stage < shape.pipeline; ++stage) {
    for (int row = 0; row < num_rows; ++row) {
      rows_.push_back(make_row(shape, stage, row));
    }
  }
  places_.reserve(static_cast<std::size_t>(shape.num_tasks()));
  for (std::int32_t id = 0; id < shape.num_tasks(); ++id) {
    const int row = shape.row_of(shape.task({id}));
    places_.push_back({static_cast<std::uint32_t>(row),
                       static_cast<std::uint32_t>(id - first_of(shape, row).value)});
  }
}

}  // namespace megatwin::sim
