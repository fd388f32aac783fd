// The lists of a SearchSpace by their key, so that what holds for all keys is written once.
#ifndef MEGATWIN_SIM_SEARCH_SPACE_KEY_H_
#define MEGATWIN_SIM_SEARCH_SPACE_KEY_H_

#include <cstddef>

#include "model/assert.h"
#include "sim/search/search_space.h"

namespace megatwin::sim {

// Calls `visit` with the member of SearchSpace that holds the values of `key`.
template <class Visit>
auto visit_list(SpaceKey key, Visit visit) {
  switch (key) {
    case SpaceKey::Tensor:
      return visit(&SearchSpace::tensor);
    case SpaceKey::Pipeline:
      return visit(&SearchSpace::pipeline);
    case SpaceKey::ModelChunks:
      return visit(&SearchSpace::model_chunks);
    case SpaceKey::Context:
      return visit(&SearchSpace::context);
    case SpaceKey::Expert:
      return visit(&SearchSpace::expert);
    case SpaceKey::ExpertTensor:
      return visit(&SearchSpace::expert_tensor);
    case SpaceKey::Data:
      return visit(&SearchSpace::data);
    case SpaceKey::MicroBatch:
      return visit(&SearchSpace::micro_batch);
    case SpaceKey::GlobalBatch:
      return visit(&SearchSpace::global_batch);
    case SpaceKey::SequenceParallel:
      return visit(&SearchSpace::sequence_parallel);
    case SpaceKey::Zero:
      return visit(&SearchSpace::zero);
    case SpaceKey::Recompute:
      return visit(&SearchSpace::recompute);
    case SpaceKey::Precision:
      return visit(&SearchSpace::precision);
    case SpaceKey::Dispatcher:
      return visit(&SearchSpace::dispatcher);
    case SpaceKey::Schedule:
      return visit(&SearchSpace::schedule);
    case SpaceKey::OverlapGradReduce:
      return visit(&SearchSpace::overlap_grad_reduce);
    case SpaceKey::OverlapParamGather:
      return visit(&SearchSpace::overlap_param_gather);
    case SpaceKey::OverlapTensorParallel:
      return visit(&SearchSpace::overlap_tensor_parallel);
    case SpaceKey::OverlapP2p:
      return visit(&SearchSpace::overlap_p2p);
    case SpaceKey::RankOrder:
      return visit(&SearchSpace::rank_order);
    case SpaceKey::Layers:
      return visit(&SearchSpace::layers);
  }
  MEGATWIN_ASSERT(false, "unknown key");
}

inline std::size_t num_values(const SearchSpace& space, SpaceKey key) {
  return visit_list(key, [&](auto member) { return (space.*member).size(); });
}

inline bool same_list(const SearchSpace& a, const SearchSpace& b, SpaceKey key) {
  return visit_list(key, [&](auto member) { return a.*member == b.*member; });
}

inline void copy_list(const SearchSpace& from, SpaceKey key, SearchSpace& to) {
  visit_list(key, [&](auto member) { to.*member = from.*member; });
}

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_SPACE_KEY_H_
