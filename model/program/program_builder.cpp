#include "model/program/program_builder.h"

#include <optional>

#include "model/assert.h"

namespace megatwin::model {
namespace {

bool is_forward(TaskKind kind) { return kind == TaskKind::Forward; }

bool moves_data(TaskKind kind) {
  return kind == TaskKind::Forward || kind == TaskKind::Backward || kind == TaskKind::BackwardInput;
}

// `task` moved `steps` virtual stages on (forward: up, backward: down), with its stage.
struct Neighbour {
  StageId stage;
  Task task;
};
std::optional<Neighbour> neighbour(const PipelineShape& shape, StageId stage, const Task& task,
                                   int steps) {
  if (!moves_data(task.kind)) {
    return std::nullopt;
  }
  const int direction = is_forward(task.kind) ? 1 : -1;
  const int there = shape.virtual_stage(stage, task.chunk) + direction * steps;
  if (there < 0 || there >= shape.virtual_stages()) {
    return std::nullopt;
  }
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
    if (shape.side == PipelineSide::Forward) {
      return result;  // The other side runs what comes before.
    }
    result.push_back(shape.task_id({TaskKind::BackwardInput, task.micro_batch, task.chunk}));
    return result;
  }
  if (shape.phase_of(task.kind) > 0) {
    result.push_back(shape.task_id({shape.kind_of(0), task.micro_batch, task.chunk}));
  }
  const auto before = neighbour(shape, stage, task, -1);
  if (before && before->stage == stage) {
    result.push_back(shape.task_id(before->task));
  }
  return result;
}

}  // namespace

Message sent_message(const PipelineShape& shape, StageId stage, const Task& task) {
  const auto to = neighbour(shape, stage, task, 1);
  if (!to || to->stage == stage) {
    return {};
  }
  return {to->stage, shape.task_id(to->task), channel_of(shape, to->task)};
}

Message awaited_message(const PipelineShape& shape, StageId stage, const Task& task) {
  const auto from = neighbour(shape, stage, task, -1);
  if (!from || from->stage == stage) {
    return {};
  }
  return {from->stage, shape.task_id(from->task), channel_of(shape, task)};
}

int crossed_boundary(const PipelineShape& shape, StageId stage, const Task& task) {
  const auto to = neighbour(shape, stage, task, 1);
  MEGATWIN_ASSERT(to && to->stage != stage, to_text(task), " sends nothing");
  // Down the first leg of a fold a forward goes up in stages, on the way back it comes down.
  const bool returns = shape.placement == ChunkPlacement::Fold && task.chunk.value == 1;
  return is_forward(task.kind) != returns ? stage.value : to->stage.value;
}

