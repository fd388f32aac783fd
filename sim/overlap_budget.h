// How data-parallel traffic slows the compute beside it. The rule goes by order, not by time, so
// that every engine and every schedule agree: a transfer that enters the data-parallel lane adds
// its duration to the budget of its rank, and the tasks that the rank issues from then on use the
// budget up, each by its own duration. The part of a task that is so covered takes 1 + slowdown as
// long. Gaps between tasks do not use the budget up, hence the slowdown is an upper estimate.
#ifndef MEGATWIN_SIM_OVERLAP_BUDGET_H_
#define MEGATWIN_SIM_OVERLAP_BUDGET_H_

#include <algorithm>
#include <cmath>

#include "sim/pipeline_costs.h"

namespace megatwin::sim {

class OverlapBudget {
 public:
  void add(Nanoseconds transfer) { left_ += transfer; }

  // The duration of the next task with its slowdown.
  Nanoseconds extended(Nanoseconds duration, double slowdown) {
    const Nanoseconds covered = std::min(duration, left_);
    left_ -= covered;
    return duration + std::llround(static_cast<double>(covered) * slowdown);
  }

 private:
  Nanoseconds left_ = 0;
};

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_OVERLAP_BUDGET_H_
