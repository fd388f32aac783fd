// What somebody wants trained and what they may spend on it: the `target:` section of a scenario
// as plain data. Whether and how it can be had is answered by sim/purchase/.
#ifndef MEGATWIN_MODEL_TRAINING_WISH_H_
#define MEGATWIN_MODEL_TRAINING_WISH_H_

#include <optional>
#include <string>
#include <vector>

#include "model/gpu_profile.h"
#include "model/hardware.h"
#include "model/units.h"

namespace megatwin::model {

// Machines of one kind that may be had. Of `group`, node and GPU count; the number is below.
struct MachineOffer {
  NodeGroup group;
  GpuProfile profile;
  int count_min = 1, count_max = 1;
};

// What a run of weeks meets besides its steps.
struct Operations {
  double failures_per_node_day = 0;
  Bytes checkpoint;              // What one checkpoint writes, and
  Seconds checkpoint_time;       // how long training stands still for it.
  Seconds restart;               // From a failure to the first step after it.
  Seconds replacement;           // Until a failed machine is in reserve again.
  double shortage = 0.01;        // Accepted probability that too few machines are there.
  double facility_factor = 1;    // Power usage effectiveness of the building.
  double carbon_kg_per_kwh = 0;  // 0: not known.
};

struct TrainingWish {
  double tokens = 0;
  std::optional<Seconds> deadline;
  std::optional<Usd> budget;
  std::optional<Watts> power;  // At the meter.
  Operations operations;
  std::vector<MachineOffer> offers;  // At least one.
  // One sentence each: what was not given and what was taken instead.
  std::vector<std::string> assumptions;
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_TRAINING_WISH_H_
