// Where the ranks of a run stand. Those of a plain plan as model/rank_layout.h numbers them.
// Decoupled: the instances of the forward side one behind the other, then those of the backward
// side, each numbered as a plain pipeline of the side's tensor-parallel size. The replicas of all
// instances of a side have the same weights, and are one data-parallel group.
#ifndef MEGATWIN_EXEC_HOST_LAYOUT_H_
#define MEGATWIN_EXEC_HOST_LAYOUT_H_

#include <string>
#include <vector>

#include "model/micro_op.h"
#include "model/plan.h"
#include "model/program/program_spec.h"
#include "model/rank_layout.h"
#include "model/transformer.h"

namespace megatwin::exec {

// One instance of a side of a decoupled pipeline as a plain plan with the side's tensor-parallel
// size; of any other the plan itself, which has no sides.
model::Plan instance_plan(const model::Plan& plan, model::PipelineSide side);

// The plan as the ranks of the side have it, whose instances are more replicas.
model::Plan side_plan(const model::Plan& plan, model::PipelineSide side);

model::SideInstances instances_of(const model::Plan& plan);

// Why the host world cannot run a decoupled plan, in words for the user; empty when it can.
std::vector<std::string> decoupled_problems(const model::Transformer& transformer,
                                            const model::Plan& plan);

// The same of one whose forward side works out the weight gradients of `left` micro-batches a step.
std::vector<std::string> weights_left_problems(const model::Transformer& transformer,
                                               const model::Plan& plan, int left);

class HostLayout {
 public:
  explicit HostLayout(const model::Plan& plan);

  // One pipeline: an instance of a side, or the only one of a plain plan.
  struct Instance {
    model::PipelineSide side = model::PipelineSide::Both;
    int number = 0;
  };
  int num_ranks() const { return first_of_backward() + instances_.backward * each_backward(); }
  Instance instance(model::RankId rank) const;
  // In its instance.
  model::RankCoordinates coordinates(model::RankId rank) const;
  model::RankId rank_at(const Instance& instance, const model::RankCoordinates& at) const;
  // All of an instance that are at `stage`, ascending.
  std::vector<model::RankId> ranks_at_stage(const Instance& instance, model::StageId stage) const;
  // Ascending. Replicas are those of all instances of the side, all other groups of one instance.
  std::vector<model::RankId> members(model::GroupKind kind, model::RankId rank) const;
  // Which of the programs it runs: those of the first instance stage by stage, then the next.
  int role(model::RankId rank) const;

 private:
  bool has_sides() const { return instances_.backward > 0; }
  int each_forward() const { return forward_.num_ranks(); }
  int each_backward() const { return backward_.num_ranks(); }
  int first_of_backward() const { return instances_.forward * each_forward(); }
  const model::RankLayout& pipeline(model::PipelineSide side) const {
    return side == model::PipelineSide::Backward ? backward_ : forward_;
  }
  model::RankId first_of(const Instance& instance) const;

  model::RankLayout forward_, backward_;  // Of one instance; of a plain plan the first.
  model::SideInstances instances_;        // Of a plain plan one and none.
  int num_stages_;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_HOST_LAYOUT_H_
