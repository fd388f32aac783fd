// Links that flap within a step: when they are down and when they are up, where that is not so
// often that only the mean counts. A cable is down when one of its disturbances says so.
#ifndef MEGATWIN_SIM_FLAPPING_H_
#define MEGATWIN_SIM_FLAPPING_H_

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/job.h"

namespace megatwin::sim {

// Periods in a step up to which each counts by itself.
inline constexpr int kFlapsMax = 16;
// A cable that is down lets this part of its bandwidth through, so that all work ends some day.
inline constexpr double kDownFactor = 1e5;

// How often the link goes down before `end`, in whole and begun periods. Requires: a flapping link.
double flaps_before(const model::Disturbance& disturbance, model::Instant end);

// By disturbance: whether it is a link that goes down one by one in a step of this length, once or
// more and at most kFlapsMax times a step. The mean counts of others.
std::vector<bool> counted_flaps(const model::Job& job, model::Instant end);

struct PhasedJob {
  // With a window for each time that a cable is down, however many say so, in place of the flapping
  // links that are counted; see is_outage().
  model::Job job;
  // From here on the mean counts of one that was counted; the end of time where each is over by
  // then.
  model::Instant until;
};
// For a step that ends at `end` or a little later. Requires: one of `counted`.
PhasedJob with_flaps(const model::Job& job, const std::vector<bool>& counted, model::Instant end);

// A flapping link that is never up while its window lasts.
bool is_outage(const model::Disturbance& disturbance);

// The ends of a cable, whichever of them is named first.
std::pair<std::string, std::string> cable_of(const model::Disturbance& disturbance);

// The part of the time that a cable is up which flaps by all of these at once. Those of one period
// by when they begin, so that outages at the same time are one; others as if independent.
double mean_uptime(std::span<const model::Disturbance> flapping);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_FLAPPING_H_
