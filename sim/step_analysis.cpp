#include "sim/step_analysis.h"

#include <algorithm>

#include "model/assert.h"

namespace megatwin::sim {
namespace {

using model::EventKind;
using model::EventRecord;
using model::Instant;
using model::Lane;
using model::Task;
using model::TaskId;
using model::TaskKind;

// Walks one unit through its step.
class UnitAnalysis {
 public:
  UnitAnalysis(const StepAnalysisInput& input, std::size_t unit, PipelineResult& out)
      : in_(input),
        replica_class_(static_cast<int>(unit) / input.costs.shape.pipeline),
        shape_(input.costs.class_shape(replica_class_)),
        unit_(unit),
        stage_(static_cast<int>(unit) % shape_.pipeline),
        first_slot_(input.costs.first_slot[static_cast<std::size_t>(replica_class_)]),
        rows_(*input.rows[static_cast<std::size_t>(
            input.costs.shape_of_class[static_cast<std::size_t>(replica_class_)])]),
        class_durations_(input.costs.task.data() +
                         static_cast<std::size_t>(replica_class_) * input.costs.class_stride()),
        gather_ends_(gather_ends(input.costs, unit)),
        out_(out) {
    result_.rank = {static_cast<std::int32_t>(unit)};
    result_.stage = {stage_};
    result_.multiplicity = input.multiplicities[static_cast<std::size_t>(replica_class_)];
    if (in_.programs != nullptr) {
      const auto shape = in_.costs.shape_of_class[static_cast<std::size_t>(replica_class_)];
      program_ =
          &(*in_.programs)[static_cast<std::size_t>(shape)][static_cast<std::size_t>(stage_)];
    }
    if (in_.costs.slows_down()) {
      slowed_ = slowed_durations(in_.costs, unit, *in_.orders[unit]);
    }
  }

  RankResult run() {
    record_gathers();
    for (const TaskId id : *in_.orders[unit_]) {
      walk(id);
    }
    finish();
    result_.order = *in_.orders[unit_];
    return std::move(result_);
  }

 private:
  void walk(TaskId id) {
    const TaskRows::Place place = rows_.place(id);
    const TaskRow& row = rows_.row(stage_, place);
    const std::size_t slot = first_slot_ + row.slot + place.micro_batch;
    const Nanoseconds end = in_.times.end[slot];
    const Nanoseconds start = end - duration_of(id, row, slot);
    MEGATWIN_ASSERT(start >= lane_free_, to_text(shape_.task(id)), " at ", start, " before ",
                    lane_free_);
    account_gap(id, row, place.micro_batch, start);
    result_.compute += {end - start};
    if (!in_.costs.task_by_slot.empty()) {
      for (std::size_t kind = 0; kind < result_.delayed_collectives.size(); ++kind) {
        result_.delayed_collectives[kind] += {in_.costs.delay_by_slot[slot][kind]};
      }
    }
    lane_free_ = end;
    ++out_.events;
    if (in_.timeline) {
      const Task task = shape_.task(id);
      record(Lane::Compute, model::event_kind(task.kind), task, start, end);
    }
    if (row.send != SendKind::None) {
      walk_send(id, row, end, slot);
    }
    if (program_ != nullptr) {
      out_.events += (program_->feeds(id) ? 1 : 0) + (program_->makes_room(id) ? 1 : 0);
    }
  }

  Nanoseconds duration_of(TaskId id, const TaskRow& row, std::size_t slot) const {
    if (!in_.costs.task_by_slot.empty()) return in_.costs.task_by_slot[slot];
    if (!in_.times.duration.empty()) return in_.times.duration[slot];
    if (!slowed_.empty()) {
      return slowed_[static_cast<std::size_t>(id.value)];
    }
    return class_durations_[row.cost];
  }

  // [lane free, producer done] is bubble, [producer done, message there] is transfer, from there to
  // the parameters is data-parallel. What is left until the start, a policy chose to wait.
  void account_gap(TaskId id, const TaskRow& row, std::uint32_t micro_batch, Nanoseconds start) {
    Nanoseconds produced = lane_free_;
    Nanoseconds arrived = lane_free_;
    if (row.waits_for != 0) {
      const std::size_t producer = first_slot_ + row.waits_for + micro_batch;
      produced = std::max(produced, in_.times.end[producer]);
      arrived = std::max(arrived, in_.times.arrival[producer]);
    }
    if (program_ != nullptr && program_->awaits_crossing(id)) {
      const Crossing crossing = crossing_to(id);
      produced = std::max(produced, crossing.made);
      arrived = std::max(arrived, crossing.arrived);
    }
    const Nanoseconds gathered = row.is_forward ? gather_ends_[row.chunk] : 0;
    const Nanoseconds waited = std::max(arrived, gathered);
    MEGATWIN_ASSERT(start >= waited, "start ", start, " before ", waited);
    result_.bubble += {produced - lane_free_ + start - waited};
    result_.exposed_p2p += {arrived - produced};
    result_.exposed_data_parallel += {waited - arrived};
  }

