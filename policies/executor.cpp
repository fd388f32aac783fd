#include "policies/executor.h"

#include <algorithm>
#include <bit>

#include "model/assert.h"
#include "policies/state_hash.h"

namespace megatwin::policies {

using model::ChunkId;
using model::ExecutorEvent;
using model::ExecutorEventKind;
using model::Message;
using model::Task;
using model::TaskId;
using model::TaskKind;

namespace {

constexpr std::uint8_t kIssued = 0xfe;
constexpr std::uint8_t kDone = 0xff;

// Weight of the newest duration in the moving average.
constexpr std::int64_t kAverageLength = 8;

constexpr std::size_t words_for(int num_tasks) {
  return (static_cast<std::size_t>(num_tasks) + 63) / 64;
}

}  // namespace

Executor::Executor(const ExecutorSetup& setup)
    : program_(&setup.program),
      backend_(&setup.backend),
      scratch_(&setup.scratch),
      order_(setup.order),
      policy_(setup.policy),
      log_(setup.log),
      rank_(setup.rank),
      source_(setup.source),
      options_(setup.options),
      memory_used_(setup.program.fixed_memory),
      waits_(setup.program.num_waits) {
  MEGATWIN_ASSERT(options_.issue_depth >= 1, options_.issue_depth);
  MEGATWIN_ASSERT((source_ == OrderSource::Policy) == (policy_ != nullptr));
  MEGATWIN_ASSERT(options_.receive_slots == 0 || program_->overlap_p2p,
                  "a send that holds the compute lane cannot wait for a slot");
  const int num_tasks = program_->num_tasks();
  const auto num_chunks = static_cast<std::size_t>(program_->shape.model_chunks);
  MEGATWIN_ASSERT(source_ != OrderSource::List || std::ssize(order_) == num_tasks, order_.size());
  chunks_.resize(num_chunks);
  std::fill(std::begin(free_slots_), std::end(free_slots_), options_.receive_slots);
  if (options_.receive_slots > 0) {
    held_.resize(words_for(num_tasks));
  }
  if (source_ == OrderSource::Announced ||
      (source_ == OrderSource::Policy && options_.receive_slots > 0)) {
    sequence_.reserve(static_cast<std::size_t>(num_tasks));
  }
  if (source_ != OrderSource::Policy) {
    return;
  }
  const auto num_averages = static_cast<std::size_t>(program_->shape.num_rows());
  averages_.resize(num_averages);
  average_codes_.resize(num_averages);
  ready_.resize(words_for(num_tasks));
  for (std::int32_t id = 0; id < num_tasks; ++id) {
    if (waits({id}) == 0) {
      set_ready({id}, true);
    }
  }
}

std::size_t Executor::state_bytes() const {
  const auto bytes = [](const auto& vector) { return vector.capacity() * sizeof(vector[0]); };
  return sizeof(*this) + bytes(waits_) + bytes(ready_) + bytes(held_) + bytes(sequence_) +
         bytes(chunks_) + bytes(averages_) + bytes(average_codes_);
}

bool Executor::accepts(const ExecutorEvent& event) const {
  const auto index = static_cast<std::size_t>(event.id);
  const bool is_task = event.id >= 0 && event.id < program_->num_tasks();
  const bool is_chunk = event.id >= 0 && event.id < program_->shape.model_chunks;
  switch (event.kind) {
    case ExecutorEventKind::StepStarted:
      return tasks_done_ == 0 && in_flight_ == 0;
    case ExecutorEventKind::TaskDone:
      return is_task && waits_[index] == kIssued;
    case ExecutorEventKind::MessageArrived:
      return is_task &&
             (program_->receives[index].exists() || program_->awaits_crossing({event.id})) &&
             waits_[index] > 0 && waits_[index] < kIssued;
    case ExecutorEventKind::GatherDone:
      return is_chunk;
    case ExecutorEventKind::ReduceDone:
      return is_chunk && chunks_reduced_ < chunks_done_;
    case ExecutorEventKind::OptimizerDone:
      return chunks_reduced_ == program_->shape.model_chunks && !finished_;
    case ExecutorEventKind::CreditReturned:
      return event.id >= 0 && event.id < model::kNumChannels && options_.receive_slots > 0;
    case ExecutorEventKind::OrderAnnounced:
      return is_task && source_ == OrderSource::Announced && sequence_.size() < waits_.size();
  }
  return false;
}

void Executor::on_event(const ExecutorEvent& event) {
  MEGATWIN_ASSERT(accepts(event), "rank ", rank_.value, " event kind ",
                  static_cast<int>(event.kind), " id ", event.id);
  if (log_ != nullptr) {
    log_->events.push_back(event);
  }
  switch (event.kind) {
    case ExecutorEventKind::StepStarted:
      for (std::int32_t chunk = 0; chunk < program_->shape.model_chunks; ++chunk) {
        backend_->issue_gather(rank_, {chunk});
      }
      return;
    case ExecutorEventKind::TaskDone:
      on_task_done(event);
      break;
    case ExecutorEventKind::MessageArrived:
      satisfy({event.id});
      break;
    case ExecutorEventKind::GatherDone: {
      const std::int32_t first = event.id * program_->shape.micro_batches;
      const bool is_forward_side = program_->shape.side == model::PipelineSide::Forward;
      const int waiting = is_forward_side ? program_->num_tasks() : program_->shape.micro_batches;
      for (std::int32_t n = 0; n < waiting; ++n) {
        satisfy({first + n});
      }
      break;
    }
    case ExecutorEventKind::ReduceDone:
      if (++chunks_reduced_ == program_->shape.model_chunks) {
        backend_->issue_optimizer(rank_);
      }
      return;
    case ExecutorEventKind::OptimizerDone:
      finished_ = true;
      return;
    case ExecutorEventKind::CreditReturned:
      on_credit(event.id);
      break;
    case ExecutorEventKind::OrderAnnounced:
      sequence_.push_back({event.id});
      break;
  }
  advance();
}

void Executor::on_task_done(const ExecutorEvent& event) {
  const TaskId id{event.id};
  const Task& task = program_->tasks[static_cast<std::size_t>(id.value)];
  waits(id) = kDone;
  --in_flight_;
  ++tasks_done_;
  release_memory(task);
  if (source_ == OrderSource::Policy) {
    update_average(task, event.duration);
  }
  if (options_.receive_slots > 0 &&
      program_->receives[static_cast<std::size_t>(id.value)].exists()) {
    backend_->return_credit(rank_, id);
  }
  // The tasks of a side of a decoupled pipeline end in any order.
  if (program_->shape.side != model::PipelineSide::Both) {
    if (tasks_done_ == program_->num_tasks()) {
      on_chunk_done(task.chunk);
    }
    return;
  }
  if (task.kind != program_->shape.last_kind()) {
    return;
  }
  if (++chunk_state(task.chunk).gradients_done == program_->shape.micro_batches) {
    on_chunk_done(task.chunk);
  }
}

void Executor::on_chunk_done(ChunkId chunk) {
  chunks_[static_cast<std::size_t>(chunks_done_)].finish_rank = chunk.value;
  ++chunks_done_;
  if (program_->overlap_grad_reduce) {
    backend_->issue_reduce(rank_, chunk);
    return;
  }
  if (tasks_done_ < program_->num_tasks()) {
    return;
  }
  for (const ChunkState& state : chunks_) {
    backend_->issue_reduce(rank_, {state.finish_rank});
  }
}

// The members of a tensor-parallel group issue alike, so they must send alike: what was held goes
// in the order of issue. Otherwise one member's slot could fill with a message that the leader
// needs later than the one it keeps out.
void Executor::on_credit(std::int32_t channel) {
  ++free_slots_[channel];
  if (std::all_of(held_.begin(), held_.end(), [](std::uint64_t word) { return word == 0; })) {
    return;
  }
  for (const TaskId task : issued()) {
    const auto index = static_cast<std::size_t>(task.value);
    const std::uint64_t bit = std::uint64_t{1} << (index % 64);
    if ((held_[index / 64] & bit) == 0 || program_->sends[index].channel != channel) {
      continue;
    }
    held_[index / 64] &= ~bit;
    backend_->issue_send(rank_, task);
    return;
  }
}

std::span<const TaskId> Executor::issued() const {
  return source_ == OrderSource::List ? order_.first(position_)
                                      : std::span<const TaskId>(sequence_);
}

void Executor::satisfy(TaskId task) {
  std::uint8_t& left = waits(task);
  MEGATWIN_ASSERT(left > 0 && left < kIssued, "task ", task.value, " waits for ", int{left});
  if (--left == 0 && source_ == OrderSource::Policy) {
    set_ready(task, true);
  }
}

void Executor::set_ready(TaskId task, bool ready) {
  const auto index = static_cast<std::size_t>(task.value);
  const std::uint64_t bit = std::uint64_t{1} << (index % 64);
  ready ? ready_[index / 64] |= bit : ready_[index / 64] &= ~bit;
}

void Executor::release_memory(const Task& task) {
  const model::ChunkMemory& memory =
      program_->chunk_memory[static_cast<std::size_t>(task.chunk.value)];
  switch (task.kind) {
    case TaskKind::Backward:
      memory_used_ -= memory.activation;
      return;
    case TaskKind::BackwardInput:
      memory_used_ -= memory.activation;
      if (program_->shape.side == model::PipelineSide::Both) {
        memory_used_ += memory.weight_gradient_input;
      }
      return;
    case TaskKind::BackwardWeight:
      memory_used_ -= memory.weight_gradient_input;
      return;
    case TaskKind::Forward:
      if (program_->shape.side == model::PipelineSide::Forward) {
        memory_used_ -= memory.activation;
      }
      return;
    case TaskKind::Recompute:
      return;
  }
}

void Executor::update_average(const Task& task, model::QuantisedDuration duration) {
  const model::PipelineShape& shape = program_->shape;
  const int row = shape.row_of(task);
  const auto index = static_cast<std::size_t>(row);
  const std::int64_t ns = model::dequantise(duration).ns;
  std::int64_t& average = averages_[index].ns;
  average = average_codes_[index] == 0 ? ns : average + (ns - average) / kAverageLength;
  average_codes_[index] = model::quantise({average});
}

void Executor::advance() {
  switch (source_) {
    case OrderSource::List:
      walk_list(order_);
      return;
    case OrderSource::Announced:
      walk_list(sequence_);
      return;
    case OrderSource::Policy:
      while (in_flight_ < options_.issue_depth && ask_policy()) {
      }
      return;
  }
}

void Executor::walk_list(std::span<const TaskId> order) {
  while (in_flight_ < options_.issue_depth && position_ < order.size() &&
         waits(order[position_]) == 0) {
    const TaskId task = order[position_];
    if (log_ != nullptr) {
      record_decision(task.value, position_);
    }
    ++position_;
    issue(task);
  }
}

// Whether the policy picked something.
bool Executor::ask_policy() {
  collect_ready();
  if (scratch_->ready.empty()) {
    return false;
  }
  const Observation observation{.program = *program_,
                                .ready = scratch_->ready,
                                .memory_used = memory_used_,
                                .memory_limit = options_.memory_limit,
                                .receive_slots = options_.receive_slots,
                                .free_slots = free_slots_,
                                .in_flight = in_flight_,
                                .issue_depth = options_.issue_depth,
                                .durations = average_codes_};
  const std::uint64_t hash = log_ != nullptr ? state_hash(observation, policy_->state_line()) : 0;
  const std::optional<TaskId> picked = policy_->pick(observation);
  if (log_ != nullptr) {
    record_decision(picked ? picked->value : model::DecisionRecord::kWait, hash);
  }
  if (!picked) {
    return false;
  }
  MEGATWIN_ASSERT(std::binary_search(scratch_->ready.begin(), scratch_->ready.end(), *picked),
                  "the policy picked task ", picked->value, ", which is not ready");
  backend_->announce(rank_, *picked);
  issue(*picked);
  return true;
}

void Executor::collect_ready() {
  scratch_->ready.clear();
  for (std::size_t word = 0; word < ready_.size(); ++word) {
    for (std::uint64_t bits = ready_[word]; bits != 0; bits &= bits - 1) {
      const TaskId task{static_cast<std::int32_t>(64 * word) + std::countr_zero(bits)};
      if (may_issue(task)) {
        scratch_->ready.push_back(task);
      }
    }
  }
}

bool Executor::may_issue(TaskId id) const {
  const Task& task = program_->tasks[static_cast<std::size_t>(id.value)];
  const auto chunk = static_cast<std::size_t>(task.chunk.value);
  if (program_->shape.phase_of(task.kind) == 0) {
    return fits(task);
  }
  if (!options_.gradients_in_order || !program_->shape.is_last(task.kind)) {
    return true;
  }
  return chunks_[chunk].gradients_issued == program_->shape.place_of(task.micro_batch);
}

bool Executor::fits(const Task& task) const {
  const auto chunk = static_cast<std::size_t>(task.chunk.value);
  return memory_used_ + program_->chunk_memory[chunk].activation <= options_.memory_limit;
}

std::string Executor::why_stopped() const {
  std::string picked, memory, order;
  int no_room = 0;
  for (std::size_t word = 0; word < ready_.size(); ++word) {
    for (std::uint64_t bits = ready_[word]; bits != 0; bits &= bits - 1) {
      const TaskId id{static_cast<std::int32_t>(64 * word) + std::countr_zero(bits)};
      const Task& task = program_->tasks[static_cast<std::size_t>(id.value)];
      if (may_issue(id)) {
        if (picked.empty()) picked = to_text(task) + " may be issued, but the policy waits";
      } else if (program_->shape.phase_of(task.kind) == 0) {
        if (no_room++ == 0) memory = to_text(task);
      } else if (order.empty()) {
        Task first = task;
        first.micro_batch = program_->shape.micro_batch(
            chunks_[static_cast<std::size_t>(task.chunk.value)].gradients_issued);
        order = to_text(task) + " is withheld: " + to_text(first) +
                " has to come first and is not ready";
      }
    }
  }
  if (!picked.empty()) return picked;
  if (no_room > 0) {
    memory +=
        (no_room > 1 ? " and " + std::to_string(no_room - 1) + " more forwards do" : " does") +
        " not fit below the memory limit";
  }
  return memory + (memory.empty() || order.empty() ? "" : "; ") + order;
}

void Executor::issue(TaskId id) {
  const auto index = static_cast<std::size_t>(id.value);
  const Task& task = program_->tasks[index];
  waits(id) = kIssued;
  if (source_ == OrderSource::Policy) {
    set_ready(id, false);
    if (options_.receive_slots > 0) {
      sequence_.push_back(id);
    }
  }
  ++in_flight_;
  if (program_->shape.phase_of(task.kind) == 0) {
    memory_used_ += program_->chunk_memory[static_cast<std::size_t>(task.chunk.value)].activation;
  }
  if (task.kind == TaskKind::BackwardWeight &&
      program_->shape.side == model::PipelineSide::Forward) {
    memory_used_ +=
        program_->chunk_memory[static_cast<std::size_t>(task.chunk.value)].weight_gradient_input;
  }
  if (program_->shape.is_last(task.kind)) {
    ++chunk_state(task.chunk).gradients_issued;
  }
  backend_->issue_task(rank_, id);
  if (program_->sends[index].exists()) {
    issue_send(id);
  }
  if (program_->crosses(id)) {
    backend_->issue_crossing(rank_, id);
  }
  for (const TaskId successor : program_->successors_of(id)) {
    satisfy(successor);
  }
}

void Executor::issue_send(TaskId task) {
  const auto index = static_cast<std::size_t>(task.value);
  if (options_.receive_slots > 0) {
    std::int32_t& free = free_slots_[program_->sends[index].channel];
    if (--free < 0) {
      held_[index / 64] |= std::uint64_t{1} << (index % 64);
      return;
    }
  }
  backend_->issue_send(rank_, task);
}

void Executor::record_decision(std::int32_t task, std::uint64_t hash) {
  log_->decisions.push_back({task, static_cast<std::uint32_t>(log_->events.size()), hash});
}

}  // namespace megatwin::policies
