// Durations of a step whose costs change within it, to the nanosecond.
#ifndef MEGATWIN_SIM_CHANGING_COSTS_H_
#define MEGATWIN_SIM_CHANGING_COSTS_H_

#include <cmath>
#include <vector>

#include "sim/changing_work.h"
#include "sim/pipeline_costs.h"

namespace megatwin::sim {

// As changing_duration() by the changes of a step's costs; `whole_in(0)` is before the first.
template <class WholeIn>
Nanoseconds changing_duration(const std::vector<PipelineCosts::Change>& changes, Nanoseconds start,
                              WholeIn whole_in) {
  return std::llround(changing_duration(
      changes.size(), static_cast<double>(start),
      [&](std::size_t k) { return static_cast<double>(changes[k].at); },
      [&](std::size_t k) { return static_cast<double>(whole_in(k)); }));
}

inline Nanoseconds optimizer_duration(const PipelineCosts& costs, std::size_t unit,
                                      Nanoseconds start) {
  return changing_duration(costs.changes, start, [&](std::size_t k) {
    return k == 0 ? costs.optimizer[unit] : costs.changes[k - 1].optimizer[unit];
  });
}

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_CHANGING_COSTS_H_
