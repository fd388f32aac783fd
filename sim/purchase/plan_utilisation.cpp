#include "sim/purchase/plan_utilisation.h"

#include <variant>

#include "sim/simulate.h"

namespace megatwin::sim {
namespace {

using model::Job;
using model::Plan;

void overlap_nothing(Plan& plan) {
  plan.overlap_grad_reduce = false;
  plan.overlap_param_gather = false;
  plan.overlap_tensor_parallel = false;
  plan.overlap_p2p = false;
}

void take_lone_sequences(Plan& plan) { plan.micro_batch = 1; }

void recompute_all(Plan& plan) {
  plan.recompute = model::RecomputeKind::Full;
  plan.recompute_layers = 0;
}

bool overlaps(const Plan& plan) {
  return plan.overlap_grad_reduce || plan.overlap_param_gather || plan.overlap_tensor_parallel ||
         plan.overlap_p2p;
}

bool recomputes_all(const Plan& plan) {
  return plan.recompute == model::RecomputeKind::Full && plan.recompute_layers == 0;
}

std::optional<double> utilisation_of(const Job& job, const Plan& plan) {
  Job changed = job;
  changed.plan = plan;
  const auto answer = simulate(changed, {.sensitivities = false});
  if (const auto* report = std::get_if<SimulationReport>(&answer)) return report->mfu;
  const auto& refused = std::get<PlanRefusal>(answer).report;
  return refused ? std::optional(refused->mfu) : std::nullopt;
}

}  // namespace

PlanUtilisation plan_utilisation(const Job& job, std::size_t option,
                                 const SimulationReport& report) {
  PlanUtilisation answer{.option = option, .planned = report.mfu};
  Plan together = report.plan;
  const auto without = [&](void (*change)(Plan&)) {
    Plan plan = report.plan;
    change(plan);
    change(together);
    return utilisation_of(job, plan);
  };
  if (overlaps(report.plan)) answer.not_overlapped = without(overlap_nothing);
  if (report.plan.micro_batch > 1) answer.lone_sequences = without(take_lone_sequences);
  if (!recomputes_all(report.plan)) answer.recomputed = without(recompute_all);
  answer.all = utilisation_of(job, together);
  return answer;
}

}  // namespace megatwin::sim
