#include "model/program/program_builder.h"

#include <optional>

#include "model/assert.h"

namespace megatwin::model {
namespace {

bool is_forward(TaskKind kind) { return kind == TaskKind::Forward; }

bool moves_data(TaskKind kind) {
  return kind == TaskKind::Forward || kind == TaskKind::Backward ||
         kind == TaskKind::BackwardInput;
}

// `task` moved `steps` virtual stages on (forward: up, backward: down), with its stage.
struct Neighbour {
  StageId stage;
  Task task;
};
std::optional<Neighbour> neighbour(const PipelineShape& shape, StageId stage, const Task& task,
                                   int steps) {
  if (!moves_data(task.kind)) return std::nullopt;
  const int direction = is_forward(task.kind) ? 1 : -1;
  const int there = shape.virtual_stage(stage, task.chunk) + direction * steps;
  if (there < 0 || there >= shape.virtual_stages()) return std::nullopt;
  return Neighbour{shape.stage_of(there), {task.kind, task.micro_batch, shape.chunk_of(there)}};
}

// The channel belongs to the message, so both of its ends compute it from the receiving task.
std::uint8_t channel_of(const PipelineShape& shape, const Task& receiver) {
  const int kind = is_forward(receiver.kind) ? 0 : 1;
  const int chunk = shape.placement == ChunkPlacement::Fold ? receiver.chunk.value : 0;
  return static_cast<std::uint8_t>(2 * kind + chunk);
}

// Tasks of the same rank that must be done before `task`.
std::vector<TaskId> local_predecessors(const PipelineShape& shape, StageId stage,
                                       const Task& task) {
  std::vector<TaskId> result;
  if (task.kind == TaskKind::BackwardWeight) {
    result.push_back(
        shape.task_id({TaskKind::BackwardInput, task.micro_batch, task.chunk}));
    return result;
  }
  if (!is_forward(task.kind)) {
    result.push_back(shape.task_id({TaskKind::Forward, task.micro_batch, task.chunk}));
  }
  const auto before = neighbour(shape, stage, task, -1);
  if (before && before->stage == stage) result.push_back(shape.task_id(before->task));
  return result;
}

}  // namespace

Message sent_message(const PipelineShape& shape, StageId stage, const Task& task) {
  const auto to = neighbour(shape, stage, task, 1);
  if (!to || to->stage == stage) return {};
  return {to->stage, shape.task_id(to->task), channel_of(shape, to->task)};
}

Message awaited_message(const PipelineShape& shape, StageId stage, const Task& task) {
  const auto from = neighbour(shape, stage, task, -1);
  if (!from || from->stage == stage) return {};
  return {from->stage, shape.task_id(from->task), channel_of(shape, task)};
}

Program build_program(const ProgramSpec& spec, StageId stage) {
  MEGATWIN_ASSERT(std::ssize(spec.stages) == spec.pipeline, spec.stages.size());
  const StageCost& cost = spec.stages[static_cast<std::size_t>(stage.value)];
  MEGATWIN_ASSERT(std::ssize(cost.chunks) == spec.model_chunks, cost.chunks.size());

  Program program{.stage = stage,
                  .shape = pipeline_shape(spec),
                  .overlap_p2p = spec.overlap_p2p,
                  .overlap_grad_reduce = spec.overlap_grad_reduce,
                  .overlap_param_gather = spec.overlap_param_gather};
  const PipelineShape& shape = program.shape;
  const auto num_tasks = static_cast<std::size_t>(shape.num_tasks());
  program.tasks.resize(num_tasks);
  program.num_waits.resize(num_tasks);
  program.sends.resize(num_tasks);
  program.receives.resize(num_tasks);

  std::vector<std::vector<TaskId>> successors(num_tasks);
  for (std::size_t index = 0; index < num_tasks; ++index) {
    const TaskId id{static_cast<std::int32_t>(index)};
    const Task task = shape.task(id);
    program.tasks[index] = task;
    const std::vector<TaskId> before = local_predecessors(shape, stage, task);
    for (const TaskId predecessor : before) {
      successors[static_cast<std::size_t>(predecessor.value)].push_back(id);
    }
    program.sends[index] = sent_message(shape, stage, task);
    program.receives[index] = awaited_message(shape, stage, task);
    const std::size_t waits = before.size() + (program.receives[index].exists() ? 1u : 0u) +
                              (is_forward(task.kind) ? 1u : 0u);
    program.num_waits[index] = static_cast<std::uint8_t>(waits);
  }

  program.successor_begin.push_back(0);
  for (const auto& row : successors) {
    program.successors.insert(program.successors.end(), row.begin(), row.end());
    program.successor_begin.push_back(static_cast<std::uint32_t>(program.successors.size()));
  }

  for (const ChunkCost& chunk : cost.chunks) {
    program.chunk_memory.push_back({chunk.activation, chunk.weight_gradient_input});
  }
  program.fixed_memory = cost.parameters + cost.gradients + cost.optimizer_state + cost.buffers +
                         cost.overhead;
  return program;
}

std::vector<Program> build_programs(const ProgramSpec& spec) {
  std::vector<Program> programs;
  programs.reserve(static_cast<std::size_t>(spec.pipeline));
  for (std::int32_t stage = 0; stage < spec.pipeline; ++stage) {
    programs.push_back(build_program(spec, {stage}));
  }
  return programs;
}

}  // namespace megatwin::model
