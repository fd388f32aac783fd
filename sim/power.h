// Power, energy and price of a step from its breakdown. An estimate by phases: tensor-core kernels
// draw the part's limit, memory-bound ones less, waiting little.
#ifndef MEGATWIN_SIM_POWER_H_
#define MEGATWIN_SIM_POWER_H_

#include "model/job.h"
#include "sim/simulation_report.h"

namespace megatwin::sim {

// Fills power_per_gpu, power_per_node, energy, carbon and cost_per_step. Requires: breakdown and
// shares are filled.
void fill_power(const model::Job& job, SimulationReport& report);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_POWER_H_
