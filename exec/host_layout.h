// Where the ranks of a run stand. Those of a plain plan as model/rank_layout.h numbers them.
// Decoupled: the instances of the forward side one behind the other, then those of the backward
// side, each numbered as a plain pipeline. The replicas of all instances of a side have the same
// weights, and are one data-parallel group.
#ifndef MEGATWIN_EXEC_HOST_LAYOUT_H_
#define MEGATWIN_EXEC_HOST_LAYOUT_H_

#include <string>
#include <vector>

#include "model/micro_op.h"
#include "model/plan.h"
#include "model/program/program_spec.h"
#include "model/rank_layout.h"

namespace megatwin::exec {

// The plan as the ranks of one side of a decoupled pipeline have it, whose instances are more
// replicas; of any other the plan itself, which has no sides.
model::Plan side_plan(const model::Plan& plan, model::PipelineSide side);

model::SideInstances instances_of(const model::Plan& plan);

// Why the host world cannot run a decoupled plan, in words for the user; empty when it can.
std::vector<std::string> decoupled_problems(const model::Plan& plan);

class HostLayout {
 public:
  explicit HostLayout(const model::Plan& plan);

  // One pipeline: an instance of a side, or the only one of a plain plan.
  struct Instance {
    model::PipelineSide side = model::PipelineSide::Both;
    int number = 0;
  };
  int num_ranks() const { return num_instances() * pipeline_.num_ranks(); }
  Instance instance(model::RankId rank) const;
  // In its instance.
  model::RankCoordinates coordinates(model::RankId rank) const {
    return pipeline_.coordinates({rank.value % pipeline_.num_ranks()});
  }
  model::RankId rank_at(const Instance& instance, const model::RankCoordinates& at) const;
  // Ascending. Replicas are those of all instances of the side, all other groups of one instance.
  std::vector<model::RankId> members(model::GroupKind kind, model::RankId rank) const;
  // Which of the programs it runs: those of the first instance stage by stage, then the next.
  int role(model::RankId rank) const;

 private:
  bool has_sides() const { return instances_.forward > 0; }
  int num_instances() const { return has_sides() ? instances_.forward + instances_.backward : 1; }
  int index_of(model::RankId rank) const { return rank.value / pipeline_.num_ranks(); }

  model::RankLayout pipeline_;      // Of one instance.
  model::SideInstances instances_;  // None of a plain plan.
  int num_stages_;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_HOST_LAYOUT_H_
