#include "sim/sim_backend.h"

#include <algorithm>
#include <cmath>

#include "model/assert.h"
#include "sim/changing_costs.h"

namespace megatwin::sim {

using model::ExecutorEventKind;
using model::RankId;
using model::TaskId;

namespace {

std::size_t index_of(RankId rank) { return static_cast<std::size_t>(rank.value); }

}  // namespace

SimBackend::SimBackend(const PipelineCosts& costs,
                       const std::vector<std::vector<model::Program>>& programs,
                       const std::vector<LinkDisturbance>& links)
    : costs_(costs), links_(links), rows_(costs.shapes.begin(), costs.shapes.end()) {
  const model::PipelineShape& shape = costs.shape;
  const std::size_t num_units = costs.num_units();
  const std::size_t num_slots = costs.first_slot.back();
  for (const model::PipelineShape& one : costs.shapes) {
    MEGATWIN_ASSERT(one.num_tasks() < (1 << QueuedEvent::kIndexBits), one.num_tasks());
  }
  for (int replica_class = 0; replica_class < costs.num_classes; ++replica_class) {
    const auto index = static_cast<std::size_t>(replica_class);
    const auto own_shape = static_cast<std::size_t>(costs.shape_of_class[index]);
    for (int stage = 0; stage < shape.pipeline; ++stage) {
      units_.push_back({.replica_class = replica_class,
                        .stage = stage,
                        .class_unit = costs.unit(replica_class, 0),
                        .class_slot = costs.first_slot[index],
                        .durations = costs.task.data() + index * costs.class_stride(),
                        .sends = costs.class_sends(replica_class),
                        .rows = &rows_[own_shape],
                        .program = &programs[own_shape][static_cast<std::size_t>(stage)]});
    }
  }
  for (std::size_t unit = 0; unit < num_units; ++unit) {
    gather_ends_.push_back(gather_ends(costs, unit));
  }
  data_parallel_free_.resize(static_cast<std::size_t>(shape.pipeline));
  reduces_.resize(static_cast<std::size_t>(shape.virtual_stages()));
  for (int replica_class = 0; replica_class < costs.num_classes; ++replica_class) {
    num_with_gradients_ += costs.has_gradients(replica_class) ? 1 : 0;
  }
  times_.end.resize(num_slots);
  times_.arrival.resize(num_slots);
  if (!links_.empty()) {
    times_.send_start.resize(num_slots);
  }
  if (costs.is_decoupled()) {
    times_.crossing.resize(num_slots);
  }
  times_.reduces.resize(num_units);
  times_.optimizer_end.resize(num_units);
  executed_.resize(num_units);
  for (std::size_t unit = 0; unit < num_units; ++unit) {
    executed_[unit].reserve(units_[unit].program->tasks.size());
  }
  MEGATWIN_ASSERT(costs.changes.empty() || !(costs.slows_down() || costs.is_decoupled()),
                  "costs that change, and traffic or another side beside them");
  if (!costs.changes.empty()) charged_.resize(num_slots);
  if (!costs.slows_down()) {
    return;
  }
  charged_.resize(num_slots);
  for (const UnitState& unit : units_) {
    gradients_left_.insert(gradients_left_.end(), static_cast<std::size_t>(shape.model_chunks),
                           unit.program->shape.micro_batches);
  }
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

StepTimes SimBackend::take_times() && {
  if (!costs_.changes.empty()) times_.duration = std::move(charged_);
  return std::move(times_);
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
  const TaskRows::Place place = unit.rows->place(task);
  const TaskRow& row = unit.rows->row(unit.stage, place);
  if (charged_.empty()) {
    return unit.durations[row.cost];
  }
  return charged_[unit.class_slot + row.slot + place.micro_batch];
}

// The duration of the next task in the compute lane of `rank`.
Nanoseconds SimBackend::charge(RankId rank, const TaskRow& row, Nanoseconds start) {
  UnitState& state = unit(rank);
  const Nanoseconds plain = state.durations[row.cost];
  if (!costs_.changes.empty()) {
    const std::size_t index =
        static_cast<std::size_t>(state.replica_class) * costs_.class_stride() + row.cost;
    return changing_duration(costs_.changes, start, [&](std::size_t k) {
      return k == 0 ? plain : costs_.changes[k - 1].task[index];
    });
  }
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
  const TaskRows::Place place = state.rows->place(task);
  const TaskRow& row = state.rows->row(state.stage, place);
  const std::size_t slot = state.class_slot + row.slot + place.micro_batch;
  const Nanoseconds start = std::max(state.compute_free, now_);
  const Nanoseconds duration = charge(rank, row, start);
  if (!charged_.empty()) {
    charged_[slot] = duration;
  }
  state.compute_free = start + duration;
  times_.end[slot] = state.compute_free;
  policies::Order& executed = executed_[index_of(rank)];
  push(state.compute_free, index_of(rank), ExecutorEventKind::TaskDone,
       static_cast<std::int32_t>(executed.size()));
  executed.push_back(task);
}

void SimBackend::issue_send(RankId rank, TaskId producer) {
  UnitState& state = unit(rank);
  const TaskRows::Place place = state.rows->place(producer);
  const TaskRow& row = state.rows->row(state.stage, place);
  const std::size_t slot = state.class_slot + row.slot + place.micro_batch;
  const model::Message& message = state.program->sends[static_cast<std::size_t>(producer.value)];
  MEGATWIN_ASSERT(costs_.overlap_p2p || state.compute_free == times_.end[slot],
                  "a task came before the send");
  Nanoseconds& lane_free = costs_.overlap_p2p
                               ? state.send_free[row.send == SendKind::Activation ? 0 : 1]
                               : state.compute_free;
  const Nanoseconds start = std::max({lane_free, times_.end[slot], now_});
  const Nanoseconds arrival =
      start + disturbed(state.sends[row.send_cost], {state.stage}, message.stage, start);
  lane_free = arrival;
  times_.arrival[slot] = arrival;
  if (!times_.send_start.empty()) {
    times_.send_start[slot] = start;
  }
  push(arrival, state.class_unit + static_cast<std::size_t>(message.stage.value),
       ExecutorEventKind::MessageArrived, message.task.value);
}

void SimBackend::issue_crossing(RankId rank, TaskId producer) {
  UnitState& state = unit(rank);
  const TaskRows::Place place = state.rows->place(producer);
  const TaskRow& row = state.rows->row(state.stage, place);
  const std::size_t slot = state.class_slot + row.slot + place.micro_batch;
  const auto stage = static_cast<std::size_t>(state.stage);
  const auto index = static_cast<std::size_t>(producer.value);
  const auto arrive = [&](const model::Message& message, Nanoseconds arrival) {
    times_.crossing[slot] = arrival;
    push(arrival,
         costs_.unit(costs_.class_across(state.replica_class, message), message.stage.value),
         ExecutorEventKind::MessageArrived, message.task.value);
  };
  if (state.program->feeds(producer)) {
    const bool at_begin = row.is_forward && costs_.feed_kind == model::SideFeed::StageInput;
    const Nanoseconds ready = times_.end[slot] - (at_begin ? charged(state, producer) : 0);
    state.cross_free = std::max(state.cross_free, ready) +
                       (row.is_forward ? costs_.feed[stage] : costs_.weight_input[stage]);
    arrive(state.program->crossings[index], state.cross_free);
  }
  if (state.program->makes_room(producer)) {
    arrive(state.program->rooms[index], std::max(state.cross_free, times_.end[slot]));
  }
}

Nanoseconds SimBackend::disturbed(Nanoseconds plain, model::StageId from, model::StageId to,
                                  Nanoseconds start) const {
  double factor = 1;
  for (const LinkDisturbance& link : links_) {
    if (link.touches(from, to) && start >= link.since.ns) {
      factor *= link.factor;
    }
  }
  return factor == 1 ? plain : std::llround(factor * static_cast<double>(plain));
}

void SimBackend::issue_gather(RankId rank, model::ChunkId chunk) {
  push(gather_ends_[index_of(rank)][static_cast<std::size_t>(chunk.value)], index_of(rank),
       ExecutorEventKind::GatherDone, chunk.value);
}

// The last class to join starts the reduction for all; the lanes of one stage move together. A
// forward side only sends its gradients, if it has any.
void SimBackend::issue_reduce(RankId rank, model::ChunkId chunk) {
  const auto stage = static_cast<std::size_t>(unit(rank).stage);
  const std::size_t index = costs_.chunk_index(unit(rank).stage, chunk.value);
  Rendezvous& reduce = reduces_[index];
  UnitState& state = unit(rank);
  if (!costs_.reduces(state.replica_class)) {
    Nanoseconds sent = now_;
    if (costs_.has_gradients(state.replica_class)) {
      sent = std::max(now_, state.cross_free) + costs_.gradients[stage];
      reduce.ready = std::max(reduce.ready, sent);
      ++reduce.joined;
    }
    times_.reduces[index_of(rank)].push_back({chunk, now_, sent});
    push(sent, index_of(rank), ExecutorEventKind::ReduceDone, chunk.value);
  } else {
    ++reduce.joined;
  }
  if (reduce.joined < num_with_gradients_ ||
      (!costs_.reduces(state.replica_class) && !costs_.has_gradients(state.replica_class))) {
    return;
  }
  const Nanoseconds start = std::max({now_, reduce.ready, data_parallel_free_[stage]});
  const Nanoseconds end = start + costs_.reduce[index];
  data_parallel_free_[stage] = end;
  for (std::size_t member = stage; member < units_.size();
       member += static_cast<std::size_t>(costs_.shape.pipeline)) {
    if (!costs_.reduces(units_[member].replica_class)) continue;
    times_.reduces[member].push_back({chunk, start, end});
    push(end, member, ExecutorEventKind::ReduceDone, chunk.value);
  }
}

void SimBackend::issue_optimizer(RankId rank) {
  UnitState& state = unit(rank);
  const Nanoseconds start = std::max(state.compute_free, now_);
  state.compute_free = start + optimizer_duration(costs_, index_of(rank), start);
  times_.optimizer_end[index_of(rank)] = state.compute_free;
  times_.makespan = std::max(times_.makespan, state.compute_free);
  push(state.compute_free, index_of(rank), ExecutorEventKind::OptimizerDone, 0);
}

void SimBackend::return_credit(RankId rank, TaskId consumer) {
  const UnitState& state = unit(rank);
  const model::Message& message = state.program->receives[static_cast<std::size_t>(consumer.value)];
  push(now_, state.class_unit + static_cast<std::size_t>(message.stage.value),
       ExecutorEventKind::CreditReturned, message.channel);
}

void SimBackend::announce(RankId, TaskId) {}

}  // namespace megatwin::sim
