#include "sim/sim_backend.h"

#include <algorithm>
#include <cmath>

#include "model/assert.h"

namespace megatwin::sim {

using model::ExecutorEventKind;
using model::RankId;
using model::TaskId;

namespace {

std::size_t index_of(RankId rank) { return static_cast<std::size_t>(rank.value); }

}  // namespace

SimBackend::SimBackend(const PipelineCosts& costs, const std::vector<model::Program>& programs,
                       const std::vector<LinkDisturbance>& links)
    : costs_(costs), programs_(programs), links_(links), rows_(costs.shape) {
  const model::PipelineShape& shape = costs.shape;
  const SlotLayout layout{shape};
  const std::size_t num_units = costs.num_units();
  const std::size_t num_slots = static_cast<std::size_t>(costs.num_classes) * layout.size();
  MEGATWIN_ASSERT(shape.num_tasks() < (1 << QueuedEvent::kIndexBits), shape.num_tasks());
  for (std::size_t replica_class = 0; replica_class < static_cast<std::size_t>(costs.num_classes);
       ++replica_class) {
    for (int stage = 0; stage < shape.pipeline; ++stage) {
      units_.push_back({.stage = stage,
                        .class_unit = replica_class * static_cast<std::size_t>(shape.pipeline),
                        .class_slot = replica_class * layout.size(),
                        .durations = costs.task.data() + replica_class * costs.class_stride()});
    }
  }
  for (int stage = 0; stage < shape.pipeline; ++stage) {
    gather_ends_.push_back(gather_ends(costs, stage));
  }
  data_parallel_free_.resize(static_cast<std::size_t>(shape.pipeline));
  reduces_.resize(static_cast<std::size_t>(shape.virtual_stages()));
  times_.end.resize(num_slots);
  times_.arrival.resize(num_slots);
  if (!links_.empty()) {
    times_.send_start.resize(num_slots);
  }
  times_.reduces.resize(num_units);
  times_.optimizer_end.resize(num_units);
  executed_.resize(num_units);
  for (auto& order : executed_) {
    order.reserve(static_cast<std::size_t>(shape.num_tasks()));
  }
  if (!costs.slows_down()) {
    return;
  }
  charged_.resize(num_slots);
  gradients_left_.assign(num_units * static_cast<std::size_t>(shape.model_chunks),
                         shape.micro_batches);
  if (!costs.overlap_param_gather) {
    return;
  }
  for (UnitState& unit : units_) {
    for (int chunk = 1; chunk < shape.model_chunks; ++chunk) {
      unit.budget.add(costs.gather[costs.chunk_index(unit.stage, chunk)]);
    }
  }
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
    event.duration = model::quantise({charged(units_[unit], task)});
  }
  return {unit, event};
}

Nanoseconds SimBackend::charged(const UnitState& unit, TaskId task) const {
  const TaskRows::Place place = rows_.place(task);
  const TaskRow& row = rows_.row(unit.stage, place);
  if (charged_.empty()) {
    return unit.durations[row.cost];
  }
  return charged_[unit.class_slot + row.slot + place.micro_batch];
}

// The duration of the next task in the compute lane of `rank`.
Nanoseconds SimBackend::charge(RankId rank, const TaskRow& row) {
  UnitState& state = unit(rank);
  const Nanoseconds plain = state.durations[row.cost];
  if (!costs_.slows_down()) {
    return plain;
  }
  const Nanoseconds extended = state.budget.extended(plain, costs_.overlap_slowdown);
  if (!row.is_last) {
    return extended;
  }
  const auto num_chunks = static_cast<std::size_t>(costs_.shape.model_chunks);
  if (--gradients_left_[index_of(rank) * num_chunks + row.chunk] == 0 &&
      costs_.overlap_grad_reduce) {
    state.budget.add(costs_.reduce[costs_.chunk_index(state.stage, row.chunk)]);
  }
  return extended;
}

void SimBackend::issue_task(RankId rank, TaskId task) {
  UnitState& state = unit(rank);
  const TaskRows::Place place = rows_.place(task);
  const TaskRow& row = rows_.row(state.stage, place);
  const std::size_t slot = state.class_slot + row.slot + place.micro_batch;
  const Nanoseconds duration = charge(rank, row);
  if (!charged_.empty()) {
    charged_[slot] = duration;
  }
  state.compute_free = std::max(state.compute_free, now_) + duration;
  times_.end[slot] = state.compute_free;
  policies::Order& executed = executed_[index_of(rank)];
  push(state.compute_free, index_of(rank), ExecutorEventKind::TaskDone,
       static_cast<std::int32_t>(executed.size()));
  executed.push_back(task);
}

