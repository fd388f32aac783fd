#include "model/stragglers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>

#include "model/assert.h"

namespace megatwin::model {
namespace {

// E[max] = ∫ 1 − Φ(z)^n over z > 0 minus ∫ Φ(z)^n over z < 0, midpoint rule.
double integrate_max_normal(double n) {
  constexpr int kStepsPerUnit = 512;
  constexpr int kReach = 12;
  const double step = 1.0 / kStepsPerUnit;
  double expectation = 0;
  for (int i = 0; i < kReach * kStepsPerUnit; ++i) {
    const double z = (i + 0.5) * step;
    const double above = std::pow(0.5 * std::erfc(-z / std::sqrt(2.0)), n);
    const double below = std::pow(0.5 * std::erfc(z / std::sqrt(2.0)), n);
    expectation += (1 - above - below) * step;
  }
  return expectation;
}

}  // namespace

double expected_max_uniform(double n) { return n / (n + 1); }

Seconds expected_max_exponential(Seconds mean, int n) {
  double harmonic = 0;
  for (int i = n; i >= 1; --i) harmonic += 1.0 / i;  // Small terms first.
  return harmonic * mean;
}

Seconds expected_max_normal_asymptotic(const NormalTime& time, double n) {
  return time.mean + std::sqrt(2 * std::log(n)) * time.deviation;
}

Seconds expected_max_normal(const NormalTime& time, double n) {
  // Half a millisecond each, and a search asks for the same few n thousands of times.
  constexpr std::size_t kKept = 64;
  thread_local std::map<double, double> known;
  if (known.size() >= kKept) known.clear();
  const auto [place, is_new] = known.try_emplace(n);
  if (is_new) place->second = integrate_max_normal(n);
  return time.mean + place->second * time.deviation;
}

BytesPerSecond ring_bandwidth(std::span<const BytesPerSecond> edges) {
  MEGATWIN_ASSERT(!edges.empty());
  return *std::min_element(edges.begin(), edges.end());
}

double slowdown_of_slowest(std::span<const Seconds> rank_times) {
  MEGATWIN_ASSERT(!rank_times.empty());
  Seconds sum;
  for (const Seconds time : rank_times) sum += time;
  const Seconds slowest = *std::max_element(rank_times.begin(), rank_times.end());
  return static_cast<double>(rank_times.size()) * ratio(slowest / sum);
}

}  // namespace megatwin::model
