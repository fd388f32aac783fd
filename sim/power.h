// Power, energy and price of a step from its breakdown. An estimate by phases: tensor-core kernels
// draw the part's limit, memory-bound ones less, waiting little.
#ifndef MEGATWIN_SIM_POWER_H_
#define MEGATWIN_SIM_POWER_H_

#include "model/job.h"
#include "model/program/task_price.h"
#include "sim/simulation_report.h"

namespace megatwin::sim {

// Fills power_per_gpu, power_per_node, energy, carbon and cost_per_step. Requires: breakdown and
// shares are filled.
void fill_power(const model::Job& job, SimulationReport& report);

// What a machine in use draws beside its GPUs: processors, fans, adapters.
model::Watts host_power(const model::NodeGroup& machine);

// What a task draws beyond an idle GPU, as time at the part's power limit.
model::Seconds draw_beyond_idle(const model::TaskPrice& price);
// What an idle GPU draws, likewise.
model::Seconds idle_draw(model::Seconds time);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_POWER_H_
