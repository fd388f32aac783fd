// How many machines of which kind a training run should get: for every kind on offer a ladder of
// counts, on each the best plan, from it days, money, energy and goodput under failures, where
// scaling stops paying, and the one to take. Deterministic for any number of threads.
#ifndef MEGATWIN_SIM_PURCHASE_PURCHASE_H_
#define MEGATWIN_SIM_PURCHASE_PURCHASE_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/job.h"
#include "model/training_wish.h"
#include "sim/goodput.h"
#include "sim/purchase/machine_mixes.h"
#include "sim/purchase/plan_utilisation.h"
#include "sim/purchase/purchase_option.h"
#include "sim/purchase/unmet_wish.h"
#include "sim/search/candidates.h"

namespace megatwin::sim {

struct PurchaseRequest {
  int num_threads = 0;  // 0: as many as the machine has cores.
  double memory_margin = 0;
  // The plans to look at on a job's cluster; empty: short_space(), and whole_space() for the one
  // that is taken.
  std::function<SearchSpace(const model::Job&)> space;
  bool mixes = false;  // Also two kinds of machines in one job.
  ProgressCallback progress;
};

// All counts of one kind of machine.
struct OfferCurve {
  std::vector<std::size_t> options;  // By machines ascending.
  std::optional<std::size_t> knee;   // The option from which on more machines do not pay.
  // At the largest number on offer nobody saw more machines stop paying.
  bool is_knee_seen() const { return knee && *knee != options.back(); }
};

struct PurchaseAnswer {
  std::vector<PurchaseOption> options;  // By offer, then machines.
  std::vector<OfferCurve> curves;       // One an offer.
  std::optional<std::size_t> choice;
  // Of the choice, failure by failure, over 200 seeds; nothing when nothing fails.
  std::optional<GoodputSpread> goodput;
  std::optional<UnmetWish> unmet;
  // Of the choice, then of each curve's option with the highest MFU.
  std::vector<PlanUtilisation> utilisations;
  std::vector<MachineMix> mixes;
  // The one that keeps all limits and would be chosen before `choice`.
  std::optional<std::size_t> best_mix;
  std::vector<std::string> not_counted;  // Of the job, a sentence each.
};

// The choice: with a deadline the cheapest option that keeps all limits, with a budget alone the
// fastest, without both the cheapest of the knees. Where no price is known, machine hours count.
// Of the job's disturbances, uneven experts count in every row; those of parts of the cluster in
// none, since rows are of other clusters.
PurchaseAnswer plan_purchase(const model::Job& job, const model::TrainingWish& wish,
                             const PurchaseRequest& request = {});

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_PURCHASE_PURCHASE_H_
