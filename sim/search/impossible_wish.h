// What to say when a search finds no plan: the one that misses by least, and which single
// constraint to relax, the cheapest first.
#ifndef MEGATWIN_SIM_SEARCH_IMPOSSIBLE_WISH_H_
#define MEGATWIN_SIM_SEARCH_IMPOSSIBLE_WISH_H_

#include "model/job.h"
#include "sim/search/search.h"

namespace megatwin::sim {

// Requires: no plan of `space` is legal and needs at most (1 − memory_margin) of a GPU's memory.
ImpossibleWish impossible_wish(const model::Job& job, const SearchSpace& space,
                               const Candidates& candidates, const SearchOptions& options);

// The same, from the job alone.
ImpossibleWish impossible_wish_of(const model::Job& job, const SearchSpace& space,
                                  const SearchOptions& options);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_IMPOSSIBLE_WISH_H_
