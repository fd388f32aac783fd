#include "sim/goodput_report.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "model/reliability.h"
#include "sim/checkpoint_period.h"

namespace megatwin::sim {
namespace {

using model::BytesPerSecond;
using model::FailurePlan;
using model::Seconds;

// 16-bit weights, and of the optimizer fp32 weights and two moments. Source: BigScience's 176B
// model wrote 2.3 TiB, 14.4 B a parameter (stas00/ml-engineering).
constexpr double kBytesPerParameter = 14;
constexpr int kSearchRuns = 100;
// Part of the time in which too few spares are borne.
constexpr double kShortage = 0.01;

BytesPerSecond storage_of(const model::Job& job) {
  BytesPerSecond rate = job.failures->storage;
  for (const model::Disturbance& d : job.disturbances) {
    if (d.kind != model::DisturbanceKind::SlowStorage) continue;
    rate = rate.value > 0 ? std::min(rate, d.rate) : d.rate;
  }
  return rate;
}

// Each rank copies its share to its host's memory before it goes on.
Seconds copy_to_host(const model::Job& job, model::Bytes checkpoint) {
  const model::Gpu& gpu = job.cluster.groups.front().gpu;
  if (gpu.pcie_per_direction.value <= 0) return {};
  return checkpoint / static_cast<double>(job.plan.gpus()) / gpu.pcie_per_direction;
}

void fill_checkpoint(const model::Job& job, GoodputReport& answer) {
  const FailurePlan& plan = *job.failures;
  const BytesPerSecond storage = storage_of(job);
  const Seconds written = storage.value > 0 ? answer.checkpoint / storage : Seconds{};
  const Seconds copied = copy_to_host(job, answer.checkpoint);
  if (plan.checkpoint_blocks.value > 0) {
    answer.job.checkpoint_blocks = plan.checkpoint_blocks;
    answer.job.checkpoint_durable = std::max(plan.checkpoint_blocks, written);
  } else if (plan.asynchronous) {
    answer.job.checkpoint_blocks = copied;
    answer.job.checkpoint_durable = copied + written;
  } else {
    answer.job.checkpoint_blocks = answer.job.checkpoint_durable = written;
  }
}

std::string in_days(Seconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g d", time.value / 86400);
  return text;
}

std::string in_hours_or_seconds(Seconds time) {
  char text[32];
  if (time.value < 600) {
    std::snprintf(text, sizeof text, "%.3g s", time.value);
  } else {
    std::snprintf(text, sizeof text, "%.3g h", time.value / 3600);
  }
  return text;
}

std::string in_percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

void warn_of_no_checkpoint(const GoodputReport& answer, std::vector<std::string>& warnings) {
  const Seconds first = answer.job.interval + answer.job.checkpoint_blocks;
  if (first <= answer.job.span) return;
  warnings.push_back("no checkpoint is ever written: the first is due after " + in_days(first) +
                     " of work, the span is " + in_days(answer.job.span) +
                     "; every failure starts the job anew");
}

void warn_of_late_checkpoints(const GoodputReport& answer, std::vector<std::string>& warnings) {
  const GoodputJob& job = answer.job;
  const Seconds period = checkpoint_period(job);
  const Seconds waits = period - job.interval - job.checkpoint_blocks;
  // Less is the rounding of an interval that was chosen so that nothing waits.
  if (waits.value <= 1e-6 * period.value) return;
  warnings.push_back("checkpoints come faster than they are written: one is durable after " +
                     in_hours_or_seconds(job.checkpoint_durable) + ", the next is due " +
                     in_hours_or_seconds(job.interval + job.checkpoint_blocks) +
                     " after it began and waits for it; training stands still for " +
                     in_percent(ratio(waits / period)) + " of the time, at an interval of " +
                     in_hours_or_seconds(job.checkpoint_durable - job.checkpoint_blocks) +
                     " or more for none");
}

// Nodes away are Poisson by failures and repair as long as the job does not wait.
void warn_of_few_spares(const GoodputReport& answer, std::vector<std::string>& warnings) {
  const GoodputJob& job = answer.job;
  if (job.spares < 0) return;
  const double per_day = 86400 / answer.mean_time_between_failures.value;
  const int enough = model::spare_nodes(per_day, job.repair, kShortage);
  const double lost = answer.spread.waiting + answer.spread.shrunk;
  if (enough <= job.spares || lost < kShortage) return;
  char away[32];
  std::snprintf(away, sizeof away, "%.3g", per_day * job.repair.value / 86400);
  warnings.push_back("spares are short: " + in_percent(lost) +
                     " of the time goes to waiting for nodes and missing replicas, which the "
                     "closed form and the effective training time ratio do not know; " +
                     away + " nodes are in repair on average, and with " + std::to_string(enough) +
                     " spares instead of " + std::to_string(job.spares) +
                     " they would suffice 99 % of the time");
}

}  // namespace

void fill_goodput(const model::Job& job, SimulationReport& report) {
  if (!job.failures) return;
  const FailurePlan& plan = *job.failures;
  GoodputReport answer;
  answer.checkpoint = {kBytesPerParameter * static_cast<double>(report.parameters_total)};
  answer.job = {.failures = plan.parts,
                .span = plan.span,
                .detection = plan.detection,
                .restart = plan.restart,
                .restart_can_fail = plan.restart_can_fail,
                .spares = plan.spares,
                .repair = plan.repair,
                .replicas = plan.elastic ? job.plan.data : 0,
                .reconfiguration = plan.reconfiguration};
  fill_checkpoint(job, answer);
  answer.mean_time_between_failures = mean_time_between_failures(plan.parts);
  const model::CheckpointCost cost{.write = answer.job.checkpoint_blocks,
                                   .mean_time_to_failure = answer.mean_time_between_failures};
  answer.young = young_interval(cost);
  answer.daly_first_order = daly_first_order_interval(cost);
  answer.daly = daly_interval(cost);
  // No checkpoint begins before the one before it is durable.
  const Seconds shortest =
      std::max(answer.job.checkpoint_durable - answer.job.checkpoint_blocks, Seconds{1});
  answer.job.interval = plan.interval.value > 0 ? plan.interval : std::max(answer.daly, shortest);
  const Seconds outage = plan.detection + plan.restart;
  // What stands still for a checkpoint, with the wait for the one before it.
  const Seconds stands = checkpoint_period(answer.job) - answer.job.interval;
  answer.expected = model::expected_goodput({.interval = answer.job.interval,
                                             .write = stands,
                                             .restart = outage,
                                             .mean_time_to_failure = cost.mean_time_to_failure,
                                             .restart_can_fail = plan.restart_can_fail});
  // The form is linear in failures: below 0 where an interval sees several of them.
  answer.expected_ratio = std::max(
      0.0, model::expected_training_time_ratio({.mean_time_to_failure = cost.mean_time_to_failure,
                                                .restart = outage,
                                                .write = stands,
                                                .interval = answer.job.interval}));
  answer.seeds = plan.seeds;
  answer.first_seed = job.seed;
  answer.spread = goodput_spread(answer.job, plan.seeds, job.seed);
  answer.best_simulated =
      best_interval(answer.job, {.low = std::max(shortest, answer.daly / 8.0),
                                 .high = std::max(8.0 * shortest, 8.0 * answer.daly),
                                 .runs = std::min(plan.seeds, kSearchRuns)});
  if (plan.checkpoint_blocks.value <= 0) {
    report.assumptions.push_back(
        "A checkpoint holds 14 B a parameter: 16-bit weights, fp32 weights and two moments.");
  }
  if (plan.elastic) {
    report.assumptions.push_back(
        "A replica that drops out takes its part of the batch with it; the rest of the step is as "
        "long as before.");
  }
  warn_of_no_checkpoint(answer, report.warnings);
  warn_of_late_checkpoints(answer, report.warnings);
  warn_of_few_spares(answer, report.warnings);
  report.goodput = std::move(answer);
}

}  // namespace megatwin::sim
