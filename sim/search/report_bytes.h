// Plans and reports as bytes, for messages between the processes of a search. Every field is named
// once, so that one added to the structs does not compile until it is sent too.
#ifndef MEGATWIN_SIM_SEARCH_REPORT_BYTES_H_
#define MEGATWIN_SIM_SEARCH_REPORT_BYTES_H_

#include "model/plan.h"
#include "sim/search/byte_stream.h"
#include "sim/simulation_report.h"

namespace megatwin::sim {

void write(const model::Plan& plan, ByteWriter& out);
model::Plan read_plan(ByteReader& in);

// Without priced operations, components and timeline, which nobody asks of a searched plan.
void write(const SimulationReport& report, ByteWriter& out);
SimulationReport read_report(ByteReader& in);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_REPORT_BYTES_H_
