// A report as a real run gives it (Llama-3.1-70B on 512 H100), with round made-up numbers, for
// tests of the writers. The parts of the breakdown sum to the step time; the timeline is an
// interleaved 1F1B schedule worked out by the rule that a task starts when its lane and its inputs
// are ready.
#ifndef MEGATWIN_TESTS_CLI_REPORT_FIXTURE_H_
#define MEGATWIN_TESTS_CLI_REPORT_FIXTURE_H_

#include "sim/simulation_report.h"

namespace megatwin::tests {

struct TimelineShape {
  int pipeline = 4;
  int chunks = 5;
  int micro_batches = 16;
};

sim::SimulationReport report_fixture(const TimelineShape& shape = {});

// The same model with more data-parallel GPUs at equal global batch.
sim::SimulationReport scaled_report(int gpus);

sim::PlanRefusal refusal_fixture();

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_CLI_REPORT_FIXTURE_H_
