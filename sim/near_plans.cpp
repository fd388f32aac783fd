#include "sim/near_plans.h"

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "model/nearest_plans.h"
#include "model/plan_check.h"
#include "sim/simulate.h"

namespace megatwin::sim {
namespace {

using model::DecoupledSide;
using model::Job;
using model::Plan;
using model::ScheduleKind;

constexpr std::size_t kMaxPlans = 3;
// Plans looked at, and those that are simulated: half a second, or a second of large models.
constexpr int kCheckedMax = 3000;
constexpr int kSimulatedMax = 400;

bool runs(const Job& job, const Plan& plan) {
  Job changed = job;
  changed.plan = plan;
  const auto answer = simulate(changed, {.sensitivities = false});
  return std::holds_alternative<SimulationReport>(answer);
}

void add_tried(int tried, PlanRefusal& refusal) {
  refusal.others_tried = refusal.others_tried.value_or(0) + tried;
}

// Near `plan`, which the change `before` (or none) leads to.
void look_near(const Job& job, const Plan& plan, const std::string& before, PlanRefusal& refusal) {
  int checked = 0;
  const model::NearestPlansOptions options{
      .max_plans = kMaxPlans,
      .max_checked = kCheckedMax,
      .accepts = [&](const Plan& near) { return runs(job, near); },
      .max_asked = kSimulatedMax,
      .num_checked = &checked};
  auto found =
      model::nearest_legal_plans(job.transformer, plan, job.cluster, job.software, options);
  for (model::NearestPlan& near : found) {
    std::string change = before;
    if (!near.change.empty()) change += (change.empty() ? "" : ", ") + near.change;
    refusal.nearest.push_back({std::move(near.plan), std::move(change)});
  }
  // The plan itself is the first that is looked at.
  add_tried(before.empty() ? checked - 1 : checked, refusal);
}

std::string change_of(const char* key, int from, int to) {
  if (from == to) return "";
  return std::string(key) + " " + std::to_string(from) + " → " + std::to_string(to);
}

// A decoupled plan with sides of these sizes; the replicas follow.
struct OtherSides {
  Plan plan;
  std::string change;
  int num_changes = 0;
};

std::vector<OtherSides> other_sides(const Job& job) {
  constexpr std::array<int, 4> kSizes = {1, 2, 4, 8};
  const Plan& own = job.plan;
  std::vector<OtherSides> others;
  for (const int forward : kSizes) {
    for (const int backward : kSizes) {
      OtherSides other{.plan = own, .change = {}};
      other.plan.decoupled.forward.tensor = forward;
      other.plan.decoupled.backward.tensor = backward;
      other.plan.data = 1;
      const int replica = other.plan.gpus();
      if (replica < 1 || job.cluster.num_gpus() % replica != 0) continue;
      other.plan.data = job.cluster.num_gpus() / replica;
      for (const std::string& change :
           {change_of("policy.forward.tensor", own.side_tensor(own.decoupled.forward), forward),
            change_of("policy.backward.tensor", own.side_tensor(own.decoupled.backward), backward),
            change_of("plan.data", own.data, other.plan.data)}) {
        if (change.empty()) continue;
        other.change += (other.change.empty() ? "" : ", ") + change;
        ++other.num_changes;
      }
      if (other.num_changes > 0) others.push_back(std::move(other));
    }
  }
  std::stable_sort(others.begin(), others.end(), [](const OtherSides& a, const OtherSides& b) {
    return a.num_changes < b.num_changes;
  });
  return others;
}

void look_near_decoupled(const Job& job, PlanRefusal& refusal) {
  for (OtherSides& other : other_sides(job)) {
    if (refusal.nearest.size() == kMaxPlans) return;
    add_tried(1, refusal);
    if (runs(job, other.plan)) {
      refusal.nearest.push_back({std::move(other.plan), std::move(other.change)});
    }
  }
  if (!refusal.nearest.empty()) return;
  Plan coupled = job.plan;
  coupled.schedule = ScheduleKind::OneForwardOneBackward;
  coupled.decoupled = {};
  coupled.data = model::data_from_gpus(coupled, job.cluster.num_gpus()).value_or(coupled.data);
  look_near(job, coupled, "policy.schedule fbd → 1f1b", refusal);
}

}  // namespace

void look_for_others(const Job& job, PlanRefusal& refusal) {
  if (job.plan.schedule == ScheduleKind::UserPolicy) return;
  if (job.plan.schedule == ScheduleKind::Decoupled) return look_near_decoupled(job, refusal);
  look_near(job, job.plan, "", refusal);
}

void look_for_slots(const Job& job, PlanRefusal& refusal) {
  constexpr int kMostSlots = 16;
  if (job.plan.schedule == ScheduleKind::UserPolicy) return;
  Plan more = job.plan;
  for (int slots = 2 * job.plan.receive_slots;; slots = slots < kMostSlots ? 2 * slots : 0) {
    more.receive_slots = slots;
    add_tried(1, refusal);
    if (runs(job, more)) {
      refusal.nearest.push_back(
          {more, change_of("policy.receive_slots", job.plan.receive_slots, slots)});
    }
    if (slots == 0 || !refusal.nearest.empty()) return;
  }
}

}  // namespace megatwin::sim
