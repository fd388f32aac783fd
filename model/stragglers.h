// How late the last of n ranks is: order statistics for barriers, and what one slow part does to a
// ring. Times here are relative or in seconds alike; the caller keeps the unit.
#ifndef MEGATWIN_MODEL_STRAGGLERS_H_
#define MEGATWIN_MODEL_STRAGGLERS_H_

#include <span>

#include "model/units.h"

namespace megatwin::model {

// Expected maximum of n independent draws.
double expected_max_uniform(double n);                  // On [0, 1]: n/(n+1).
Seconds expected_max_exponential(Seconds mean, int n);  // mean · (1 + 1/2 + … + 1/n).

struct NormalTime {
  Seconds mean, deviation;
};
// μ + σ·sqrt(2 ln n), an upper estimate, and the integral of the exact law.
Seconds expected_max_normal_asymptotic(const NormalTime& time, double n);
Seconds expected_max_normal(const NormalTime& time, double n);

// A ring moves at its slowest edge.
BytesPerSecond ring_bandwidth(std::span<const BytesPerSecond> edges);

// Synchronous step over the mean: what all lose by waiting for the slowest, max/mean.
double slowdown_of_slowest(std::span<const Seconds> rank_times);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_STRAGGLERS_H_
