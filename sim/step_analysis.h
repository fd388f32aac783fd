// Reads the times of a step: where each rank's time went, and the records of its timeline. One
// function for both engines, so that they can only differ in the times.
#ifndef MEGATWIN_SIM_STEP_ANALYSIS_H_
#define MEGATWIN_SIM_STEP_ANALYSIS_H_

#include <vector>

#include "model/program/program.h"
#include "sim/pipeline_costs.h"
#include "sim/pipeline_simulation.h"
#include "sim/step_times.h"
#include "sim/task_rows.h"

namespace megatwin::sim {

// `orders` holds the executed order of every unit; rows one table for each of costs.shapes;
// multiplicities one number a class; programs those of each of costs.shapes, of a decoupled
// pipeline only.
struct StepAnalysisInput {
  const PipelineCosts& costs;
  const std::vector<const TaskRows*>& rows;
  const StepTimes& times;
  const std::vector<const policies::Order*>& orders;
  const std::vector<int>& multiplicities;
  const std::vector<std::vector<model::Program>>* programs = nullptr;
  bool timeline = false;
};
PipelineResult analyse_step(const StepAnalysisInput& input);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_STEP_ANALYSIS_H_
