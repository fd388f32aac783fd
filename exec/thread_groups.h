// The groups of ranks that are threads: made once a run, handed out rank by rank.
#ifndef MEGATWIN_EXEC_THREAD_GROUPS_H_
#define MEGATWIN_EXEC_THREAD_GROUPS_H_

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "exec/host_world.h"
#include "exec/rank_group.h"
#include "model/micro_op.h"
#include "model/rank_layout.h"

namespace megatwin::exec {

// Of one rank.
class ThreadGroups {
 public:
  using Group = std::unique_ptr<RankGroup>;
  explicit ThreadGroups(std::map<model::GroupKind, Group> groups) : groups_(std::move(groups)) {}

  RankGroups all();
  // How the rank waits in all of them; see ThreadGroup.
  void wait_by(const Wait& wait);

 private:
  std::map<model::GroupKind, Group> groups_;
};

class ThreadGroupMaker {
 public:
  // World and layout are borrowed.
  ThreadGroupMaker(HostWorld& world, const model::RankLayout& layout)
      : world_(world), layout_(layout) {}
  ThreadGroups groups_of(model::RankId rank);

 private:
  ThreadGroups::Group group_of(model::GroupKind kind, model::RankId rank);

  HostWorld& world_;
  const model::RankLayout& layout_;
  // By kind and smallest rank.
  std::map<std::pair<model::GroupKind, model::RankId>, std::shared_ptr<ThreadGroupShared>> shared_;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_THREAD_GROUPS_H_
