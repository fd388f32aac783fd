#include "sim/sim_backend.h"

#include <algorithm>

#include "model/assert.h"

namespace megatwin::sim {

using model::ExecutorEventKind;
using model::RankId;
using model::Task;
using model::TaskId;
using model::TaskKind;

namespace {

std::size_t unit_of(RankId rank) { return static_cast<std::size_t>(rank.value); }

}  // namespace

SimBackend::SimBackend(const PipelineCosts& costs, const std::vector<model::Program>& programs)
    : costs_(costs), programs_(programs), layout_{costs.shape} {
  const model::PipelineShape& shape = costs.shape;
  const std::size_t num_units = costs.num_units();
  const std::size_t num_slots = static_cast<std::size_t>(costs.num_classes) * layout_.size();
  MEGATWIN_ASSERT(shape.num_tasks() < (1 << QueuedEvent::kIndexBits), shape.num_tasks());
  units_.resize(num_units);
  for (int stage = 0; stage < shape.pipeline; ++stage) {
    gather_ends_.push_back(gather_ends(costs, stage));
  }
  data_parallel_free_.resize(static_cast<std::size_t>(shape.pipeline));
  reduces_.resize(static_cast<std::size_t>(shape.virtual_stages()));
  charged_.resize(num_slots);
  times_.end.resize(num_slots);
  times_.arrival.resize(num_slots);
  times_.reduces.resize(num_units);
  times_.optimizer_end.resize(num_units);
  executed_.resize(num_units);
  for (auto& order : executed_) order.reserve(static_cast<std::size_t>(shape.num_tasks()));
  if (!costs.slows_down()) return;
  gradients_left_.assign(num_units * static_cast<std::size_t>(shape.model_chunks),
                         shape.micro_batches);
  if (!costs.overlap_param_gather) return;
  for (std::size_t unit = 0; unit < num_units; ++unit) {
    for (int chunk = 1; chunk < shape.model_chunks; ++chunk) {
      units_[unit].budget.add(
          costs.gather[costs.chunk_index(static_cast<int>(stage_of(unit)), chunk)]);
    }
  }
}

std::size_t SimBackend::slot(std::size_t unit, TaskId task) const {
  const std::size_t replica_class = unit / static_cast<std::size_t>(costs_.shape.pipeline);
  return replica_class * layout_.size() + layout_.task(static_cast<int>(stage_of(unit)), task);
}

void SimBackend::push(Nanoseconds time, std::size_t unit, ExecutorEventKind kind,
                      std::int32_t index) {
  queue_.push(QueuedEvent::make(time, unit, kind, index));
}

void SimBackend::start() {
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    push(0, unit, ExecutorEventKind::StepStarted, 0);
  }
}

SimBackend::Arrival SimBackend::next_event() {
  const QueuedEvent queued = queue_.pop();
  MEGATWIN_ASSERT(queued.time >= now_, queued.time, " after ", now_);
  now_ = queued.time;
  const std::size_t unit = queued.rank();
  model::ExecutorEvent event{.kind = queued.kind(), .id = queued.index()};
  if (event.kind == ExecutorEventKind::TaskDone) {
    const TaskId task = executed_[unit][static_cast<std::size_t>(queued.index())];
    event.id = task.value;
    event.duration = model::quantise({charged_[slot(unit, task)]});
  }
  return {unit, event};
}

Nanoseconds SimBackend::duration_of(std::size_t unit, const Task& task) {
  const model::PipelineShape& shape = costs_.shape;
  const auto stage = static_cast<int>(stage_of(unit));
  const int replica_class = static_cast<int>(unit) / shape.pipeline;
  const int chunk = task.chunk.value;
  const Nanoseconds plain =
      costs_.task[costs_.task_index(replica_class, stage, shape.phase_of(task.kind), chunk)];
  if (!costs_.slows_down()) return plain;
  OverlapBudget& budget = units_[unit].budget;
  const Nanoseconds extended = budget.extended(plain, costs_.overlap_slowdown);
  if (task.kind == shape.last_kind()) {
    std::int32_t& left = gradients_left_[unit * static_cast<std::size_t>(shape.model_chunks) +
                                         static_cast<std::size_t>(chunk)];
    if (--left == 0 && costs_.overlap_grad_reduce) {
      budget.add(costs_.reduce[costs_.chunk_index(stage, chunk)]);
    }
  }
  return extended;
}

