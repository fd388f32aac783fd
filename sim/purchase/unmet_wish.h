// When no machines keep all limits of a wish: the nearest that is possible, and by how much each
// single limit would have to give way.
#ifndef MEGATWIN_SIM_PURCHASE_UNMET_WISH_H_
#define MEGATWIN_SIM_PURCHASE_UNMET_WISH_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/training_wish.h"
#include "sim/purchase/purchase_option.h"

namespace megatwin::sim {

struct UnmetWish {
  std::string message;
  std::vector<std::string> reasons;
  std::optional<std::size_t> nearest;  // Into the options: misses by the smallest factor.
  // Limits of which one alone, or where `together` all, must give way; the smallest factor first.
  struct Relaxation {
    Limit limit = Limit::Deadline;
    double allowed = 0, needed = 0;  // s, USD or W.
    std::size_t option = 0;          // That becomes possible.
    double factor() const { return needed / allowed; }
  };
  std::vector<Relaxation> relaxations;
  bool together = false;
  // What else would do, such as more machines, when no plan fits at all.
  std::vector<std::string> other_ways;
};

// Requires: at least one option, none of which keeps all limits.
UnmetWish unmet_wish(const model::TrainingWish& wish, std::span<const PurchaseOption> options);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_PURCHASE_UNMET_WISH_H_
