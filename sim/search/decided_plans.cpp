#include "sim/search/decided_plans.h"

#include <algorithm>
#include <set>

#include "sim/simulation_problems.h"

namespace megatwin::sim {
namespace {

using model::Job;
using model::Plan;
using model::ScheduleKind;

std::string text_of(const Plan& plan) {
  std::string text;
  for (int i = 0; i < kNumSpaceKeys; ++i) text += value_text(plan, static_cast<SpaceKey>(i)) + " ";
  return text;
}

// The sizes of `plan` under another schedule; nothing when its ranks do not fill the cluster.
std::optional<Plan> under(const Job& job, ScheduleKind kind, Plan plan) {
  plan.schedule = kind;
  if (kind != ScheduleKind::Decoupled) return plan;
  plan.model_chunks = 1;
  const int replica =
      plan.pipeline * plan.context *
      (plan.side_ranks(plan.decoupled.forward) + plan.side_ranks(plan.decoupled.backward));
  if (job.cluster.num_gpus() % replica != 0) return std::nullopt;
  plan.data = job.cluster.num_gpus() / replica;
  return plan;
}

bool is_legal(const Job& job, const Plan& plan) {
  Job changed = job;
  changed.plan = plan;
  return simulation_problems(changed, false).empty();
}

}  // namespace

std::vector<Plan> decided_plans(const Job& job, ScheduleKind kind, std::size_t count,
                                const std::function<std::optional<Plan>()>& next) {
  std::vector<Plan> plans;
  std::set<std::string> seen;
  const auto take = [&](const Plan& plan) {
    if (seen.insert(text_of(plan)).second && is_legal(job, plan)) plans.push_back(plan);
  };
  if (job.plan.schedule == kind) take(job.plan);
  while (plans.size() < count) {
    const std::optional<Plan> sizes = next();
    if (!sizes) break;
    if (sizes->pipeline == 1) continue;  // Nothing to decide.
    if (const auto plan = under(job, kind, *sizes)) take(*plan);
  }
  return plans;
}

std::vector<std::string> not_searched(const Job& job, const SearchSpace& space) {
  std::vector<std::string> sentences;
  const auto quoted = [](ScheduleKind kind) {
    return "policy.schedule " + std::string(model::name_of(kind));
  };
  for (const ScheduleKind kind : space.decided) {
    sentences.push_back(quoted(kind) +
                        " is simulated by events for the sizes of the best fixed orders" +
                        (kind == job.plan.schedule ? " and the file's" : "") +
                        "; with other sizes it is not looked at");
  }
  const ScheduleKind own = job.plan.schedule;
  const bool is_own_searched =
      std::find(space.decided.begin(), space.decided.end(), own) != space.decided.end();
  if (is_decided(own) && !is_own_searched) {
    sentences.push_back(quoted(own) + " of the file runs the file's own plan only: " +
                        (own == ScheduleKind::UserPolicy
                             ? "a policy of one's own is run by simulate, not by search"
                             : "it is not among search.schedule"));
  }
  if (own == ScheduleKind::OrderFile) {
    sentences.push_back(quoted(own) + " is an order for the file's sizes: it runs that plan only");
  }
  if (!sentences.empty()) {
    sentences.emplace_back(
        "the ranking, losers, front and switches are those of fixed orders, which policies beside "
        "them may beat");
  }
  return sentences;
}

}  // namespace megatwin::sim