void SimBackend::issue_task(RankId rank, TaskId task) {
  const std::size_t unit = unit_of(rank);
  const std::size_t index = slot(unit, task);
  UnitState& state = units_[unit];
  const Task& what = programs_[stage_of(unit)].tasks[static_cast<std::size_t>(task.value)];
  charged_[index] = duration_of(unit, what);
  state.compute_free = std::max(state.compute_free, now_) + charged_[index];
  times_.end[index] = state.compute_free;
  push(state.compute_free, unit, ExecutorEventKind::TaskDone,
       static_cast<std::int32_t>(executed_[unit].size()));
  executed_[unit].push_back(task);
}

void SimBackend::issue_send(RankId rank, TaskId producer) {
  const std::size_t unit = unit_of(rank);
  const std::size_t index = slot(unit, producer);
  UnitState& state = units_[unit];
  const std::size_t stage = stage_of(unit);
  const model::Program& program = programs_[stage];
  const auto task_index = static_cast<std::size_t>(producer.value);
  const bool forward = program.tasks[task_index].kind == TaskKind::Forward;
  const Nanoseconds duration = costs_.send[forward ? 1 : 2];
  Nanoseconds arrival = 0;
  if (costs_.overlap_p2p) {
    Nanoseconds& lane_free = state.send_free[forward ? 0 : 1];
    lane_free = std::max({lane_free, times_.end[index], now_}) + duration;
    arrival = lane_free;
  } else {
    MEGATWIN_ASSERT(state.compute_free == times_.end[index], "a task came before the send");
    state.compute_free += duration;
    arrival = state.compute_free;
  }
  times_.arrival[index] = arrival;
  const model::Message& message = program.sends[task_index];
  const std::size_t receiver = unit - stage + static_cast<std::size_t>(message.stage.value);
  push(arrival, receiver, ExecutorEventKind::MessageArrived, message.task.value);
}

void SimBackend::issue_gather(RankId rank, model::ChunkId chunk) {
  const std::size_t unit = unit_of(rank);
  const Nanoseconds end =
      gather_ends_[stage_of(unit)][static_cast<std::size_t>(chunk.value)];
  push(end, unit, ExecutorEventKind::GatherDone, chunk.value);
}

// The last class to join starts the reduction for all; the lanes of one stage move together.
void SimBackend::issue_reduce(RankId rank, model::ChunkId chunk) {
  const std::size_t unit = unit_of(rank);
  const std::size_t stage = stage_of(unit);
  const std::size_t index = costs_.chunk_index(static_cast<int>(stage), chunk.value);
  Rendezvous& reduce = reduces_[index];
  reduce.ready = std::max(reduce.ready, now_);
  if (++reduce.joined < costs_.num_classes) return;
  const Nanoseconds start = std::max(reduce.ready, data_parallel_free_[stage]);
  const Nanoseconds end = start + costs_.reduce[index];
  data_parallel_free_[stage] = end;
  for (std::size_t member = stage; member < units_.size();
       member += static_cast<std::size_t>(costs_.shape.pipeline)) {
    times_.reduces[member].push_back({chunk, start, end});
    push(end, member, ExecutorEventKind::ReduceDone, chunk.value);
  }
}

void SimBackend::issue_optimizer(RankId rank) {
  const std::size_t unit = unit_of(rank);
  UnitState& state = units_[unit];
  state.compute_free = std::max(state.compute_free, now_) + costs_.optimizer[unit];
  times_.optimizer_end[unit] = state.compute_free;
  times_.makespan = std::max(times_.makespan, state.compute_free);
  push(state.compute_free, unit, ExecutorEventKind::OptimizerDone, 0);
}

void SimBackend::return_credit(RankId rank, TaskId consumer) {
  const std::size_t unit = unit_of(rank);
  const std::size_t stage = stage_of(unit);
  const model::Message& message =
      programs_[stage].receives[static_cast<std::size_t>(consumer.value)];
  const std::size_t sender = unit - stage + static_cast<std::size_t>(message.stage.value);
  push(now_, sender, ExecutorEventKind::CreditReturned, message.channel);
}

void SimBackend::announce(RankId, TaskId) {}

}  // namespace megatwin::sim
