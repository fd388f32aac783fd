// Spearman's rank correlation: does a prediction put things in the order in which they were
// measured.
#ifndef MEGATWIN_SIM_RANK_CORRELATION_H_
#define MEGATWIN_SIM_RANK_CORRELATION_H_

#include <optional>
#include <vector>

namespace megatwin::sim {

// Of pairs a[i], b[i]; equal values share their mean rank. Nothing for fewer than three pairs or
// when one side is all equal. Requires: as many a as b.
std::optional<double> rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_RANK_CORRELATION_H_
