// What a step's traffic cost on the mean where disturbances of links come and go within it, for the
// report of its parts.
#ifndef MEGATWIN_SIM_STRETCH_PRICES_H_
#define MEGATWIN_SIM_STRETCH_PRICES_H_

#include <vector>

#include "model/program/job_program.h"
#include "model/units.h"

namespace megatwin::sim {

// The program as the network of each stretch prices it; the first begins at 0, each ends where the
// next begins.
struct StretchPrices {
  model::Instant from;
  model::JobProgram program;
};

// The traffic of every stage in `stretches`, weighed by how often it would get done in each until
// `end`: inside tasks by the length of a stretch over the work of a micro-batch at its prices,
// gathers and reductions by that over all of theirs, so that nothing counts while a link is down.
// All else is that of the first. Requires: one stretch or more, alike but for traffic.
model::JobProgram mean_prices(const std::vector<StretchPrices>& stretches, model::Instant end);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_STRETCH_PRICES_H_
