// How disturbances reach the step: which rank or link, which stage of which replica waits for it,
// and what the step becomes.
#ifndef MEGATWIN_SIM_DISTURBANCE_REPORT_H_
#define MEGATWIN_SIM_DISTURBANCE_REPORT_H_

#include "model/job.h"
#include "sim/simulation_report.h"
#include "sim/step_run.h"

namespace megatwin::sim {

// `plain` is the run of the same job without its disturbances.
DisturbanceReport disturbance_report(const model::Job& job, const StepRun& plain,
                                     const StepRun& disturbed);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_DISTURBANCE_REPORT_H_
