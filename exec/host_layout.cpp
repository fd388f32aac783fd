#include "exec/host_layout.h"

#include "model/assert.h"
#include "model/program/decoupled_sides.h"

namespace megatwin::exec {
namespace {

using model::GroupKind;
using model::PipelineSide;
using model::Plan;
using model::RankId;

Plan one_instance(const Plan& plan) {
  Plan one = plan;
  if (plan.schedule == model::ScheduleKind::Decoupled) {
    one.schedule = model::ScheduleKind::OneForwardOneBackward;
    one.decoupled = {};
  }
  return one;
}

}  // namespace

model::SideInstances instances_of(const Plan& plan) {
  return {plan.decoupled.forward.instances, plan.decoupled.backward.instances};
}

Plan side_plan(const Plan& plan, PipelineSide side) {
  Plan result = one_instance(plan);
  if (plan.schedule == model::ScheduleKind::Decoupled) {
    result.data *= instances_of(plan).of(side);
  }
  return result;
}

std::vector<std::string> decoupled_problems(const Plan& plan) {
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
  if (plan.side_tensor(sides.forward) != plan.tensor ||
      plan.side_tensor(sides.backward) != plan.tensor) {
    problems.push_back("policy.forward.tensor and policy.backward.tensor are " +
                       std::to_string(plan.side_tensor(sides.forward)) + " and " +
                       std::to_string(plan.side_tensor(sides.backward)) +
                       ": the host world runs both sides with plan.tensor " +
                       std::to_string(plan.tensor) + ", other sizes are simulated only");
  }
  if (sides.weight_share > 0 || sides.balance_weights) {
    problems.emplace_back(
        "policy.weight_gradients_on_forward is simulated only; the host world works them out on "
        "the backward side (allowed: 0, or leave it out)");
  }
  return problems;
}

HostLayout::HostLayout(const Plan& plan)
    : pipeline_(one_instance(plan)),
      instances_(plan.schedule == model::ScheduleKind::Decoupled ? instances_of(plan)
                                                                 : model::SideInstances{0, 0}),
      num_stages_(plan.pipeline) {}

HostLayout::Instance HostLayout::instance(RankId rank) const {
  MEGATWIN_ASSERT(rank.value >= 0 && rank.value < num_ranks(), rank.value);
  if (!has_sides()) {
    return {};
  }
  const int index = index_of(rank);
  const bool is_forward = index < instances_.forward;
  return {is_forward ? PipelineSide::Forward : PipelineSide::Backward,
          index - (is_forward ? 0 : instances_.forward)};
}

RankId HostLayout::rank_at(const Instance& instance, const model::RankCoordinates& at) const {
  const int index =
      instance.number + (instance.side == PipelineSide::Backward ? instances_.forward : 0);
  return {index * pipeline_.num_ranks() + pipeline_.rank_at(at).value};
}

std::vector<RankId> HostLayout::members(GroupKind kind, RankId rank) const {
  const int own = index_of(rank);
  int first = own;
  int last = own + 1;
  if (has_sides() && (kind == GroupKind::Data || kind == GroupKind::ExpertData)) {
    const bool is_forward = own < instances_.forward;
    first = is_forward ? 0 : instances_.forward;
    last = is_forward ? instances_.forward : num_instances();
  }
  const std::vector<RankId> local = pipeline_.members(kind, {rank.value % pipeline_.num_ranks()});
  std::vector<RankId> members;
  for (int index = first; index < last; ++index) {
    for (const RankId member : local) {
      members.push_back({index * pipeline_.num_ranks() + member.value});
    }
  }
  return members;
}

int HostLayout::role(RankId rank) const {
  return index_of(rank) * num_stages_ + coordinates(rank).pipeline;
}

}  // namespace megatwin::exec
