// Links that flap within a step: when they are down and when they are up, where that is not so
// often that only the mean counts.
#ifndef MEGATWIN_SIM_FLAPPING_H_
#define MEGATWIN_SIM_FLAPPING_H_

#include <optional>

#include "model/job.h"

namespace megatwin::sim {

// Periods in a step up to which each counts by itself; beyond, the mean rate is off by less than
// one of them.
inline constexpr int kFlapsMax = 16;
// A cable that is down lets this part of its bandwidth through, so that all work ends some day.
inline constexpr double kDownFactor = 1e5;

// How often the link goes down before `end`; nothing where that is more than kFlapsMax times in a
// step of that length, so that its mean rate counts. Requires: a flapping link.
std::optional<int> flaps_before(const model::Disturbance& disturbance, model::Instant end);

// `job` with windows in place of the flapping links that go down one by one: each is down from its
// start on for `down`, and again every `period`. For a step that ends at `end` or a little later;
// beyond that the mean counts. Nothing where there is no such link.
std::optional<model::Job> with_flaps(const model::Job& job, model::Instant end);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_FLAPPING_H_
