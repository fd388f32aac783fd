#include "model/reliability.h"

#include <cmath>

namespace megatwin::model {
namespace {

constexpr Seconds kDay{86400};

double failures_during(Seconds span, Seconds mean_time_to_failure) {
  return ratio(span / mean_time_to_failure);
}

}  // namespace

Seconds job_mean_time_to_failure(double num_nodes, double failures_per_node_day) {
  return kDay / (num_nodes * failures_per_node_day);
}

Seconds mean_time_between_failures(Seconds observed, double failures) {
  return observed / failures;
}

Seconds young_interval(const CheckpointCost& cost) {
  return {std::sqrt(2 * cost.write.value * cost.mean_time_to_failure.value)};
}

Seconds daly_first_order_interval(const CheckpointCost& cost) {
  return young_interval(cost) - cost.write;
}

Seconds daly_interval(const CheckpointCost& cost) {
  const double half_ratio = ratio(cost.write / (2.0 * cost.mean_time_to_failure));
  if (half_ratio >= 1) return cost.mean_time_to_failure;
  const double correction = 1 + std::sqrt(half_ratio) / 3 + half_ratio / 9;
  return correction * young_interval(cost) - cost.write;
}

double loss_at_best_interval(const CheckpointCost& cost) {
  return std::sqrt(2 * ratio(cost.write / cost.mean_time_to_failure));
}

double checkpoint_stall_fraction(Seconds write, Seconds interval) {
  return ratio(write / interval);
}

double expected_training_time_ratio(const TrainingTimeRatio& run) {
  const Seconds lost_per_failure = run.restart + run.interval / 2;
  return (1 - failures_during(lost_per_failure, run.mean_time_to_failure)) /
         (1 + checkpoint_stall_fraction(run.write, run.interval));
}

Seconds expected_segment_time(const FailureModel& model) {
  const double exposure = failures_during(model.interval + model.write, model.mean_time_to_failure);
  const double outage = failures_during(model.restart, model.mean_time_to_failure);
  const double restarts = model.restart_can_fail ? std::exp(outage) : 1 + outage;
  return std::expm1(exposure) * restarts * model.mean_time_to_failure;
}

double expected_goodput(const FailureModel& model) {
  return ratio(model.interval / expected_segment_time(model));
}

int spare_nodes(double failures_per_day, Seconds replacement, double shortage) {
  // Poisson with mean λD, summed term by term.
  const double mean = failures_per_day * ratio(replacement / kDay);
  double term = std::exp(-mean);
  double within = term;
  int spares = 0;
  // A mean of 700 underflows the first term; the bound keeps the loop finite whatever comes in.
  const int spares_max = static_cast<int>(mean + 40 * std::sqrt(mean + 1) + 40);
  while (1 - within >= shortage && spares < spares_max) {
    ++spares;
    term *= mean / spares;
    within += term;
  }
  return spares;
}

double elastic_throughput(double data) { return (data - 1) / data; }

bool elastic_shrink_pays(double data, Seconds repair, Seconds reconfiguration) {
  return repair > data * reconfiguration;
}

}  // namespace megatwin::model
