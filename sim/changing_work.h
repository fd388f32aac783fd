// How long work takes whose cost changes while it is under way: in each stretch of time it gets
// done at the rate of then, so that the parts of it that the stretches do sum to one. Work that
// takes 10 ms, and twice as long from 4 ms on, started at 0: 4/10 are done by 4 ms, and the other
// 6/10 take 12 ms, so it ends at 16 ms.
#ifndef MEGATWIN_SIM_CHANGING_WORK_H_
#define MEGATWIN_SIM_CHANGING_WORK_H_

#include <cstddef>

namespace megatwin::sim {

// `change_at(k)`: when stretch k + 1 begins, of `num_changes` in ascending order. `whole_in(k)`:
// how long the work takes if all of it falls in stretch k. A change at `start` holds already.
template <class ChangeAt, class WholeIn>
double changing_duration(std::size_t num_changes, double start, ChangeAt change_at,
                         WholeIn whole_in) {
  std::size_t k = 0;
  while (k < num_changes && change_at(k) <= start) ++k;
  double done = 0, now = start;
  for (; k < num_changes; ++k) {
    const double whole = whole_in(k);
    if (now + (1 - done) * whole <= change_at(k)) break;
    done += (change_at(k) - now) / whole;
    now = change_at(k);
  }
  return now - start + (1 - done) * whole_in(k);
}

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_CHANGING_WORK_H_
