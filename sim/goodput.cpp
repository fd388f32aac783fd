#include "sim/goodput.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

#include "model/assert.h"
#include "model/reliability.h"
#include "sim/checkpoint_period.h"

namespace megatwin::sim {
namespace {

using model::Seconds;

// Part of the range within which the best interval is known.
constexpr double kSearchTolerance = 1e-3;

// Work and checkpoints by the training time since a restart: an interval of work, then again and
// again a checkpoint that blocks and an interval of work. One that comes due while the one before
// it is being written waits until that is durable.
class Rhythm {
 public:
  explicit Rhythm(const GoodputJob& job)
      : interval_(job.interval.value),
        blocks_(job.checkpoint_blocks.value),
        durable_(std::max(job.checkpoint_blocks, job.checkpoint_durable).value),
        period_(checkpoint_period(job).value) {}

  double work(double time) const {
    if (time <= interval_) return time;
    const double done = std::floor((time - interval_) / period_);
    const double rest = time - interval_ - done * period_;
    return (1 + done) * interval_ + std::clamp(rest - blocks_, 0.0, interval_);
  }

  // What the last checkpoint that is durable by then holds.
  double durable_work(double time) const {
    const double since_first = time - interval_ - durable_;
    return since_first < 0 ? 0 : (1 + std::floor(since_first / period_)) * interval_;
  }

 private:
  double interval_, blocks_, durable_, period_;
};

class Run {
 public:
  Run(const GoodputJob& job, std::uint64_t seed)
      : job_(job), rhythm_(job), source_(job.failures, seed) {
    result_.failures_by_part.resize(job.failures.size());
  }

  GoodputRun run() {
    const double span = job_.span.value;
    while (now_ < span) {
      const Failure failure = source_.next();
      const double left = span - now_;
      const double until_return = missing_ > 0 ? back_at_.top() - now_ : left;
      // A node that returns ends the stretch without harm; lifetimes are memoryless, so the failure
      // that did not come is drawn anew.
      const bool returns = missing_ > 0 && until_return < std::min(failure.after.value, left);
      const bool fails = !returns && failure.after.value < left;
      work_for(returns ? std::max(0.0, until_return) : std::min(failure.after.value, left), fails);
      if (returns) {
        regrow();
      } else if (fails) {
        fail(failure);
      } else {
        break;
      }
    }
    result_.goodput = kept_ / span;
    return result_;
  }

 private:
  // Training until it fails, a node returns or the span ends. Only a failure ends what began at the
  // last restart: the return of a node writes no checkpoint.
  void work_for(double time, bool fails) {
    const double speed = missing_ == 0 ? 1 : 1 - static_cast<double>(missing_) / job_.replicas;
    const double begin = stretches_.empty() ? 0 : stretches_.back().end;
    stretches_.push_back({.begin = begin, .end = begin + time, .speed = speed});
    const double work = rhythm_.work(begin + time) - rhythm_.work(begin);
    kept_ += speed * work;
    result_.shrunk += Seconds{(1 - speed) * work};
    result_.checkpoints += Seconds{time - work};
    now_ += time;
    if (fails) lose_what_is_not_durable();
  }

  void lose_what_is_not_durable() {
    const double durable = rhythm_.durable_work(stretches_.back().end);
    double lost = 0;
    for (const Stretch& s : stretches_) {
      const double from = std::max(durable, rhythm_.work(s.begin));
      lost += s.speed * std::max(0.0, rhythm_.work(s.end) - from);
    }
    kept_ -= lost;
    result_.redone += Seconds{lost};
    stretches_.clear();
  }

  // The replica's state comes from the others while all wait. Nothing becomes durable by it, and a
  // write on its way waits too.
  void regrow() {
    back_at_.pop();
    --missing_;
    spend(job_.reconfiguration.value, result_.restarts);
  }

  void fail(const Failure& failure) {
    count(failure);
    while (now_ < job_.span.value) {
      wait_for_spare();
      const double outage = (job_.detection + job_.restart).value;
      const Failure next = source_.next();
      const bool again = job_.restart_can_fail && next.after.value < outage;
      spend(again ? next.after.value : outage, result_.restarts);
      if (!again) return;
      if (now_ < job_.span.value) count(next);
    }
  }

