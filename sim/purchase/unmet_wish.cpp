#include "sim/purchase/unmet_wish.h"

#include <algorithm>

#include "model/assert.h"

namespace megatwin::sim {
namespace {

using model::TrainingWish;

bool keeps_all_but(const TrainingWish& wish, const PurchaseOption& option, Limit free) {
  return std::all_of(std::begin(kLimits), std::end(kLimits),
                     [&](Limit limit) { return limit == free || keeps(wish, option, limit); });
}

// The factor by which the worst of its limits is passed.
double worst_factor(const TrainingWish& wish, const PurchaseOption& option) {
  double worst = 0;
  for (const Limit limit : kLimits) {
    if (const auto most = allowed(wish, limit)) {
      worst = std::max(worst, taken(option, limit) / *most);
    }
  }
  return worst;
}

}  // namespace

UnmetWish unmet_wish(const TrainingWish& wish, std::span<const PurchaseOption> options) {
  MEGATWIN_ASSERT(!options.empty());
  UnmetWish unmet;
  for (const Limit limit : kLimits) {
    const std::optional<double> most = allowed(wish, limit);
    if (!most) continue;
    std::optional<UnmetWish::Relaxation> least;
    for (std::size_t i = 0; i < options.size(); ++i) {
      const double needed = taken(options[i], limit);
      if (!keeps_all_but(wish, options[i], limit) || (least && needed >= least->needed)) continue;
      least = UnmetWish::Relaxation{limit, *most, needed, i};
    }
    if (least) unmet.relaxations.push_back(*least);
  }
  const auto by_factor = [](const auto& a, const auto& b) { return a.factor() < b.factor(); };
  std::stable_sort(unmet.relaxations.begin(), unmet.relaxations.end(), by_factor);
  std::size_t nearest = 0;
  for (std::size_t i = 1; i < options.size(); ++i) {
    if (worst_factor(wish, options[i]) < worst_factor(wish, options[nearest])) nearest = i;
  }
  unmet.nearest = nearest;
  unmet.message = "no machines on offer keep every limit";
  if (!unmet.relaxations.empty()) return unmet;
  unmet.message += ", and no single one of them is to blame";
  unmet.together = true;
  for (const Limit limit : kLimits) {
    if (keeps(wish, options[nearest], limit)) continue;
    unmet.relaxations.push_back(
        {limit, *allowed(wish, limit), taken(options[nearest], limit), nearest});
  }
  std::stable_sort(unmet.relaxations.begin(), unmet.relaxations.end(), by_factor);
  return unmet;
}

}  // namespace megatwin::sim
