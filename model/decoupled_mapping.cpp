#include "model/decoupled_mapping.h"

#include <algorithm>
#include <numeric>

#include "model/assert.h"

namespace megatwin::model {
namespace {

double ranks_of(const DecoupledKind& kind) { return static_cast<double>(kind.ranks); }

}  // namespace

Seconds even_period(std::span<const DecoupledKind> kinds) {
  MEGATWIN_ASSERT(!kinds.empty());
  double ranks = 0, slowest = 0;
  for (const DecoupledKind& kind : kinds) {
    ranks += ranks_of(kind);
    slowest = std::max(slowest, (kind.forward + kind.backward).value);
  }
  return {slowest / ranks};
}

Seconds coupled_period(std::span<const DecoupledKind> kinds) {
  MEGATWIN_ASSERT(!kinds.empty());
  double rate = 0;
  for (const DecoupledKind& kind : kinds) {
    rate += ranks_of(kind) / (kind.forward + kind.backward).value;
  }
  return {1 / rate};
}

DecoupledMapping best_mapping(std::span<const DecoupledKind> kinds) {
  MEGATWIN_ASSERT(!kinds.empty());
  std::vector<std::size_t> order(kinds.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return kinds[a].forward.value * kinds[b].backward.value <
           kinds[b].forward.value * kinds[a].backward.value;
  });
  double forwards = 0,
         backwards = 0;  // Rates of the kinds before, and after, the one that fills up.
  for (const DecoupledKind& kind : kinds) backwards += ranks_of(kind) / kind.backward.value;
  for (std::size_t place = 0; place < order.size(); ++place) {
    const DecoupledKind& kind = kinds[order[place]];
    const double f = kind.forward.value, b = kind.backward.value;
    backwards -= ranks_of(kind) / b;
    const double rate = (ranks_of(kind) + f * forwards + b * backwards) / (f + b);
    // With this kind on forwards alone there would still be backwards left over: it is a later one.
    const bool last = place + 1 == order.size();
    if (rate < backwards && !last) {
      forwards += ranks_of(kind) / f;
      continue;
    }
    DecoupledMapping mapping{.shares = std::vector<DecoupledShare>(kinds.size()),
                             .period = {1 / rate}};
    for (std::size_t i = 0; i < order.size(); ++i) {
      const DecoupledKind& other = kinds[order[i]];
      DecoupledShare& share = mapping.shares[order[i]];
      if (i < place) share.forward = ranks_of(other) / other.forward.value / rate;
      if (i > place) share.backward = ranks_of(other) / other.backward.value / rate;
    }
    mapping.shares[order[place]] = {(rate - forwards) / rate,
                                    (rate - std::max(0.0, backwards)) / rate};
    return mapping;
  }
  MEGATWIN_ASSERT(false, "no kind fills up");
}

std::optional<DecoupledRows> best_rows(std::span<const DecoupledKind> kinds, Seconds transfer) {
  std::optional<DecoupledRows> best;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    for (std::size_t j = 0; j < kinds.size(); ++j) {
      if (i == j) continue;
      const Seconds period = std::max({kinds[i].forward / ranks_of(kinds[i]),
                                       kinds[j].backward / ranks_of(kinds[j]), transfer});
      if (best && !(period < best->period)) continue;
      best = DecoupledRows{static_cast<int>(i), static_cast<int>(j), period};
    }
  }
  return best;
}

}  // namespace megatwin::model
