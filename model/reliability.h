// Failures, checkpoints and what is left of the time: closed forms for mean time to failure, the
// best checkpoint interval and goodput. The simulator of failures (sim/) is checked against these.
#ifndef MEGATWIN_MODEL_RELIABILITY_H_
#define MEGATWIN_MODEL_RELIABILITY_H_

#include "model/units.h"

namespace megatwin::model {

// A job of `num_nodes` stops when one node fails: 1/(N·r), r failures per node and day.
// Source: Kokolis et al., arXiv:2410.21680. The law is pessimistic for small jobs.
Seconds job_mean_time_to_failure(double num_nodes, double failures_per_node_day);

// Observed: days of running over failures seen.
Seconds mean_time_between_failures(Seconds observed, double failures);

struct CheckpointCost {
  Seconds write;                 // d: blocking time of one checkpoint.
  Seconds mean_time_to_failure;  // M
};

// sqrt(2dM); minus d (Daly, first order); and Daly's higher order,
// sqrt(2dM)·[1 + (1/3)·sqrt(d/2M) + (1/9)·d/2M] − d for d < 2M, else M.
// Source: Young, CACM 17(9) 1974; Daly, FGCS 22(3) 2006.
Seconds young_interval(const CheckpointCost& cost);
Seconds daly_first_order_interval(const CheckpointCost& cost);
Seconds daly_interval(const CheckpointCost& cost);

// Share of time lost at the best interval, about sqrt(2d/M).
double loss_at_best_interval(const CheckpointCost& cost);

// Share of time spent on writing: w/interval.
double checkpoint_stall_fraction(Seconds write, Seconds interval);

// Effective training time ratio (1 − N·r·(u0 + Δt/2)) / (1 + w/Δt): N nodes, r failures per node
// and unit time, u0 restart, w blocking write, Δt interval. Source: Kokolis et al.,
// arXiv:2410.21680.
struct TrainingTimeRatio {
  Seconds mean_time_to_failure;  // 1/(N·r)
  Seconds restart;
  Seconds write;
  Seconds interval;
};
double expected_training_time_ratio(const TrainingTimeRatio& run);

// Exponential failures: one segment of `interval` work and its checkpoint takes
// (e^{(τ+d)/M} − 1)·(M + R) on average when a restart of R never fails, and
// (e^{(τ+d)/M} − 1)·M·e^{R/M} when it fails as work does and starts anew. Goodput is τ over that.
// Source: Daly, FGCS 22(3) 2006, section 4, for the second; the first has R for the mean
// M·(e^{R/M} − 1) of a restart that may fail.
struct FailureModel {
  Seconds interval;  // τ
  Seconds write;     // d
  Seconds restart;   // R
  Seconds mean_time_to_failure;
  bool restart_can_fail = false;
};
Seconds expected_segment_time(const FailureModel& model);
double expected_goodput(const FailureModel& model);

// Smallest number of spares s with P(more than s nodes are out at once) < `shortage`, when nodes
// fail at `failures_per_day` and stay away for `replacement` (Poisson).
int spare_nodes(double failures_per_day, Seconds replacement, double shortage);

// Throughput left when one of `data` replicas is dropped, and whether that beats waiting for a
// repair: it does when repair > data · reconfiguration.
double elastic_throughput(double data);
bool elastic_shrink_pays(double data, Seconds repair, Seconds reconfiguration);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_RELIABILITY_H_
