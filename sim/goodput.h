// Weeks of training with failures, simulated failure by failure: how much of the time was spent on
// work that was kept. Beside it the closed forms of model/reliability.h, which leave out spares,
// slow checkpoints and the spread.
#ifndef MEGATWIN_SIM_GOODPUT_H_
#define MEGATWIN_SIM_GOODPUT_H_

#include <cstdint>
#include <vector>

#include "model/units.h"
#include "sim/failures.h"

namespace megatwin::sim {

struct GoodputJob {
  std::vector<PartFailures> failures;
  model::Seconds span;                // Wall time to look at.
  model::Seconds interval;            // Work between checkpoints.
  model::Seconds checkpoint_blocks;   // Time that training stands still for one.
  model::Seconds checkpoint_durable;  // Until it can be read back; at least the time above.
  model::Seconds detection;           // From a failure until somebody or something notices.
  model::Seconds restart;             // From there to the first step.
  bool restart_can_fail = true;
  int spares = -1;        // Nodes in reserve; −1: always one.
  model::Seconds repair;  // Until a failed node is in reserve again.
  // Elastic: of so many data-parallel replicas those without a node drop out and come back with it,
  // each change for `reconfiguration`. 0: the job waits for a node instead.
  int replicas = 0;
  model::Seconds reconfiguration;
};

struct GoodputRun {
  double goodput = 0;  // Kept work over the span.
  // The span without the kept work, by where it went. Shrunk: what missing replicas did not do.
  model::Seconds redone, checkpoints, restarts, waiting, shrunk;
  int failures = 0;
  std::vector<int> failures_by_part;
};

// Requires: span and interval > 0. Deterministic by the seed.
GoodputRun simulate_goodput(const GoodputJob& job, std::uint64_t seed);

struct GoodputSpread {
  double mean = 0, p05 = 0, p50 = 0, p95 = 0;  // Of goodput over the seeds.
  double failures_mean = 0;
  // Means of where the rest of the span went, as parts of it.
  double redone = 0, checkpoints = 0, restarts = 0, waiting = 0, shrunk = 0;
};
// Seeds first_seed … first_seed + runs − 1.
GoodputSpread goodput_spread(const GoodputJob& job, int runs, std::uint64_t first_seed = 1);

// The interval of the best mean goodput over the same seeds, by golden-section search between
// `low` and `high`. Requires: low < high.
struct IntervalSearch {
  model::Seconds low, high;
  int runs = 200;
};
model::Seconds best_interval(GoodputJob job, const IntervalSearch& search);

// The longest outage a failure may cost for `goodput` to be reached, at Daly's interval and with
// exponential failures during work: τ/(g·(e^{(τ+d)/M} − 1)) − M. Negative when no outage at all is
// short enough.
struct RestartBudget {
  double goodput = 0.9;
  model::Seconds write, mean_time_to_failure;
};
model::Seconds restart_budget(const RestartBudget& budget);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_GOODPUT_H_
