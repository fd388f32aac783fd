#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <map>

#include "sim/decoupled/decoupled_job.h"

// The share with the shortest step that fits, by simulating candidates: from the share that
// balances a micro-batch, in strides that halve as long as one is better; of a small batch every
// one, since several instances make valleys of their own.
namespace megatwin::sim {
namespace {

using model::Instant;
using model::Job;

// What a step is with a number of micro-batches whose weight gradients are left to the forward
// side.
struct Outcome {
  bool fits = false;
  Instant step;

  bool better_than(const Outcome& other) const {
    return fits != other.fits ? fits : step < other.step;
  }
};

class LeftMicroBatches {
 public:
  explicit LeftMicroBatches(Job job) {
    job.plan.decoupled.balance_weights = false;
    job.plan.decoupled.weight_share = 0;
    none_ = price_decoupled(job);
    // Prices of sides depend on whether anything is left, not on how much.
    job.plan.decoupled.weight_share = 1;
    some_ = price_decoupled(job);
    // A step of years cannot be simulated. The job is refused afterwards, by the same rule.
    if (endless_decoupled(none_)) return;
    most_ = endless_decoupled(some_) ? 0 : all();
    try_all({0});
  }

  int all() const { return none_.spec.micro_batches; }
  double balanced() const { return all() * balanced_weight_share(none_.spec); }
  int most() const { return most_; }
  int best() const { return best_; }

  // True when one of them is better than all before.
  bool try_all(std::initializer_list<int> counts) {
    bool found = false;
    for (const int left : counts) {
      if (left < 0 || left > most_ || !tried_.emplace(left, Outcome{}).second) continue;
      const Outcome outcome = tried_[left] = outcome_of(left);
      if (left != best_ && !outcome.better_than(tried_[best_])) continue;
      found = left != best_;
      best_ = left;
    }
    return found;
  }

 private:
  Outcome outcome_of(int left) {
    DecoupledJob& priced = left == 0 ? none_ : some_;
    priced.spec.weight_share = static_cast<double>(left) / all();
    const DecoupledResult result = simulate_decoupled(priced.spec);
    return {sides_fit(priced, result), result.makespan};
  }

  DecoupledJob none_, some_;
  int most_ = -1;  // Micro-batches that can be left; -1: not one case can be simulated.
  std::map<int, Outcome> tried_;
  int best_ = 0;
};

}  // namespace

double decided_weight_share(const Job& job) {
  const model::DecoupledPlan& plan = job.plan.decoupled;
  if (!plan.balance_weights) return plan.weight_share;
  LeftMicroBatches left(job);
  if (left.most() <= 0) return 0;
  const double balanced = left.balanced();
  left.try_all({static_cast<int>(std::floor(balanced)), static_cast<int>(std::ceil(balanced))});
  for (auto stride = static_cast<int>(std::bit_floor(static_cast<unsigned>(left.all())));
       stride > 0; stride /= 2) {
    while (left.try_all({left.best() + stride, left.best() - stride})) {
    }
  }
  constexpr int kSmallBatch = 64;
  for (int count = 0; left.most() <= kSmallBatch && count <= left.most(); ++count) {
    left.try_all({count});
  }
  return static_cast<double>(left.best()) / left.all();
}

}  // namespace megatwin::sim
