// Forwards on one kind of GPU and backwards on another (forward-backward decoupling), by cost:
// which kind should run how much of each, and what that is worth against kinds that run both.
// Steady rates in closed form; the ends of a pipeline are policies/forward_backward_decoupling.h's.
// Kinds differ in what they are relatively good at; where they do not, decoupling gains nothing.
#ifndef MEGATWIN_MODEL_DECOUPLED_MAPPING_H_
#define MEGATWIN_MODEL_DECOUPLED_MAPPING_H_

#include <optional>
#include <span>
#include <vector>

#include "model/units.h"

namespace megatwin::model {

// The ranks of one kind that can do one stage's work, and what a micro-batch takes on one of them.
struct DecoupledKind {
  int ranks = 1;
  Seconds forward;
  Seconds backward;
};

// Share of all forwards and of all backwards that a kind runs.
struct DecoupledShare {
  double forward = 0;
  double backward = 0;
};

struct DecoupledMapping {
  std::vector<DecoupledShare> shares;  // By kind; each column sums to 1.
  Seconds period;                      // Of a micro-batch, in the steady state.
};

// Every rank runs as many micro-batches, forward and backward: max(F + B) / Σ ranks.
Seconds even_period(std::span<const DecoupledKind> kinds);

// Every rank runs both, as many micro-batches as it can: 1 / Σ (ranks / (F + B)).
Seconds coupled_period(std::span<const DecoupledKind> kinds);

// The best division of forwards and backwards over the kinds. With kinds in the order of F / B
// those before one kind run forwards only and those after it backwards only; that kind t fills up:
//   1 / period = (n_t + F_t Σ_{k<t} n_k / F_k + B_t Σ_{k>t} n_k / B_k) / (F_t + B_t).
// Never slower than coupled_period(). Requires: at least one kind, times > 0.
DecoupledMapping best_mapping(std::span<const DecoupledKind> kinds);

// All forwards on one kind and all backwards on another, as two rows of ranks: max(F_i / n_i,
// B_j / n_j, transfer), the best pair. `transfer` is what a micro-batch's activations take from row
// to row. Nothing with fewer than two kinds.
struct DecoupledRows {
  int forward_kind = 0;
  int backward_kind = 1;
  Seconds period;
};
std::optional<DecoupledRows> best_rows(std::span<const DecoupledKind> kinds, Seconds transfer);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_DECOUPLED_MAPPING_H_
