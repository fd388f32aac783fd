// The `failures` of a job answered: what a checkpoint weighs and costs, how often to write one, and
// how much of the time is left for work that is kept.
#ifndef MEGATWIN_SIM_GOODPUT_REPORT_H_
#define MEGATWIN_SIM_GOODPUT_REPORT_H_

#include "model/job.h"
#include "sim/simulation_report.h"

namespace megatwin::sim {

// Fills goodput when the job asks for it. Requires: parameters_total is filled.
void fill_goodput(const model::Job& job, SimulationReport& report);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_GOODPUT_REPORT_H_
