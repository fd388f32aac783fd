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
Receiver receiver_of(const EventRecord& record, const model::Plan& plan) {
  const bool up = record.kind == EventKind::SendActivation;
  const bool v_shape = plan.schedule == model::ScheduleKind::ZeroBubbleV;
  const int rank = record.rank.value;
  const int chunk = record.chunk.value;
  if (v_shape) return {rank + (up == (chunk == 0) ? 1 : -1), chunk};
  if (up) return rank + 1 < plan.pipeline ? Receiver{rank + 1, chunk} : Receiver{0, chunk + 1};
  return rank > 0 ? Receiver{rank - 1, chunk} : Receiver{plan.pipeline - 1, chunk - 1};
}

// First span of each task: {forward or backward, rank, micro-batch, chunk} → its record.
using TaskKey = std::tuple<bool, int, int, int>;
using Tasks = std::map<TaskKey, const EventRecord*>;

Tasks index_tasks(const std::vector<EventRecord>& timeline) {
  Tasks tasks;
  for (const EventRecord& record : timeline) {
    const bool forward = record.kind == EventKind::Forward;
    const bool backward =
        record.kind == EventKind::Backward || record.kind == EventKind::BackwardInput;
    if (!forward && !backward) continue;
    tasks.emplace(TaskKey{forward, record.rank.value, record.micro_batch.value, record.chunk.value},
                  &record);
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

void write_names(JsonWriter& json, const sim::SimulationReport& report) {
  std::set<int> ranks;
  std::set<std::pair<int, model::Lane>> lanes;
  for (const EventRecord& record : report.timeline) {
    ranks.insert(record.rank.value);
    lanes.emplace(record.rank.value, record.lane);
  }
  const bool stages = static_cast<int>(ranks.size()) == report.plan.pipeline;
  for (const int rank : ranks) {
    write_name(json, "process_name", rank, 0,
               fmt::format("{} {}", stages ? "stage" : "rank", rank));
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

void write_arrows(JsonWriter& json, const sim::SimulationReport& report) {
  const Tasks tasks = index_tasks(report.timeline);
  int id = 0;
  for (const EventRecord& record : report.timeline) {
    const bool up = record.kind == EventKind::SendActivation;
    if (!up && record.kind != EventKind::SendGradient) continue;
    const Receiver to = receiver_of(record, report.plan);
    const auto found = tasks.find(TaskKey{up, to.rank, record.micro_batch.value, to.chunk});
    if (found == tasks.end()) continue;
    ++id;
    write_arrow_end(json, "s", record, id, record.start);
    write_arrow_end(json, "f", *found->second, id, found->second->start);
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

std::string perfetto_trace(const sim::SimulationReport& report) {
  JsonWriter json(JsonWriter::Layout::Compact);
  json.begin_object();
  json.member("displayTimeUnit", "ns");
  json.key("otherData");
  json.begin_object();
  json.member("name", report.name);
  json.member("source", "megatwin, simulated");
  json.end_object();
  json.key("traceEvents");
  json.begin_array();
  write_names(json, report);
  for (const EventRecord& record : report.timeline) write_span(json, record);
  write_arrows(json, report);
  json.end_array();
  json.end_object();
  return json.finish();
}

}  // namespace megatwin::cli
