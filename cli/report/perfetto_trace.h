// The timeline of a run in Chrome's trace-event format, which ui.perfetto.dev and chrome://tracing
// open: a process a rank, a thread a lane, spans with nanosecond precision, and an arrow from each
// transfer to the task that it feeds.
// Source: "Trace Event Format", Google, events of phase M, X, s and f; `ts` and `dur` are in µs.
#ifndef MEGATWIN_CLI_REPORT_PERFETTO_TRACE_H_
#define MEGATWIN_CLI_REPORT_PERFETTO_TRACE_H_

#include <string>

#include "model/program/event_record.h"
#include "sim/simulation_report.h"

namespace megatwin::cli {

std::string perfetto_trace(const sim::SimulationReport& report);

// Names for people, shared with the HTML timeline.
std::string_view lane_text(model::Lane lane);
std::string_view event_text(model::EventKind kind);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_PERFETTO_TRACE_H_
