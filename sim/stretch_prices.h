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

// The traffic of every stage in `stretches`, weighed by the micro-batches that a rank that never
// waits gets done in each until `end`: its length over the work of a micro-batch at its prices.
// All else is that of the first. Requires: one stretch or more, alike but for traffic.
model::JobProgram mean_prices(const std::vector<StretchPrices>& stretches, model::Instant end);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_STRETCH_PRICES_H_
