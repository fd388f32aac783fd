#include "cli/report/perfetto_trace.h"

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "cli/report/json_writer.h"

namespace megatwin::cli {
namespace {

using model::EventKind;
using model::EventRecord;

struct Receiver {
  int rank = 0;
  int chunk = 0;
};

// Where the transfer of `record` arrives: the next virtual stage for activations, the one before
// for gradients. Chunks go round the ranks, except in ZB-V, where chunk 1 runs back over them.
Receiver receiver_of(const EventRecord& record, const TraceSource& source) {
  const model::Plan& plan = source.plan;
  const bool up = record.kind == EventKind::SendActivation;
  const bool v_shape = plan.schedule == model::ScheduleKind::ZeroBubbleV;
  const int rank = record.rank.value;
  const int stage = source.layout != nullptr ? source.layout->coordinates(record.rank).pipeline
                                             : rank % plan.pipeline;
  const int chunk = record.chunk.value;
  const auto at = [&](int to_stage, int to_chunk) {
    if (source.layout == nullptr) return Receiver{rank - stage + to_stage, to_chunk};
    model::RankCoordinates there = source.layout->coordinates(record.rank);
    there.pipeline = to_stage;
    return Receiver{source.layout->rank_at(source.layout->instance(record.rank), there).value,
                    to_chunk};
  };
  if (v_shape) return at(stage + (up == (chunk == 0) ? 1 : -1), chunk);
  if (up) return stage + 1 < plan.pipeline ? at(stage + 1, chunk) : at(0, chunk + 1);
  return stage > 0 ? at(stage - 1, chunk) : at(plan.pipeline - 1, chunk - 1);
}

// Spans of each task: {forward or backward, rank, micro-batch, chunk} → its records by start, one a
// step.
using TaskKey = std::tuple<bool, int, int, int>;
using Tasks = std::map<TaskKey, std::map<model::Instant, const EventRecord*>>;

Tasks index_tasks(const std::vector<EventRecord>& timeline) {
  Tasks tasks;
  for (const EventRecord& record : timeline) {
    const bool forward = record.kind == EventKind::Forward;
    const bool backward =
        record.kind == EventKind::Backward || record.kind == EventKind::BackwardInput;
    if (!forward && !backward) continue;
    tasks[{forward, record.rank.value, record.micro_batch.value, record.chunk.value}].emplace(
        record.start, &record);
  }
  return tasks;
}

void write_common(JsonWriter& json, const char* phase, const EventRecord& record) {
  json.member("ph", phase);
  json.member("pid", record.rank.value);
  json.member("tid", static_cast<int>(record.lane));
}

void write_name(JsonWriter& json, const char* what, int pid, int tid, const std::string& name) {
  json.begin_object();
  json.member("ph", "M");
  json.member("pid", pid);
  json.member("tid", tid);
  json.member("name", what);
  json.key("args");
  json.begin_object();
  json.member("name", name);
  json.end_object();
  json.end_object();
}

// Of a group of ranks that do the same each has its number too.
std::string run_rank_text(const model::Plan& plan, const exec::HostLayout& layout, int rank) {
  const bool is_decoupled = plan.schedule == model::ScheduleKind::Decoupled;
  const model::SideInstances instances = exec::instances_of(plan);
  const int num_roles = plan.pipeline * (is_decoupled ? instances.forward + instances.backward : 1);
  if (num_roles == layout.num_ranks()) return rank_text(plan, num_roles, rank);
  return fmt::format("rank {}, {}", rank, rank_text(plan, num_roles, layout.role({rank})));
}

void write_names(JsonWriter& json, const TraceSource& report) {
  std::set<int> ranks;
  std::set<std::pair<int, model::Lane>> lanes;
  for (const EventRecord& record : report.timeline) {
    ranks.insert(record.rank.value);
    lanes.emplace(record.rank.value, record.lane);
  }
  for (const int rank : ranks) {
    write_name(json, "process_name", rank, 0,
               report.layout != nullptr
                   ? run_rank_text(report.plan, *report.layout, rank)
                   : rank_text(report.plan, static_cast<int>(ranks.size()), rank));
    json.begin_object();
    json.member("ph", "M");
    json.member("pid", rank);
    json.member("name", "process_sort_index");
    json.key("args");
    json.begin_object();
    json.member("sort_index", rank);
    json.end_object();
    json.end_object();
  }
  for (const auto& [rank, lane] : lanes) {
    write_name(json, "thread_name", rank, static_cast<int>(lane), std::string(lane_text(lane)));
  }
}

void write_span(JsonWriter& json, const EventRecord& record) {
  json.begin_object();
  const bool numbered = record.micro_batch.value >= 0;
  json.member("name", numbered ? fmt::format("{} {}.{}", event_text(record.kind),
                                             record.micro_batch.value, record.chunk.value)
                               : std::string(event_text(record.kind)));
  json.member("cat", event_text(record.kind));
  write_common(json, "X", record);
  json.key("ts");
  json.microseconds(record.start);
  json.key("dur");
  json.microseconds(record.end - record.start);
  json.key("args");
  json.begin_object();
  if (numbered) json.member("micro_batch", record.micro_batch.value);
  json.member("chunk", record.chunk.value);
  json.end_object();
  json.end_object();
}

void write_arrow_end(JsonWriter& json, const char* phase, const EventRecord& record, int id,
                     model::Instant at) {
  json.begin_object();
  json.member("name", "transfer");
  json.member("cat", "transfer");
  write_common(json, phase, record);
  json.member("id", id);
  json.key("ts");
  json.microseconds(at);
  if (phase[0] == 'f') json.member("bp", "e");
  json.end_object();
}

void write_arrows(JsonWriter& json, const TraceSource& report) {
  const Tasks tasks = index_tasks(report.timeline);
  int id = 0;
  for (const EventRecord& record : report.timeline) {
    const bool up = record.kind == EventKind::SendActivation;
    if (!up && record.kind != EventKind::SendGradient) continue;
    const Receiver to = receiver_of(record, report);
    const auto found = tasks.find(TaskKey{up, to.rank, record.micro_batch.value, to.chunk});
    if (found == tasks.end()) continue;
    const auto fed = found->second.lower_bound(record.start);
    if (fed == found->second.end()) continue;
    ++id;
    write_arrow_end(json, "s", record, id, record.start);
    write_arrow_end(json, "f", *fed->second, id, fed->first);
  }
}

}  // namespace

std::string_view lane_text(model::Lane lane) {
  switch (lane) {
    case model::Lane::Compute:
      return "compute";
    case model::Lane::SendForward:
      return "send activations";
    case model::Lane::SendBackward:
      return "send gradients";
    case model::Lane::DataParallel:
      return "data-parallel traffic";
  }
  return "lane";
}

std::string_view event_text(EventKind kind) {
  switch (kind) {
    case EventKind::Forward:
      return "forward";
    case EventKind::Backward:
      return "backward";
    case EventKind::BackwardInput:
      return "backward input";
    case EventKind::BackwardWeight:
      return "backward weight";
    case EventKind::Recompute:
      return "recompute";
    case EventKind::SendActivation:
      return "send activation";
    case EventKind::SendGradient:
      return "send gradient";
    case EventKind::ParameterGather:
      return "parameter gather";
    case EventKind::GradientReduce:
      return "gradient reduce";
    case EventKind::Optimizer:
      return "optimizer";
  }
  return "event";
}

std::string rank_text(const model::Plan& plan, int num_ranks, int rank) {
  const int forward = plan.decoupled.forward.instances;
  const int instances = forward + plan.decoupled.backward.instances;
  if (plan.schedule == model::ScheduleKind::Decoupled && num_ranks == instances * plan.pipeline) {
    const int instance = rank / plan.pipeline;
    const bool is_forward = instance < forward;
    const std::string name =
        fmt::format("{} stage {}", is_forward ? "forward" : "backward", rank % plan.pipeline);
    return instances == 2
               ? name
               : fmt::format("{} of instance {}", name, is_forward ? instance : instance - forward);
  }
  if (plan.schedule == model::ScheduleKind::Decoupled || num_ranks % plan.pipeline != 0) {
    return fmt::format("rank {}", rank);
  }
  if (num_ranks == plan.pipeline) return fmt::format("stage {}", rank);
  const char* replica = num_ranks == plan.pipeline * plan.data ? "replica" : "alike replicas";
  const std::string which = fmt::format("{} {}", replica, rank / plan.pipeline);
  return plan.pipeline == 1 ? which : fmt::format("stage {}, {}", rank % plan.pipeline, which);
}

std::string perfetto_trace(const TraceSource& source) {
  JsonWriter json(JsonWriter::Layout::Compact);
  json.begin_object();
  json.member("displayTimeUnit", "ns");
  json.key("otherData");
  json.begin_object();
  json.member("name", source.name);
  json.member("source", "megatwin, " + source.world);
  json.end_object();
  json.key("traceEvents");
  json.begin_array();
  write_names(json, source);
  for (const EventRecord& record : source.timeline) write_span(json, record);
  write_arrows(json, source);
  json.end_array();
  json.end_object();
  return json.finish();
}

std::string perfetto_trace(const sim::SimulationReport& report) {
  return perfetto_trace({.name = report.name,
                         .world = "simulated",
                         .plan = report.plan,
                         .timeline = report.timeline});
}

}  // namespace megatwin::cli
