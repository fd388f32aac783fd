// The one function of libmegatwin_simgrid.so, in C so that any compiler's program may load it. One
// call a process: SimGrid has one engine, which does not start anew.
#ifndef MEGATWIN_SIM_SIMGRID_PLUGIN_H_
#define MEGATWIN_SIM_SIMGRID_PLUGIN_H_

#include <cstdint>

extern "C" {

// Arrays of num_flows but where said. Sizes in bytes, whole; times in seconds; flow i uses
// links[first_link[i] … first_link[i + 1]) and starts after the flows
// after[first_after[i] … first_after[i + 1]).
struct MegatwinFlowProblem {
  int32_t num_links, num_flows;
  const double* capacity;  // num_links, bytes per second.
  const double* size;
  const double* start;
  const double* latency;
  const int32_t* first_link;  // num_flows + 1.
  const int32_t* links;
  const int32_t* first_after;  // num_flows + 1.
  const int32_t* after;
  // Links that change, in ascending order of time: from capacity_at[i] on, capacity_link[i] carries
  // new_capacity[i].
  int32_t num_capacity_changes;
  const double* capacity_at;
  const int32_t* capacity_link;
  const double* new_capacity;
  // Flows that change their way, in ascending order of time: from way_at[i] on, way_flow[i] uses
  // new_links[first_new_link[i] … first_new_link[i + 1]); with none of them it ends there.
  int32_t num_way_changes;
  const double* way_at;
  const int32_t* way_flow;
  const int32_t* first_new_link;  // num_way_changes + 1.
  const int32_t* new_links;
};

// Writes num_flows ends to `finish`; 0 when all ended.
using MegatwinSimgridRun = int (*)(const MegatwinFlowProblem* problem, double* finish);
}

#define MEGATWIN_SIMGRID_SYMBOL "megatwin_simgrid_run"

#endif  // MEGATWIN_SIM_SIMGRID_PLUGIN_H_
