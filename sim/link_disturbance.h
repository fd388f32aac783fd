// A link that is slower than planned, from some instant of the step on.
#ifndef MEGATWIN_SIM_LINK_DISTURBANCE_H_
#define MEGATWIN_SIM_LINK_DISTURBANCE_H_

#include "model/ids.h"
#include "model/units.h"

namespace megatwin::sim {

// Both directions between two neighbouring stages. A transfer that begins at `since` or later takes
// `factor` times as long; one that is under way is not touched.
struct LinkDisturbance {
  model::StageId one, other;
  double factor = 1;
  model::Instant since;

  bool touches(model::StageId from, model::StageId to) const {
    return (from == one && to == other) || (from == other && to == one);
  }
};

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_LINK_DISTURBANCE_H_
