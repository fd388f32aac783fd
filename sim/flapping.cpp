#include "sim/flapping.h"

#include <algorithm>
#include <cmath>

namespace megatwin::sim {
namespace {

using model::Disturbance;
using model::DisturbanceKind;
using model::Instant;

// More of them than the mean lets expect: outages that fall badly make the step longer.
constexpr int kMoreFlaps = 4;

Instant later(Instant start, model::Seconds by) {
  return {start.ns + model::round_to_instant(by).ns};
}

// The k-th outage, and after `count` of them the mean.
std::vector<Disturbance> phases_of(const Disturbance& flapping, int count) {
  std::vector<Disturbance> phases;
  const auto ends = [&](Instant by) { return flapping.until ? std::min(*flapping.until, by) : by; };
  const auto is_over = [&](Instant at) { return flapping.until && *flapping.until <= at; };
  for (int k = 0; k < count; ++k) {
    const Instant down = later(flapping.start, k * flapping.period);
    if (is_over(down)) return phases;
    Disturbance outage = flapping;
    outage.kind = DisturbanceKind::SlowLink;
    outage.factor = kDownFactor;
    outage.start = down;
    outage.until = ends(later(down, flapping.down));
    phases.push_back(outage);
  }
  Disturbance rest = flapping;
  rest.start = later(flapping.start, count * flapping.period);
  if (!is_over(rest.start)) phases.push_back(rest);
  return phases;
}

}  // namespace

std::optional<int> flaps_before(const Disturbance& disturbance, Instant end) {
  if (model::to_seconds(end) > kFlapsMax * disturbance.period) return std::nullopt;
  const Instant until = disturbance.until ? std::min(*disturbance.until, end) : end;
  if (until <= disturbance.start) return 0;
  const model::Seconds length = model::to_seconds(until) - model::to_seconds(disturbance.start);
  return static_cast<int>(std::ceil(ratio(length / disturbance.period)));
}

std::optional<model::Job> with_flaps(const model::Job& job, Instant end) {
  model::Job phased = job;
  phased.disturbances.clear();
  bool any = false;
  for (const Disturbance& d : job.disturbances) {
    const auto flaps =
        d.kind == DisturbanceKind::FlappingLink ? flaps_before(d, end) : std::optional<int>{};
    if (!flaps || *flaps == 0) {
      phased.disturbances.push_back(d);
      continue;
    }
    any = true;
    for (Disturbance& phase : phases_of(d, *flaps + kMoreFlaps)) {
      phased.disturbances.push_back(std::move(phase));
    }
  }
  if (!any) return std::nullopt;
  return phased;
}

}  // namespace megatwin::sim
