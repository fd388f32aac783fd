// The fastest plan of a space that fits, and nothing else: for questions that ask many spaces.
#ifndef MEGATWIN_SIM_SEARCH_BEST_PLAN_H_
#define MEGATWIN_SIM_SEARCH_BEST_PLAN_H_

#include <optional>

#include "model/job.h"
#include "sim/search/candidates.h"
#include "sim/search/search_space.h"
#include "sim/simulation_report.h"

namespace megatwin::sim {

struct BestPlanOptions {
  int num_threads = 1;             // 0: as many as the machine has cores.
  double memory_margin = 0;        // Share of a GPU's memory that is to stay free.
  ProgressCallback progress = {};  // From any thread, in the phases of Candidates.
};

// Its report, as simulate() gives it, without sensitivities. Nothing when no plan is legal and
// fits.
std::optional<SimulationReport> best_plan(const model::Job& job, const SearchSpace& space,
                                          const BestPlanOptions& options = {});

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_BEST_PLAN_H_