  void count(const Failure& failure) {
    ++result_.failures;
    ++result_.failures_by_part[static_cast<std::size_t>(failure.part)];
    if (job_.spares >= 0) back_at_.push(now_ + job_.repair.value);
  }

  // As many nodes may be away as there are spares; else the job waits for the first to come back.
  void wait_for_spare() {
    while (!back_at_.empty() && back_at_.top() <= now_) back_at_.pop();
    if (job_.spares < 0) return;
    const int short_of = std::max(0, static_cast<int>(back_at_.size()) - job_.spares);
    if (short_of < job_.replicas) {
      if (short_of > missing_) spend(job_.reconfiguration.value, result_.restarts);
      missing_ = short_of;
      return;
    }
    if (short_of == 0) return;
    spend(back_at_.top() - now_, result_.waiting);
    back_at_.pop();
    missing_ = std::max(0, job_.replicas - 1);
  }

  void spend(double time, Seconds& on) {
    const double inside = std::min(time, std::max(0.0, job_.span.value - now_));
    on += Seconds{inside};
    now_ += time;
  }

  // Of training time since the last restart, with one number of replicas.
  struct Stretch {
    double begin = 0, end = 0, speed = 1;
  };

  const GoodputJob& job_;
  const Rhythm rhythm_;
  FailureSource source_;
  std::vector<Stretch> stretches_;
  std::priority_queue<double, std::vector<double>, std::greater<>> back_at_;
  GoodputRun result_;
  int missing_ = 0;  // Replicas.
  double now_ = 0;
  double kept_ = 0;
};

double quantile(const std::vector<double>& sorted, double part) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(std::lround(part * last))];
}

}  // namespace

GoodputRun simulate_goodput(const GoodputJob& job, std::uint64_t seed) {
  MEGATWIN_ASSERT(job.span.value > 0 && job.interval.value > 0, "span ", job.span.value,
                  ", interval ", job.interval.value);
  return Run(job, seed).run();
}

GoodputSpread goodput_spread(const GoodputJob& job, int runs, std::uint64_t first_seed) {
  MEGATWIN_ASSERT(runs > 0, runs);
  GoodputSpread spread;
  std::vector<double> all;
  for (int i = 0; i < runs; ++i) {
    const GoodputRun run = simulate_goodput(job, first_seed + static_cast<std::uint64_t>(i));
    all.push_back(run.goodput);
    spread.mean += run.goodput / runs;
    spread.failures_mean += static_cast<double>(run.failures) / runs;
    const double share = 1 / (runs * job.span.value);
    spread.redone += share * run.redone.value;
    spread.checkpoints += share * run.checkpoints.value;
    spread.restarts += share * run.restarts.value;
    spread.waiting += share * run.waiting.value;
    spread.shrunk += share * run.shrunk.value;
  }
  std::sort(all.begin(), all.end());
  spread.p05 = quantile(all, 0.05);
  spread.p50 = quantile(all, 0.5);
  spread.p95 = quantile(all, 0.95);
  return spread;
}

model::Seconds best_interval(GoodputJob job, const IntervalSearch& search) {
  // In the logarithm of the interval, in which goodput is nearly even around its top.
  const auto loss = [&](double log_interval) {
    job.interval = Seconds{std::exp(log_interval)};
    return -goodput_spread(job, search.runs).mean;
  };
  constexpr double kGolden = 0.6180339887498949;
  double low = std::log(search.low.value), high = std::log(search.high.value);
  double a = high - kGolden * (high - low), b = low + kGolden * (high - low);
  double loss_a = loss(a), loss_b = loss(b);
  while (high - low > kSearchTolerance) {
    if (loss_a < loss_b) {
      high = b, b = a, loss_b = loss_a;
      a = high - kGolden * (high - low);
      loss_a = loss(a);
    } else {
      low = a, a = b, loss_a = loss_b;
      b = low + kGolden * (high - low);
      loss_b = loss(b);
    }
  }
  return Seconds{std::exp((low + high) / 2)};
}

model::Seconds restart_budget(const RestartBudget& budget) {
  const Seconds interval = model::daly_interval(
      {.write = budget.write, .mean_time_to_failure = budget.mean_time_to_failure});
  const double exposure = ratio((interval + budget.write) / budget.mean_time_to_failure);
  return interval / (budget.goodput * std::expm1(exposure)) - budget.mean_time_to_failure;
}

}  // namespace megatwin::sim
