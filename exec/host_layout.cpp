#include "exec/host_layout.h"

#include "model/assert.h"
#include "model/program/decoupled_sides.h"

namespace megatwin::exec {
namespace {

using model::GroupKind;
using model::PipelineSide;
using model::Plan;
using model::RankId;

bool is_decoupled(const Plan& plan) { return plan.schedule == model::ScheduleKind::Decoupled; }

}  // namespace

Plan instance_plan(const Plan& plan, PipelineSide side) {
  Plan one = plan;
  if (is_decoupled(plan)) {
    one.tensor = plan.side_tensor(side == PipelineSide::Backward ? plan.decoupled.backward
                                                                 : plan.decoupled.forward);
    one.schedule = model::ScheduleKind::OneForwardOneBackward;
    one.decoupled = {};
  }
  return one;
}

model::SideInstances instances_of(const Plan& plan) {
  return {plan.decoupled.forward.instances, plan.decoupled.backward.instances};
}

Plan side_plan(const Plan& plan, PipelineSide side) {
  Plan result = instance_plan(plan, side);
  if (is_decoupled(plan)) {
    result.data *= instances_of(plan).of(side);
  }
  return result;
}

std::vector<std::string> decoupled_problems(const model::Transformer& transformer,
                                            const Plan& plan) {
  const model::DecoupledPlan& sides = plan.decoupled;
  std::vector<std::string> problems =
      model::instance_problems(plan.num_micro_batches(), instances_of(plan));
  if (plan.model_chunks != 1) {
    problems.push_back("policy.schedule fbd runs one chunk a rank; plan.model_chunks is " +
                       std::to_string(plan.model_chunks));
  }
  if (plan.zero_stage >= 2 && instances_of(plan) != model::SideInstances{}) {
    problems.push_back("plan.zero is " + std::to_string(plan.zero_stage) +
                       ": its replicas meet at every micro-batch, and instances of a side run "
                       "different ones (allowed: 0 and 1, or one instance of each side)");
  }
  const int forward = plan.side_tensor(sides.forward);
  const int backward = plan.side_tensor(sides.backward);
  if (forward != backward && sides.ship_activations && transformer.experts) {
    problems.push_back(
        "policy.forward.tensor and policy.backward.tensor are " + std::to_string(forward) +
        " and " + std::to_string(backward) +
        ": what experts keep cannot be cut anew between sides of unequal sizes (allowed: equal "
        "sizes, or policy.feed stage-input)");
  }
  return problems;
}

std::vector<std::string> weights_left_problems(const model::Transformer& transformer,
                                               const Plan& plan, int left) {
  std::vector<std::string> problems;
  if (left == 0) {
    return problems;
  }
  const std::string key = "policy.weight_gradients_on_forward leaves those of " +
                          std::to_string(left) + " of " + std::to_string(plan.num_micro_batches()) +
                          " micro-batches to the forward side: ";
  if (plan.zero_stage >= 2) {
    problems.push_back(key + "plan.zero " + std::to_string(plan.zero_stage) +
                       " reduces gradients at every micro-batch, on the ranks that step them "
                       "(allowed: plan.zero 0 and 1, or no weight gradients there)");
  }
  if (transformer.experts &&
      plan.side_tensor(plan.decoupled.forward) != plan.side_tensor(plan.decoupled.backward)) {
    problems.push_back(key +
                       "what experts need for them cannot be cut anew between sides of "
                       "unequal tensor-parallel sizes (allowed: equal sizes, or no weight "
                       "gradients there)");
  }
  return problems;
}

HostLayout::HostLayout(const Plan& plan)
    : forward_(instance_plan(plan, PipelineSide::Forward)),
      backward_(instance_plan(plan, PipelineSide::Backward)),
      instances_(is_decoupled(plan) ? instances_of(plan) : model::SideInstances{1, 0}),
      num_stages_(plan.pipeline) {}

HostLayout::Instance HostLayout::instance(RankId rank) const {
  MEGATWIN_ASSERT(rank.value >= 0 && rank.value < num_ranks(), rank.value);
  if (!has_sides()) {
    return {};
  }
  if (rank.value < first_of_backward()) {
    return {PipelineSide::Forward, rank.value / each_forward()};
  }
  return {PipelineSide::Backward, (rank.value - first_of_backward()) / each_backward()};
}

RankId HostLayout::first_of(const Instance& instance) const {
  return {instance.side == PipelineSide::Backward
              ? first_of_backward() + instance.number * each_backward()
              : instance.number * each_forward()};
}

model::RankCoordinates HostLayout::coordinates(RankId rank) const {
  const Instance at = instance(rank);
  return pipeline(at.side).coordinates({rank.value - first_of(at).value});
}

RankId HostLayout::rank_at(const Instance& instance, const model::RankCoordinates& at) const {
  return {first_of(instance).value + pipeline(instance.side).rank_at(at).value};
}

std::vector<RankId> HostLayout::ranks_at_stage(const Instance& instance,
                                               model::StageId stage) const {
  const model::RankLayout& pipeline_ranks = pipeline(instance.side);
  std::vector<RankId> ranks;
  for (std::int32_t rank = 0; rank < pipeline_ranks.num_ranks(); ++rank) {
    if (pipeline_ranks.coordinates({rank}).pipeline == stage.value) {
      ranks.push_back({first_of(instance).value + rank});
    }
  }
  return ranks;
}

std::vector<RankId> HostLayout::members(GroupKind kind, RankId rank) const {
  const Instance own = instance(rank);
  int first = own.number;
  int last = own.number + 1;
  if (has_sides() && (kind == GroupKind::Data || kind == GroupKind::ExpertData)) {
    first = 0;
    last = instances_.of(own.side);
  }
  const std::vector<RankId> local =
      pipeline(own.side).members(kind, {rank.value - first_of(own).value});
  std::vector<RankId> members;
  for (int number = first; number < last; ++number) {
    for (const RankId member : local) {
      members.push_back({first_of({own.side, number}).value + member.value});
    }
  }
  return members;
}

int HostLayout::role(RankId rank) const {
  const Instance at = instance(rank);
  const int before = at.side == PipelineSide::Backward ? instances_.forward : 0;
  return (before + at.number) * num_stages_ + coordinates(rank).pipeline;
}

}  // namespace megatwin::exec
