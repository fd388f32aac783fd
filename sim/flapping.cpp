#include "sim/flapping.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

namespace megatwin::sim {
namespace {

using model::Disturbance;
using model::DisturbanceKind;
using model::Instant;
using model::Seconds;

// More of them than the mean lets expect: outages that fall badly make the step longer.
constexpr int kMoreFlaps = 4;
constexpr Instant kNever{std::numeric_limits<std::int64_t>::max()};
constexpr Seconds kAllTheWhile{1};  // Down for so long of every so long.

Instant later(Instant start, Seconds by) { return {start.ns + model::round_to_instant(by).ns}; }

// From one instant to another.
using Window = std::pair<Instant, Instant>;

// Sorted, and those that touch in one.
template <class Time>
std::vector<std::pair<Time, Time>> merged(std::vector<std::pair<Time, Time>> windows) {
  std::sort(windows.begin(), windows.end());
  std::vector<std::pair<Time, Time>> apart;
  for (const auto& window : windows) {
    if (!apart.empty() && window.first <= apart.back().second) {
      apart.back().second = std::max(apart.back().second, window.second);
    } else {
      apart.push_back(window);
    }
  }
  return apart;
}

struct Phases {
  std::vector<Window> outages;
  std::optional<Disturbance> rest;  // The mean, after the last of them.
};

Phases phases_of(const Disturbance& flapping, int count) {
  Phases phases;
  const Instant over = flapping.until.value_or(kNever);
  for (int k = 0; k < count; ++k) {
    const Instant down = later(flapping.start, k * flapping.period);
    if (over <= down) return phases;
    phases.outages.emplace_back(down, std::min(over, later(down, flapping.down)));
  }
  Disturbance rest = flapping;
  rest.start = later(flapping.start, count * flapping.period);
  if (rest.start < over) phases.rest = rest;
  return phases;
}

}  // namespace

double flaps_before(const Disturbance& disturbance, Instant end) {
  const Instant until = disturbance.until ? std::min(*disturbance.until, end) : end;
  if (until <= disturbance.start) return 0;
  const Seconds length = model::to_seconds(until) - model::to_seconds(disturbance.start);
  return std::ceil(ratio(length / disturbance.period));
}

std::vector<bool> counted_flaps(const model::Job& job, Instant end) {
  std::vector<bool> counted;
  for (const Disturbance& d : job.disturbances) {
    counted.push_back(d.kind == DisturbanceKind::FlappingLink &&
                      model::to_seconds(end) <= kFlapsMax * d.period && flaps_before(d, end) > 0);
  }
  return counted;
}

PhasedJob with_flaps(const model::Job& job, const std::vector<bool>& counted, Instant end) {
  PhasedJob phased{.job = job, .until = kNever};
  std::vector<Disturbance>& all = phased.job.disturbances;
  all.clear();
  std::map<std::pair<std::string, std::string>, std::vector<Window>> outages;
  for (std::size_t i = 0; i < counted.size(); ++i) {
    const Disturbance& d = job.disturbances[i];
    if (!counted[i]) {
      all.push_back(d);
      continue;
    }
    Phases phases = phases_of(d, static_cast<int>(flaps_before(d, end)) + kMoreFlaps);
    std::vector<Window>& of_cable = outages[cable_of(d)];
    of_cable.insert(of_cable.end(), phases.outages.begin(), phases.outages.end());
    if (!phases.rest) continue;
    phased.until = std::min(phased.until, phases.rest->start);
    all.push_back(*std::move(phases.rest));
  }
  for (auto& [cable, windows] : outages) {
    for (const Window& window : merged(std::move(windows))) {
      all.push_back({.kind = DisturbanceKind::FlappingLink,
                     .at = cable.first,
                     .to = cable.second,
                     .down = kAllTheWhile,
                     .period = kAllTheWhile,
                     .start = window.first,
                     .until = window.second});
    }
  }
  return phased;
}

bool is_outage(const Disturbance& disturbance) {
  return disturbance.kind == DisturbanceKind::FlappingLink &&
         disturbance.down >= disturbance.period;
}

std::pair<std::string, std::string> cable_of(const Disturbance& disturbance) {
  return std::minmax(disturbance.at, disturbance.to);
}

double mean_uptime(std::span<const Disturbance> flapping) {
  std::map<Seconds, std::vector<std::pair<Seconds, Seconds>>> by_period;
  for (const Disturbance& d : flapping) {
    const Seconds from{std::fmod(model::to_seconds(d.start).value, d.period.value)};
    const Seconds to = from + d.down;
    auto& outages = by_period[d.period];
    outages.emplace_back(from, std::min(d.period, to));
    if (d.period < to) outages.emplace_back(Seconds{}, to - d.period);
  }
  double uptime = 1;
  for (auto& [period, outages] : by_period) {
    Seconds down;
    for (const auto& [from, to] : merged(std::move(outages))) down += to - from;
    uptime *= 1 - ratio(down / period);
  }
  return std::max(0.0, uptime);
}

}  // namespace megatwin::sim
