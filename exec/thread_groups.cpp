#include "exec/thread_groups.h"

#include <algorithm>

namespace megatwin::exec {

using model::GroupKind;

RankGroups ThreadGroups::all() {
  const auto of = [&](GroupKind kind) -> RankGroup& { return *groups_.at(kind); };
  return {of(GroupKind::Tensor),       of(GroupKind::Context), of(GroupKind::Expert),
          of(GroupKind::ExpertTensor), of(GroupKind::Data),    of(GroupKind::ExpertData)};
}

void ThreadGroups::wait_by(const Wait& wait) {
  for (auto& [kind, group] : groups_) {
    if (auto* threads = dynamic_cast<ThreadGroup*>(group.get())) {
      threads->wait_by(wait);
    }
  }
}

ThreadGroups ThreadGroupMaker::groups_of(model::RankId rank) {
  std::map<GroupKind, ThreadGroups::Group> groups;
  for (const GroupKind kind : {GroupKind::Tensor, GroupKind::Context, GroupKind::Expert,
                               GroupKind::ExpertTensor, GroupKind::Data, GroupKind::ExpertData}) {
    groups[kind] = group_of(kind, rank);
  }
  return ThreadGroups(std::move(groups));
}

ThreadGroups::Group ThreadGroupMaker::group_of(GroupKind kind, model::RankId rank) {
  const std::vector<model::RankId> members = layout_.members(kind, rank);
  if (members.size() == 1) {
    return std::make_unique<LoneGroup>();
  }
  auto& shared = shared_[{kind, members.front()}];
  if (!shared) {
    shared = std::make_shared<ThreadGroupShared>(world_, members);
  }
  const auto place = std::find(members.begin(), members.end(), rank);
  return std::make_unique<ThreadGroup>(shared, static_cast<int>(place - members.begin()));
}

}  // namespace megatwin::exec