  // What `receiver` waits for from the other side: when it was there to send, and here.
  struct Crossing {
    Nanoseconds made, arrived;
  };
  Crossing crossing_to(TaskId receiver) const {
    const model::Message& message =
        program_->awaited_crossings[static_cast<std::size_t>(receiver.value)];
    const int other = in_.costs.class_across(replica_class_, message);
    const SlotLayout layout{in_.costs.class_shape(other)};
    const std::size_t slot = in_.costs.first_slot[static_cast<std::size_t>(other)] +
                             layout.task(message.stage.value, message.task);
    // Room is made when it is here.
    if (shape_.task(receiver).kind == TaskKind::Forward) {
      return {in_.times.crossing[slot], in_.times.crossing[slot]};
    }
    Nanoseconds made = in_.times.end[slot];
    const bool at_begin = in_.costs.feed_kind == model::SideFeed::StageInput &&
                          layout.shape.side == model::PipelineSide::Forward;
    if (at_begin) {
      made -= in_.costs.task[in_.costs.task_index(other, stage_, 0, 0)];
    }
    return {made, in_.times.crossing[slot]};
  }

  void walk_send(TaskId id, const TaskRow& row, Nanoseconds end, std::size_t slot) {
    const Nanoseconds arrival = in_.times.arrival[slot];
    if (!in_.costs.overlap_p2p) {
      result_.exposed_p2p += {arrival - end};
      lane_free_ = arrival;
    }
    ++out_.events;
    if (!in_.timeline) {
      return;
    }
    const Lane own_lane = row.is_forward ? Lane::SendForward : Lane::SendBackward;
    record(in_.costs.overlap_p2p ? own_lane : Lane::Compute,
           row.is_forward ? EventKind::SendActivation : EventKind::SendGradient, shape_.task(id),
           send_start(row, slot), arrival);
  }

  Nanoseconds send_start(const TaskRow& row, std::size_t slot) const {
    if (!in_.times.send_start.empty()) return in_.times.send_start[slot];
    const Nanoseconds duration = in_.costs.send_by_slot.empty()
                                     ? in_.costs.class_sends(replica_class_)[row.send_cost]
                                     : in_.costs.send_by_slot[slot];
    return in_.times.arrival[slot] - duration;
  }

  void finish() {
    Nanoseconds reduced = lane_free_;
    out_.events += 1 + std::ssize(in_.times.reduces[unit_]);
    for (const Transfer& reduce : in_.times.reduces[unit_]) {
      reduced = std::max(reduced, reduce.end);
      record(Lane::DataParallel, EventKind::GradientReduce, whole_chunk(reduce.chunk), reduce.start,
             reduce.end);
    }
    const Nanoseconds end = in_.times.optimizer_end[unit_];
    const Nanoseconds start =
        in_.costs.changes.empty() ? end - in_.costs.optimizer[unit_] : reduced;
    MEGATWIN_ASSERT(start == reduced, "optimizer at ", start, ", reduced at ", reduced);
    result_.exposed_data_parallel += {reduced - lane_free_};
    result_.optimizer = {end - start};
    result_.bubble += {in_.times.makespan - end};
    result_.finish = {end};
    record(Lane::Compute, EventKind::Optimizer, whole_chunk({-1}), start, end);
  }

  void record_gathers() {
    out_.events += shape_.model_chunks;
    Nanoseconds now = 0;
    for (int chunk = 0; chunk < shape_.model_chunks; ++chunk) {
      const Nanoseconds duration = in_.costs.gather[in_.costs.chunk_index(stage_, chunk)];
      record(Lane::DataParallel, EventKind::ParameterGather, whole_chunk({chunk}), now,
             now + duration);
      now += duration;
    }
  }

  static Task whole_chunk(model::ChunkId chunk) { return {TaskKind::Forward, {-1}, chunk}; }

  void record(Lane lane, EventKind kind, const Task& task, Nanoseconds start, Nanoseconds end) {
    if (!in_.timeline || start == end) {
      return;
    }
    out_.timeline.push_back(
        {result_.rank, lane, kind, task.micro_batch, task.chunk, {start}, {end}});
  }

  const StepAnalysisInput& in_;
  int replica_class_;
  const model::PipelineShape& shape_;
  std::size_t unit_;
  int stage_;
  std::size_t first_slot_;
  const TaskRows& rows_;
  const Nanoseconds* class_durations_;
  std::vector<Nanoseconds> gather_ends_;
  std::vector<Nanoseconds> slowed_;
  const model::Program* program_ = nullptr;  // Decoupled.
  Nanoseconds lane_free_ = 0;
  RankResult result_;
  PipelineResult& out_;
};

}  // namespace

PipelineResult analyse_step(const StepAnalysisInput& input) {
  PipelineResult out{.shape = input.costs.shape, .makespan = {input.times.makespan}};
  for (std::size_t unit = 0; unit < input.costs.num_units(); ++unit) {
    const auto first_record = static_cast<std::ptrdiff_t>(out.timeline.size());
    out.ranks.push_back(UnitAnalysis(input, unit, out).run());
    std::stable_sort(out.timeline.begin() + first_record, out.timeline.end(),
                     [](const EventRecord& a, const EventRecord& b) { return a.start < b.start; });
    if (out.ranks[unit].finish > out.ranks[static_cast<std::size_t>(out.critical_rank)].finish) {
      out.critical_rank = static_cast<int>(unit);
    }
  }
  return out;
}

}  // namespace megatwin::sim