void SimBackend::issue_send(RankId rank, TaskId producer) {
  UnitState& state = unit(rank);
  const TaskRows::Place place = rows_.place(producer);
  const TaskRow& row = rows_.row(state.stage, place);
  const std::size_t slot = state.class_slot + row.slot + place.micro_batch;
  const model::Message& message = programs_[static_cast<std::size_t>(state.stage)]
                                      .sends[static_cast<std::size_t>(producer.value)];
  MEGATWIN_ASSERT(costs_.overlap_p2p || state.compute_free == times_.end[slot],
                  "a task came before the send");
  Nanoseconds& lane_free = costs_.overlap_p2p
                               ? state.send_free[row.send == SendKind::Activation ? 0 : 1]
                               : state.compute_free;
  const Nanoseconds start = std::max({lane_free, times_.end[slot], now_});
  const Nanoseconds arrival = start + transfer_time(row.send, {state.stage}, message.stage, start);
  lane_free = arrival;
  times_.arrival[slot] = arrival;
  if (!times_.send_start.empty()) {
    times_.send_start[slot] = start;
  }
  push(arrival, state.class_unit + static_cast<std::size_t>(message.stage.value),
       ExecutorEventKind::MessageArrived, message.task.value);
}

Nanoseconds SimBackend::transfer_time(SendKind kind, model::StageId from, model::StageId to,
                                      Nanoseconds start) const {
  const Nanoseconds plain = costs_.send[static_cast<std::size_t>(kind)];
  double factor = 1;
  for (const LinkDisturbance& link : links_) {
    if (link.touches(from, to) && start >= link.since.ns) {
      factor *= link.factor;
    }
  }
  return factor == 1 ? plain : std::llround(factor * static_cast<double>(plain));
}

void SimBackend::issue_gather(RankId rank, model::ChunkId chunk) {
  const auto stage = static_cast<std::size_t>(unit(rank).stage);
  push(gather_ends_[stage][static_cast<std::size_t>(chunk.value)], index_of(rank),
       ExecutorEventKind::GatherDone, chunk.value);
}

// The last class to join starts the reduction for all; the lanes of one stage move together.
void SimBackend::issue_reduce(RankId rank, model::ChunkId chunk) {
  const auto stage = static_cast<std::size_t>(unit(rank).stage);
  const std::size_t index = costs_.chunk_index(unit(rank).stage, chunk.value);
  Rendezvous& reduce = reduces_[index];
  if (++reduce.joined < costs_.num_classes) {
    return;
  }
  const Nanoseconds start = std::max(now_, data_parallel_free_[stage]);
  const Nanoseconds end = start + costs_.reduce[index];
  data_parallel_free_[stage] = end;
  for (std::size_t member = stage; member < units_.size();
       member += static_cast<std::size_t>(costs_.shape.pipeline)) {
    times_.reduces[member].push_back({chunk, start, end});
    push(end, member, ExecutorEventKind::ReduceDone, chunk.value);
  }
}

void SimBackend::issue_optimizer(RankId rank) {
  UnitState& state = unit(rank);
  state.compute_free = std::max(state.compute_free, now_) + costs_.optimizer[index_of(rank)];
  times_.optimizer_end[index_of(rank)] = state.compute_free;
  times_.makespan = std::max(times_.makespan, state.compute_free);
  push(state.compute_free, index_of(rank), ExecutorEventKind::OptimizerDone, 0);
}

void SimBackend::return_credit(RankId rank, TaskId consumer) {
  const UnitState& state = unit(rank);
  const model::Message& message = programs_[static_cast<std::size_t>(state.stage)]
                                      .receives[static_cast<std::size_t>(consumer.value)];
  push(now_, state.class_unit + static_cast<std::size_t>(message.stage.value),
       ExecutorEventKind::CreditReturned, message.channel);
}

void SimBackend::announce(RankId, TaskId) {}

}  // namespace megatwin::sim