namespace {

// The tasks of one (phase, chunk), by their micro-batch 0: what holds for it holds for all others
// with their own numbers.
struct Row {
  Task first;
  std::vector<std::int32_t> successor_rows;
  int num_waits = 0;
  Message send, receive;
};

std::vector<Row> make_rows(const PipelineShape& shape, StageId stage) {
  std::vector<Row> rows(static_cast<std::size_t>(shape.phases() * shape.model_chunks));
  for (std::int32_t index = 0; index < std::ssize(rows); ++index) {
    Row& row = rows[static_cast<std::size_t>(index)];
    row.first = {shape.kind_of_row(index), shape.micro_batch(0), {index % shape.model_chunks}};
    row.send = sent_message(shape, stage, row.first);
    row.receive = awaited_message(shape, stage, row.first);
    const std::vector<TaskId> before = local_predecessors(shape, stage, row.first);
    for (const TaskId predecessor : before) {
      const std::int32_t predecessor_row = predecessor.value / shape.micro_batches;
      rows[static_cast<std::size_t>(predecessor_row)].successor_rows.push_back(index);
    }
    // A forward side does nothing before it has its weights.
    const bool waits_for_weights =
        shape.phase_of(row.first.kind) == 0 || shape.side == PipelineSide::Forward;
    row.num_waits = static_cast<int>(before.size()) + (row.receive.exists() ? 1 : 0) +
                    (waits_for_weights ? 1 : 0);
  }
  return rows;
}

Message of_micro_batch(Message message, std::int32_t micro_batch) {
  if (message.exists()) {
    message.task.value += micro_batch;
  }
  return message;
}

void append_row(const Row& row, Program& program) {
  const std::int32_t num_micro_batches = program.shape.micro_batches;
  const auto first = static_cast<std::int32_t>(program.tasks.size());
  const bool is_of_left = program.shape.side == PipelineSide::Forward && first > 0;
  const std::int32_t size =
      is_of_left ? program.shape.left_before(num_micro_batches) : num_micro_batches;
  for (std::int32_t micro_batch = 0; micro_batch < size; ++micro_batch) {
    program.tasks.push_back(program.shape.task({first + micro_batch}));
    program.num_waits.push_back(static_cast<std::uint8_t>(row.num_waits));
    program.sends.push_back(of_micro_batch(row.send, micro_batch));
    program.receives.push_back(of_micro_batch(row.receive, micro_batch));
    for (const std::int32_t successor : row.successor_rows) {
      program.successors.push_back({successor * num_micro_batches + micro_batch});
    }
    program.successor_begin.push_back(static_cast<std::uint32_t>(program.successors.size()));
  }
}

// One end of a crossing: the task of an instance of its side.
struct SideEnd {
  PipelineSide side;
  int instance;
  TaskId task;
};

// Writes down what of a crossing this program sees.
void append_crossing(const SideEnd& sender, const SideEnd& receiver, std::vector<Message>& sent,
                     Program& program) {
  const auto is_here = [&](const SideEnd& end) {
    return end.side == program.shape.side && end.instance == program.shape.instance;
  };
  const auto message_to = [&](const SideEnd& end) {
    return Message{.stage = program.stage,
                   .task = end.task,
                   .instance = static_cast<std::uint16_t>(end.instance)};
  };
  if (is_here(sender)) {
    sent[static_cast<std::size_t>(sender.task.value)] = message_to(receiver);
  }
  if (is_here(receiver)) {
    const auto index = static_cast<std::size_t>(receiver.task.value);
    program.awaited_crossings[index] = message_to(sender);
    ++program.num_waits[index];
  }
}

// Micro-batch n is fed from its forward to its recompute; the first stage reads the tokens itself
// when it runs the forward again. With room for k micro-batches the backward of n makes room for
// the forward of the k-th that comes to the same backward rank after it, on whichever rank that is.
// What weight gradients need goes to the rank that ran the forward.
void append_crossings(const ProgramSpec& spec, Program& program) {
  if (spec.side == PipelineSide::Both) {
    return;
  }
  const auto num_tasks = static_cast<std::size_t>(program.num_tasks());
  program.crossings.resize(num_tasks);
  program.rooms.resize(num_tasks);
  program.awaited_crossings.resize(num_tasks);
  const auto end_of = [&](PipelineSide side, TaskKind kind, std::int64_t micro_batch) {
    const auto n = static_cast<std::int32_t>(micro_batch);
    const int instance = n % spec.instances.of(side);
    return SideEnd{side, instance, side_shape(spec, side, instance).task_id({kind, {n}, {0}})};
  };
  const bool is_fed = spec.feed == SideFeed::Activations || program.stage.value > 0;
  const std::int64_t ahead =
      std::int64_t{spec.crossing(program.stage.value).fed_max} * spec.instances.backward;
  for (std::int32_t n = 0; n < spec.micro_batches; ++n) {
    const SideEnd forward = end_of(PipelineSide::Forward, TaskKind::Forward, n);
    if (is_fed) {
      append_crossing(forward, end_of(PipelineSide::Backward, TaskKind::Recompute, n),
                      program.crossings, program);
    }
    if (program.shape.leaves({n})) {
      append_crossing(end_of(PipelineSide::Backward, TaskKind::BackwardInput, n),
                      end_of(PipelineSide::Forward, TaskKind::BackwardWeight, n), program.crossings,
                      program);
    }
    if (ahead > 0 && n >= ahead) {
      append_crossing(end_of(PipelineSide::Backward, TaskKind::Backward, n - ahead), forward,
                      program.rooms, program);
    }
  }
}

}  // namespace

Program build_program(const ProgramSpec& spec, StageId stage) {
  MEGATWIN_ASSERT(std::ssize(spec.stages) == spec.pipeline, spec.stages.size());
  const StageCost& cost = spec.stages[static_cast<std::size_t>(stage.value)];
  MEGATWIN_ASSERT(std::ssize(cost.chunks) == spec.model_chunks, cost.chunks.size());
  MEGATWIN_ASSERT(spec.side == PipelineSide::Both || spec.model_chunks == 1, spec.model_chunks);
  MEGATWIN_ASSERT(spec.crossings.empty() || std::ssize(spec.crossings) == spec.pipeline,
                  spec.crossings.size());

  Program program{.stage = stage,
                  .shape = pipeline_shape(spec),
                  .overlap_p2p = spec.overlap_p2p,
                  .overlap_grad_reduce = spec.overlap_grad_reduce,
                  .overlap_param_gather = spec.overlap_param_gather};
  const auto num_tasks = static_cast<std::size_t>(program.shape.num_tasks());
  program.tasks.reserve(num_tasks);
  program.num_waits.reserve(num_tasks);
  program.sends.reserve(num_tasks);
  program.receives.reserve(num_tasks);
  program.successors.reserve(2 * num_tasks);
  program.successor_begin.reserve(num_tasks + 1);
  program.successor_begin.push_back(0);
  for (const Row& row : make_rows(program.shape, stage)) {
    append_row(row, program);
  }
  append_crossings(spec, program);

  for (const ChunkCost& chunk : cost.chunks) {
    program.chunk_memory.push_back({chunk.activation, chunk.weight_gradient_input});
  }
  program.fixed_memory =
      cost.parameters + cost.gradients + cost.optimizer_state + cost.buffers + cost.overhead;
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

std::vector<Program> build_programs(const std::vector<ProgramSpec>& specs) {
  std::vector<Program> programs;
  for (const ProgramSpec& spec : specs) {
    for (std::int32_t stage = 0; stage < spec.pipeline; ++stage) {
      programs.push_back(build_program(spec, {stage}));
    }
  }
  return programs;
}

}  // namespace megatwin::model
