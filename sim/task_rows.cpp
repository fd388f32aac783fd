#include "sim/task_rows.h"

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

TaskRow make_row(const model::PipelineShape& shape, int stage, int row_index) {
  const SlotLayout layout{shape};
  const model::TaskId first{row_index * shape.micro_batches};
  const Task task = shape.task(first);
  const auto awaited = model::awaited_message(shape, {stage}, task);
  TaskRow row{.slot = static_cast<std::uint32_t>(layout.task(stage, first)),
              .cost = static_cast<std::uint32_t>(stage * shape.num_rows() + row_index),
              .send_lane = static_cast<std::uint32_t>(2 * shape.pipeline),
              .chunk = static_cast<std::uint16_t>(task.chunk.value),
              .send = send_kind(shape, stage, task),
              .is_forward = task.kind == TaskKind::Forward,
              .is_last = task.kind == shape.last_kind()};
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
  for (int row = 0; row < num_rows; ++row) {
    for (int micro_batch = 0; micro_batch < shape.micro_batches; ++micro_batch) {
      places_.push_back({static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(micro_batch)});
    }
  }
}

}  // namespace megatwin::sim
