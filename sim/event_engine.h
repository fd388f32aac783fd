// The event engine: drives one Executor a simulated rank through a step in virtual time. Runs any
// policy; for static schedules it gives the times of the dataflow evaluator to the nanosecond.
#ifndef MEGATWIN_SIM_EVENT_ENGINE_H_
#define MEGATWIN_SIM_EVENT_ENGINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/program/decision_record.h"
#include "model/program/program.h"
#include "policies/executor.h"
#include "policies/policy.h"
#include "policies/schedule.h"
#include "sim/link_disturbance.h"
#include "sim/pipeline_costs.h"
#include "sim/step_times.h"

namespace megatwin::sim {

struct EventRunSetup {
  const PipelineCosts& costs;
  // One list for each of costs.shapes: a program a stage.
  const std::vector<std::vector<model::Program>>& programs;
  // The same of static orders, or empty when `policy` decides.
  const std::vector<std::vector<policies::Order>>& orders;
  policies::PolicyFactory policy;
  policies::ExecutorOptions executor;
  // One a stage, or one a stage of each class; instead of the executor's. Or empty.
  std::vector<model::Bytes> memory_limits;
  std::vector<LinkDisturbance> links;
  bool log = false;
};

struct EventRun {
  StepTimes times;
  std::vector<policies::Order> executed;  // One a unit.
  std::vector<model::ExecutorLog> logs;   // One a unit when asked for.
  std::int64_t events = 0;                // Without the starts of the step.
  // One sentence a unit that never finished: its policy waits for nothing, or nothing fits.
  std::vector<std::string> stalled;
};

EventRun run_events(const EventRunSetup& setup);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_EVENT_ENGINE_H_
