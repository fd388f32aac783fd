// The timeline of a run in Chrome's trace-event format, which ui.perfetto.dev and chrome://tracing
// open: a process a rank, a thread a lane, spans with nanosecond precision, and an arrow from each
// transfer to the task that it feeds.
// Source: "Trace Event Format", Google, events of phase M, X, s and f; `ts` and `dur` are in µs.
#ifndef MEGATWIN_CLI_REPORT_PERFETTO_TRACE_H_
#define MEGATWIN_CLI_REPORT_PERFETTO_TRACE_H_

#include <string>
#include <string_view>
#include <vector>

#include "exec/host_layout.h"
#include "model/plan.h"
#include "model/program/event_record.h"
#include "sim/simulation_report.h"

namespace megatwin::cli {

// What of a run is drawn, of whichever world. Borrowed.
struct TraceSource {
  std::string name;
  std::string world;  // "simulated", "run on the host".
  const model::Plan& plan;
  const std::vector<model::EventRecord>& timeline;
  // Of a run: where its ranks stand. Null where each rank is a stage, replica by replica.
  const exec::HostLayout* layout = nullptr;
};
std::string perfetto_trace(const TraceSource& source);
std::string perfetto_trace(const sim::SimulationReport& report);

// Names for people, shared with the HTML timeline.
std::string_view lane_text(model::Lane lane);
std::string_view event_text(model::EventKind kind);
// Row `rank` of a simulated timeline of `num_ranks`, none of which is a rank of the cluster (a
// tensor-parallel group is one row): its stage, with its replica where replicas differ, or which of
// the sets of alike replicas that are simulated once; of a decoupled plan with its side.
std::string rank_text(const model::Plan& plan, int num_ranks, int rank);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_PERFETTO_TRACE_H_
