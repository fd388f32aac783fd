// What another cluster would buy: the best plan again with one thing better, everything else as it
// is. The plan is chosen anew, so that a gain is what one would really get.
#ifndef MEGATWIN_SIM_SEARCH_WHAT_IF_H_
#define MEGATWIN_SIM_SEARCH_WHAT_IF_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/job.h"
#include "sim/search/best_plan.h"
#include "sim/search/search_space.h"
#include "sim/simulation_report.h"

namespace megatwin::sim {

struct WhatIf {
  std::string change;                    // "one machine more", …
  std::optional<SimulationReport> best;  // Nothing when no plan is legal and fits.
};

// Network cards and NVLink twice as fast, a quarter more memory, one machine more, twice the
// machines. `space` says which plans to look at on a changed cluster.
std::vector<WhatIf> what_if(const model::Job& job,
                            const std::function<SearchSpace(const model::Job&)>& space,
                            const BestPlanOptions& options);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_WHAT_IF_H_
