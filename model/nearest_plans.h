// The plans nearest to an illegal (or unfit) one that are legal: same model, same GPUs, few and
// small changes. A deterministic best-first search that varies only the keys that a problem names.
#ifndef MEGATWIN_MODEL_NEAREST_PLANS_H_
#define MEGATWIN_MODEL_NEAREST_PLANS_H_

#include <functional>
#include <string>
#include <vector>

#include "model/plan_check.h"

namespace megatwin::model {

struct NearestPlan {
  Plan plan;
  std::string change;  // "plan.tensor 8 → 4, plan.data 2 → 4".
};

struct NearestPlansOptions {
  int max_plans = 3;
  int max_checked = 3000;  // Candidates looked at before giving up.
  // Further demand, such as that the plan fits in memory; empty for none. Asked of legal plans
  // only; a refusal lets the search vary what memory depends on.
  std::function<bool(const Plan&)> accepts;
  int max_asked = 1'000'000;   // Legal plans that `accepts` is asked of before giving up.
  int* num_checked = nullptr;  // Where to say how many candidates were looked at.
};

// Nearest first; fewer than asked for, or none, when the search finds no more. A plan that is
// legal and accepted itself is its own only answer, with an empty change.
std::vector<NearestPlan> nearest_legal_plans(const Transformer& transformer, const Plan& plan,
                                             const Cluster& cluster, const SoftwareStack& software,
                                             const NearestPlansOptions& options = {});

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_NEAREST_PLANS_H_
