// The plans of a search that no other beats in time, memory and energy at once. On one cluster the
// cost of a step is a price times its time, so that a fourth dimension would add none.
#ifndef MEGATWIN_SIM_SEARCH_ENERGY_FRONT_H_
#define MEGATWIN_SIM_SEARCH_ENERGY_FRONT_H_

#include <cstddef>
#include <vector>

#include "model/job.h"
#include "model/units.h"
#include "sim/search/candidates.h"
#include "sim/search/plan_reports.h"
#include "sim/simulation_report.h"

namespace megatwin::sim {

struct FrontPoint {
  std::size_t place = 0;  // Of Candidates::fitting().
  // For as many sequences as the job's own batch has, since batches may differ.
  model::Seconds time;
  model::Bytes memory;
  model::Joules energy;  // Of all GPUs.
};

struct EnergyFront {
  std::vector<FrontPoint> points;         // Fastest first.
  std::vector<SimulationReport> reports;  // Of the points.
  std::size_t simulated = 0;
  // Every plan that was not simulated is beaten by one that was, by its bounds; else more plans
  // than `simulated_max` had bounds that did not tell.
  bool complete = true;
};

struct EnergyFrontOptions {
  double slack = 0.01;  // Memory and energy that differ by less are alike.
  std::size_t simulated_max = 400;
  ProgressCallback progress;
};

// Evaluates what the front of time and memory needs, then simulates plans in the order of the least
// energy they can need. The same for any number of threads.
EnergyFront energy_front(const model::Job& job, Candidates& candidates, const PlanReports& reports,
                         const EnergyFrontOptions& options);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_ENERGY_FRONT_H_
