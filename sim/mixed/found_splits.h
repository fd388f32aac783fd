// Splits that a plan asks to be found by cost: layers over pipeline stages, micro-batches over
// replicas. Both start from the closed forms of model/heterogeneous.h on the prices of this job;
// the layers are then moved one by one for as long as the simulated step gets shorter and fits.
#ifndef MEGATWIN_SIM_MIXED_FOUND_SPLITS_H_
#define MEGATWIN_SIM_MIXED_FOUND_SPLITS_H_

#include <cstdint>
#include <vector>

#include "model/job.h"
#include "sim/simulate.h"

namespace megatwin::sim {

bool wants_found_splits(const model::Job& job);

// The job with its splits given, and a sentence for each among its assumptions. A plan that is
// illegal in other ways comes back as it is, with even splits.
model::Job with_found_splits(const model::Job& job, const SimulateOptions& options = {});

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_MIXED_FOUND_SPLITS_H_
