#include "exec/lockstep.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace megatwin::exec {

using model::GroupKind;
using model::RankId;

std::vector<std::vector<RankId>> lockstep_groups(const model::Plan& plan,
                                                 const HostLayout& layout) {
  std::vector<GroupKind> kinds = {GroupKind::Tensor, GroupKind::Context, GroupKind::Expert,
                                  GroupKind::ExpertTensor};
  if (plan.zero_stage >= 2) {
    kinds.insert(kinds.end(), {GroupKind::Data, GroupKind::ExpertData});
  }
  // The smallest rank that is known to move with each; goes down until nothing changes.
  std::vector<std::int32_t> leader(static_cast<std::size_t>(layout.num_ranks()));
  std::iota(leader.begin(), leader.end(), 0);
  const auto leader_of = [&](RankId rank) -> std::int32_t& {
    return leader[static_cast<std::size_t>(rank.value)];
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (std::int32_t rank = 0; rank < layout.num_ranks(); ++rank) {
      for (const GroupKind kind : kinds) {
        for (const RankId other : layout.members(kind, {rank})) {
          const std::int32_t least = std::min(leader_of({rank}), leader_of(other));
          changed |= least != leader_of({rank}) || least != leader_of(other);
          leader_of({rank}) = leader_of(other) = least;
        }
      }
    }
  }
  std::vector<std::vector<RankId>> groups(leader.size());
  for (std::int32_t rank = 0; rank < layout.num_ranks(); ++rank) {
    for (std::int32_t other = 0; other < layout.num_ranks(); ++other) {
      if (leader_of({rank}) == leader_of({other})) {
        groups[static_cast<std::size_t>(rank)].push_back({other});
      }
    }
  }
  return groups;
}

}  // namespace megatwin::exec
