// What a user asks about weeks of training: what fails how often, how the state is saved, and what
// a failure costs. Plain data; sim/goodput.h answers. Beside it what the building adds to energy.
#ifndef MEGATWIN_MODEL_FAILURE_PLAN_H_
#define MEGATWIN_MODEL_FAILURE_PLAN_H_

#include <string>
#include <vector>

#include "model/units.h"

namespace megatwin::model {

// Parts of one kind, each of which fails `per_day` times a day and takes the job down.
struct PartFailures {
  std::string part;  // "gpu", "hbm", "network", …
  double count = 1;
  double per_day = 0;
};

struct FailurePlan {
  std::vector<PartFailures> parts;
  Seconds span{30 * 86400.0};  // Wall time to look at.
  Seconds interval;            // Work between checkpoints; nothing: Daly's.
  Seconds checkpoint_blocks;   // Nothing: the state over `storage`, whole or when asynchronous …
  BytesPerSecond storage;      // … at the memory's copy to the host; of all writers together.
  bool asynchronous = false;
  Seconds detection{300};  // From a failure until somebody or something notices.
  Seconds restart{600};    // From there to the first step.
  bool restart_can_fail = true;
  int spares = -1;        // Nodes in reserve; −1: always one.
  Seconds repair{86400};  // Until a failed node is in reserve again.
  // Without a spare, go on with one replica less; each change of size costs `reconfiguration`.
  bool elastic = false;
  Seconds reconfiguration{300};
  int seeds = 1000;
};

struct Facility {
  double power_usage_effectiveness = 1;    // 1: only the machines themselves.
  double carbon_kg_per_kilowatt_hour = 0;  // 0: not known.
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_FAILURE_PLAN_H_
