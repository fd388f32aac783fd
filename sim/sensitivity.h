// What would change the result most: the same job with one assumption changed at a time.
#ifndef MEGATWIN_SIM_SENSITIVITY_H_
#define MEGATWIN_SIM_SENSITIVITY_H_

#include "model/job.h"
#include "sim/simulate.h"
#include "sim/simulation_report.h"

namespace megatwin::sim {

// Fills `sensitivities`, largest effect first, and from the constants' residuals the band
// step_time_low … step_time_high.
void fill_sensitivities(const model::Job& job, const SimulateOptions& options,
                        SimulationReport& report);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SENSITIVITY_H_
