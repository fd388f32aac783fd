// The adaptive policy against fixed orders on random pipelines and conditions, none of which it was
// made with.
#ifndef MEGATWIN_TESTS_POLICIES_RANDOM_RACE_H_
#define MEGATWIN_TESTS_POLICIES_RANDOM_RACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/policies/order_race.h"

namespace megatwin::tests {

// 2 to 8 stages of 1 to 4 chunks, p to 4p micro-batches and 20 % more or fewer, backwards of 1 to
// 2.5 forwards, transfers of up to a forward, chunks that differ by up to 30 % and a last one with
// a head of up to five, in a quarter of the cases in memory too, a link at half speed from the
// start or from some instant of the step on, 60, 80 or 100 % of the memory of interleaved 1F1B
// (1F1B with one chunk) or all, no limit of receive slots, one or two.
struct RandomRace {
  RaceCase race;
  std::string description;
  int memory_percent = 0;  // 0: unlimited.
};
RandomRace random_race(std::uint64_t seed);

// How far the adaptive policy was behind the best fixed order, in percent; below 0: ahead.
struct Lags {
  std::vector<double> sorted;
  double share_within(double percent) const;
  double mean() const;
  double quantile(double share) const;
};

struct RandomRaces {
  Lags all;
  std::string markdown;  // A table of docs/dpp.md: by slots and memory.
};
// Of seeds 1 to `count`.
RandomRaces race_at_random(int count);

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_POLICIES_RANDOM_RACE_H_
