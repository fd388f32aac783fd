// When parts fail: independent exponential lifetimes, drawn by a generator of our own so that a
// seed means the same everywhere and always.
#ifndef MEGATWIN_SIM_FAILURES_H_
#define MEGATWIN_SIM_FAILURES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/failure_plan.h"
#include "model/units.h"

namespace megatwin::sim {

// Source: Blackman, Vigna, "Scrambled linear pseudorandom number generators", ACM TOMS 47(4) 2021:
// xoshiro256++, seeded by splitmix64.
class RandomStream {
 public:
  explicit RandomStream(std::uint64_t seed);
  std::uint64_t next();
  double uniform();                                 // In (0, 1].
  model::Seconds exponential(model::Seconds mean);  // Requires: mean > 0.

 private:
  std::uint64_t state_[4];
};

using model::PartFailures;

struct Failure {
  model::Seconds after;  // Since the question.
  int part = 0;          // Index into the parts.
};

class FailureSource {
 public:
  // Requires: at least one part that fails.
  FailureSource(std::vector<PartFailures> parts, std::uint64_t seed);

  model::Seconds mean_time_between_failures() const { return mean_; }
  // The next failure from now on: lifetimes are memoryless, so it does not matter since when.
  Failure next();
  const std::vector<PartFailures>& parts() const { return parts_; }

 private:
  std::vector<PartFailures> parts_;
  model::Seconds mean_;
  RandomStream random_;
};

// 1 / Σ count · per_day.
model::Seconds mean_time_between_failures(const std::vector<PartFailures>& parts);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_FAILURES_H_
