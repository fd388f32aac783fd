#include "exec/host_backend.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "model/assert.h"

namespace megatwin::exec {

using model::ExecutorEvent;
using model::ExecutorEventKind;
using model::Message;
using model::RankId;
using model::Task;
using model::TaskId;
using model::TaskKind;

HostBackend::HostBackend(const HostBackendSetup& setup)
    : setup_(setup), coordinates_(setup.layout.coordinates(setup.rank)) {}

void HostBackend::start_step(int step) {
  MEGATWIN_ASSERT(lane_.empty(), "step ", step, " starts before the last ended");
  step_ = step;
  outbox().start_step(setup_.job.executor.receive_slots);
  may_cross_.assign(static_cast<std::size_t>(setup_.program.num_tasks()), false);
  executed_.clear();
  losses_.assign(static_cast<std::size_t>(setup_.program.shape.micro_batches), 0);
}

void HostBackend::issue_task(RankId, TaskId task) { lane_.push_back(task); }

// What it makes leaves by itself, when it is made or with the credit: see exec/outbox.h.
void HostBackend::issue_send(RankId, TaskId) {}

void HostBackend::issue_crossing(RankId, TaskId producer) {
  may_cross_[static_cast<std::size_t>(producer.value)] = true;
}

void HostBackend::issue_gather(RankId, model::ChunkId chunk) {
  if (records()) gathers_[chunk] = now();
  setup_.exchanges[static_cast<std::size_t>(chunk.value)]->join_gather();
}

void HostBackend::issue_reduce(RankId, model::ChunkId chunk) {
  if (records()) reduces_[chunk] = now();
  setup_.exchanges[static_cast<std::size_t>(chunk.value)]->join_reduce();
}

void HostBackend::issue_optimizer(RankId) {
  optimizer_issued_ = true;
  activity_ = "optimizer";
  // Here, so that whoever has it says so, and no rank steps on to a checkpoint.
  if (const auto name = setup_.model.gradient_not_finite()) {
    throw std::runtime_error("the gradient of " + *name + " is not finite");
  }
  if (setup_.job.gradient_norm_max > 0) {
    setup_.norm.join(setup_.model.norm_parts());
  }
}

void HostBackend::return_credit(RankId, TaskId consumer) {
  const Message& message = setup_.program.receives[static_cast<std::size_t>(consumer.value)];
  setup_.world.post(at_stage(message.stage),
                    {.kind = ExecutorEventKind::CreditReturned, .id = message.channel});
}

void HostBackend::announce(RankId, TaskId task) {
  for (const RankId member : setup_.lockstep) {
    if (member != setup_.rank) {
      setup_.world.post(member, {.kind = ExecutorEventKind::OrderAnnounced, .id = task.value});
    }
  }
}

std::optional<ExecutorEvent> HostBackend::run_next() {
  if (lane_.empty()) {
    if (!optimizer_issued_ ||
        (setup_.job.gradient_norm_max > 0 && !setup_.norm.norm().has_value())) {
      return std::nullopt;
    }
    setup_.world.set_activity(setup_.rank, {step_, HostWorld::Activity::Optimizer});
    const model::Instant begun = now();
    run_optimizer();
    optimizer_issued_ = false;
    if (records()) {
      record(model::Lane::Compute, model::EventKind::Optimizer, Task{}, {begun, now()});
    }
    return ExecutorEvent{.kind = ExecutorEventKind::OptimizerDone};
  }
  const TaskId task = lane_.front();
  lane_.pop_front();
  const model::Instant start = now();
  run_task(task);
  const model::Instant duration = now() - start;
  setup_.world.progress();
  return ExecutorEvent{
      .kind = ExecutorEventKind::TaskDone, .duration = model::quantise(duration), .id = task.value};
}

void HostBackend::run_task(TaskId id) {
  const Task& task = setup_.program.tasks[static_cast<std::size_t>(id.value)];
  activity_ = to_text(task);
  setup_.world.set_activity(setup_.rank, {step_, id.value});
  const model::Instant start = now();
  const TaskMoment moment{setup_.rank, step_, task};
  if (setup_.job.hooks.before_task) {
    setup_.job.hooks.before_task(moment);
  }
  const std::vector<float> input = take_input(id);
  const bool feeds = setup_.program.feeds(id);
  const bool feeds_input =
      task.kind == TaskKind::Forward && !setup_.job.plan.decoupled.ship_activations;
  if (feeds && feeds_input) {
    cross(id, input);
  }
  setup_.world.set_computes(setup_.rank, true);
  RankModel::Outcome outcome = setup_.model.run(task, step_, input);
  setup_.world.set_computes(setup_.rank, false);
  if (setup_.job.hooks.after_task) {
    setup_.job.hooks.after_task(moment, outcome.message);
  }
  check_finite(outcome);
  executed_.push_back(id);
  if (records()) record(model::Lane::Compute, event_kind(task.kind), task, {start, now()});
  if (outcome.loss) {
    const int place = setup_.program.shape.place_of(task.micro_batch);
    losses_[static_cast<std::size_t>(place)] = *outcome.loss;
  }
  if (feeds && !feeds_input) {
    cross(id, outcome.crossing);
  }
  if (setup_.program.makes_room(id)) {
    setup_.crossing->make_room(id);
  }
  if (outcome.message.empty()) {
    return;
  }
  if (!setup_.program.sends[static_cast<std::size_t>(id.value)].exists()) {
    setup_.world.mailbox(setup_.rank).put(*local_consumer(task), std::move(outcome.message));
    return;
  }
  send(id, std::move(outcome.message));
}

void HostBackend::run_optimizer() {
  double scale = 1;
  if (setup_.job.gradient_norm_max > 0) {
    const double norm = *setup_.norm.norm();
    MEGATWIN_ASSERT(std::isfinite(norm), "of finite gradients: ", norm);
    scale = std::min(1.0, setup_.job.gradient_norm_max / (norm + 1e-6));
  }
  setup_.world.set_computes(setup_.rank, true);
  setup_.model.step_optimizer({.step = step_, .gradient_scale = scale});
  setup_.world.set_computes(setup_.rank, false);
}

void HostBackend::send(TaskId producer, std::vector<float> message) {
  const Message& tag = setup_.program.sends[static_cast<std::size_t>(producer.value)];
  auto outgoing = outbox().put(tag.channel, {.producer = producer,
                                             .to = at_stage(tag.stage),
                                             .consumer = tag.task,
                                             .message = std::move(message),
                                             .made = std::chrono::steady_clock::now()});
  if (outgoing) {
    setup_.world.deliver(outgoing->to, outgoing->consumer, std::move(outgoing->message));
  }
}

void HostBackend::end_step() {
  const std::vector<Outbox::Sent> all = outbox().take_sent();
  if (!records()) {
    return;
  }
  for (const Outbox::Sent& sent : all) {
    const Task& task = setup_.program.tasks[static_cast<std::size_t>(sent.producer.value)];
    const bool forward = task.kind == TaskKind::Forward;
    record(forward ? model::Lane::SendForward : model::Lane::SendBackward,
           forward ? model::EventKind::SendActivation : model::EventKind::SendGradient, task,
           {at(sent.made), at(sent.left)});
  }
}

void HostBackend::cross(TaskId producer, std::span<const float> numbers) {
  MEGATWIN_ASSERT(may_cross_[static_cast<std::size_t>(producer.value)], producer.value);
  setup_.crossing->send(producer, numbers);
}

void HostBackend::note_event(const ExecutorEvent& event) {
  const auto end = [&](std::map<model::ChunkId, model::Instant>& issued, model::EventKind kind) {
    const auto found = issued.find({event.id});
    if (found == issued.end()) {
      return;
    }
    record(model::Lane::DataParallel, kind, {.micro_batch = {-1}, .chunk = {event.id}},
           {found->second, now()});
    issued.erase(found);
  };
  if (event.kind == ExecutorEventKind::GatherDone) {
    end(gathers_, model::EventKind::ParameterGather);
  } else if (event.kind == ExecutorEventKind::ReduceDone) {
    end(reduces_, model::EventKind::GradientReduce);
  }
}

model::Instant HostBackend::at(std::chrono::steady_clock::time_point time) const {
  const std::chrono::nanoseconds since = time - setup_.start;
  return {since.count()};
}

void HostBackend::record(model::Lane lane, model::EventKind kind, const Task& task,
                         const Span& span) {
  const bool numbered = kind != model::EventKind::Optimizer;
  timeline_.push_back({.rank = setup_.rank,
                       .lane = lane,
                       .kind = kind,
                       .micro_batch = numbered ? task.micro_batch : model::MicroBatchId{-1},
                       .chunk = task.chunk,
                       .start = span.start,
                       .end = span.end});
}

std::vector<float> HostBackend::take_input(TaskId id) {
  const Task& task = setup_.program.tasks[static_cast<std::size_t>(id.value)];
  const bool from_other_side =
      task.kind == TaskKind::Recompute || task.kind == TaskKind::BackwardWeight;
  const bool has_none =
      from_other_side ? !setup_.program.awaits_crossing(id) : is_first_of_pipeline(task);
  if (has_none) {
    return {};
  }
  return setup_.world.mailbox(setup_.rank).take_message(id);
}

RankId HostBackend::at_stage(model::StageId stage) const {
  model::RankCoordinates coordinates = coordinates_;
  coordinates.pipeline = stage.value;
  return setup_.layout.rank_at(setup_.layout.instance(setup_.rank), coordinates);
}

// The first forward reads tokens, the first backward starts from the loss.
bool HostBackend::is_first_of_pipeline(const Task& task) const {
  const model::PipelineShape& shape = setup_.program.shape;
  const int virtual_stage = shape.virtual_stage(setup_.program.stage, task.chunk);
  return virtual_stage == (task.kind == TaskKind::Forward ? 0 : shape.virtual_stages() - 1);
}

std::optional<TaskId> HostBackend::local_consumer(const Task& task) const {
  const model::PipelineShape& shape = setup_.program.shape;
  const int virtual_stage = shape.virtual_stage(setup_.program.stage, task.chunk);
  const int next = virtual_stage + (task.kind == TaskKind::Forward ? 1 : -1);
  if (next < 0 || next == shape.virtual_stages() || shape.stage_of(next) != setup_.program.stage) {
    return std::nullopt;
  }
  return shape.task_id({task.kind, task.micro_batch, shape.chunk_of(next)});
}

void HostBackend::check_finite(const RankModel::Outcome& outcome) const {
  if (outcome.loss && !std::isfinite(*outcome.loss)) {
    throw std::runtime_error("the loss is not finite");
  }
  const bool finite = std::all_of(outcome.message.begin(), outcome.message.end(),
                                  [](float value) { return std::isfinite(value); });
  if (!finite) {
    throw std::runtime_error("the output is not finite");
  }
}

}  // namespace megatwin::exec
