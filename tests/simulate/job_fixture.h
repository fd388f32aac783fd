// Jobs for the tests of the lowering and of simulate(): a zoo model on catalogue machines.
#ifndef MEGATWIN_TESTS_SIMULATE_JOB_FIXTURE_H_
#define MEGATWIN_TESTS_SIMULATE_JOB_FIXTURE_H_

#include <string>

#include "model/job.h"
#include "sim/simulate.h"

namespace megatwin::tests {

// The first job of a scenario text; a test failure and an empty job when it does not load.
model::Job job_from(const std::string& yaml);

// The report, whether the plan fits or not. Aborts on an illegal plan.
sim::SimulationReport report_of(const model::Job& job, const sim::SimulateOptions& options = {});

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_SIMULATE_JOB_FIXTURE_H_
