// Which micro-batches of a decoupled step leave their weight gradients to the forward side: the one
// rule for every world.
//
// The instances of two sides take micro-batches in turn, so that every pair comes again after a
// round of lcm(forward, backward instances). Each round leaves as many as brings the sum nearest
// below the share; whose turn it is to leave one goes round, too: every instance of either side
// leaves as many as the others or one more, whatever share and numbers have in common. The last
// round, which may have fewer micro-batches, goes on in that turn with those that it has.
//
// One forward instance works out all that is left. What is left is then spread over time alone: in
// 750 random pipelines of one forward and 2 to 4 backward instances turns gained nothing by
// themselves, and the best share made steps that were 0.2 % longer.
#ifndef MEGATWIN_MODEL_PROGRAM_LEFT_WEIGHTS_H_
#define MEGATWIN_MODEL_PROGRAM_LEFT_WEIGHTS_H_

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdint>
#include <numeric>

#include "model/ids.h"

namespace megatwin::model {

// Of the first n micro-batches of whole rounds how many leave their weight gradients; of all. A
// whole number within rounding counts as one.
inline int left_of_first(std::int64_t n, double share) {
  return static_cast<int>(std::floor(static_cast<double>(n) * share + 1e-9));
}

struct LeftWeights {
  double share = 0;       // Of all micro-batches.
  int micro_batches = 1;  // Of the step.
  std::int64_t round = 1;

  friend constexpr auto operator<=>(const LeftWeights&, const LeftWeights&) = default;

  bool has(MicroBatchId micro_batch) const {
    const std::int64_t first = micro_batch.value / round * round;
    const std::int64_t size = std::min(round, micro_batches - first);
    const std::int64_t before = left_of_first(first, share);
    const std::int64_t turn = before % round < size ? before % round : 0;
    const std::int64_t place = (micro_batch.value - first - turn + size) % size;
    return place < left_of_first(first + size, share) - before;
  }
  // Of whole rounds, how many does one of so many instances leave.
  int left_of_instance(std::int64_t rounds, int instance, int instances) const {
    const int all = left_of_first(rounds * round, share);
    return (all - instance + instances - 1) / instances;
  }
};

inline std::int64_t round_of(int forward_instances, int backward_instances) {
  if (forward_instances == 1) {
    return 1;
  }
  return std::lcm(std::int64_t{forward_instances}, std::int64_t{backward_instances});
}

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PROGRAM_LEFT_WEIGHTS_H_
