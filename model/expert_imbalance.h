// How uneven the load of expert-parallel ranks can be.
#ifndef MEGATWIN_MODEL_EXPERT_IMBALANCE_H_
#define MEGATWIN_MODEL_EXPERT_IMBALANCE_H_

#include <algorithm>

#include "model/transformer.h"

namespace megatwin::model {

// Tokens of the busiest of `ranks` over their mean, at most. A token goes to k different ones of
// the E experts, and a rank has E/ranks of them: when all tokens choose alike, one rank gets
// min(k, E/ranks) of the k copies of each, and the mean is k/ranks.
inline double expert_imbalance_max(const MixtureOfExperts& experts, int ranks) {
  return std::max(1.0, std::min(static_cast<double>(ranks),
                                static_cast<double>(experts.num_experts) /
                                    static_cast<double>(experts.experts_per_token)));
}

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_EXPERT_IMBALANCE_H_
