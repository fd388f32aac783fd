#include "sim/near_plans.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "model/nearest_plans.h"
#include "model/plan_check.h"
#include "policies/policy_choice.h"
#include "sim/decoupled/decoupled_job.h"
#include "sim/disturbed_job.h"
#include "sim/simulate.h"
#include "sim/simulation_problems.h"

namespace megatwin::sim {
namespace {

using model::Job;
using model::Plan;
using model::ScheduleKind;

constexpr std::size_t kMaxPlans = 3;
// Plans looked at, and those that are simulated: half a second, or a second of large models.
constexpr int kCheckedMax = 3000;
constexpr int kSimulatedMax = 400;
constexpr int kDecoupledMax = 100;

// The share of weight gradients is found by simulating some of them.
double tasks_of_trial(const Job& job) {
  constexpr double kSharesTried = 8;
  const bool looks_for_share =
      job.plan.schedule == ScheduleKind::Decoupled && job.plan.decoupled.balance_weights;
  return tasks_of_step(job) * (looks_for_share ? kSharesTried : 1);
}

// Runs plans until their tasks add up to about two seconds of work, and counts those that would go
// beyond it.
class Trials {
 public:
  bool run(const Job& job, const Plan& plan) {
    Job changed = job;
    changed.plan = plan;
    // A scenario of such a plan would be refused.
    if (!fits_token_tables(changed)) return false;
    // Whether it runs is no question of the network.
    changed.network = model::NetworkKind::Analytic;
    const double tasks = tasks_of_trial(changed);
    if (tasks > left_) {
      ++too_large_;
      return false;
    }
    left_ -= tasks;
    const auto answer = simulate(changed, {.sensitivities = false});
    return std::holds_alternative<SimulationReport>(answer);
  }

  double left() const { return left_; }
  // Those too large were counted as tried by who asked for them.
  void tell(PlanRefusal& refusal) const {
    refusal.others_too_large += too_large_;
    if (refusal.others_tried) *refusal.others_tried -= too_large_;
  }

 private:
  double left_ = 20e6;
  int too_large_ = 0;
};

void add_tried(int tried, PlanRefusal& refusal) {
  refusal.others_tried = refusal.others_tried.value_or(0) + tried;
}

// Near `plan`, which the change `before` (or none) leads to.
void look_near(const Job& job, const Plan& plan, const std::string& before, Trials& trials,
               PlanRefusal& refusal) {
  int checked = 0;
  const model::NearestPlansOptions options{
      .max_plans = static_cast<int>(kMaxPlans - refusal.nearest.size()),
      .max_checked = kCheckedMax,
      .accepts = [&](const Plan& near) { return trials.run(job, near); },
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

std::string change_of(const char* key, std::int64_t from, std::int64_t to) {
  return std::string(key) + " " + std::to_string(from) + " → " + std::to_string(to);
}

// A decoupled plan beside the one that was asked for.
struct OtherPlan {
  Plan plan;
  std::vector<std::string> changes;

  std::string text() const {
    std::string text;
    for (const std::string& change : changes) text += (text.empty() ? "" : ", ") + change;
    return text;
  }
  // A change on top of one that already suffices helps nobody.
  bool includes(const OtherPlan& smaller) const {
    return std::all_of(smaller.changes.begin(), smaller.changes.end(), [&](const auto& change) {
      return std::find(changes.begin(), changes.end(), change) != changes.end();
    });
  }
};

std::vector<std::string> changes_between(const Plan& own, const Plan& other) {
  std::vector<std::string> changes;
  const auto tell = [&](const char* key, std::int64_t from, std::int64_t to) {
    if (from != to) changes.push_back(change_of(key, from, to));
  };
  const auto &forward = own.decoupled.forward, &backward = own.decoupled.backward;
  tell("policy.forward.tensor", own.side_tensor(forward),
       other.side_tensor(other.decoupled.forward));
  tell("policy.backward.tensor", own.side_tensor(backward),
       other.side_tensor(other.decoupled.backward));
  tell("policy.forward.instances", forward.instances, other.decoupled.forward.instances);
  tell("policy.backward.instances", backward.instances, other.decoupled.backward.instances);
  tell("plan.pipeline", own.pipeline, other.pipeline);
  if (own.data != 0) tell("plan.data", own.data, other.data);
  tell("plan.micro_batch", own.micro_batch, other.micro_batch);
  if (own.recompute != other.recompute) {
    changes.push_back("plan.recompute " + std::string(name_of(own.recompute)) + " → " +
                      std::string(name_of(other.recompute)));
  }
  return changes;
}

// Which values each key of a decoupled plan may take: its own first.
struct DecoupledChoices {
  std::vector<int> pipeline;
  std::vector<std::pair<int, int>> instances;  // Forward, backward.
  std::vector<std::int64_t> micro_batch;
  std::vector<model::RecomputeKind> recompute;
};

DecoupledChoices own_choices(const Plan& plan) {
  return {.pipeline = {plan.pipeline},
          .instances = {{plan.decoupled.forward.instances, plan.decoupled.backward.instances}},
          .micro_batch = {plan.micro_batch},
          .recompute = {plan.recompute}};
}

// Other numbers of stages and of pipelines a side, and what takes less memory.
DecoupledChoices wide_choices(const Job& job) {
  constexpr int kStagesMax = 16;
  DecoupledChoices choices = own_choices(job.plan);
  const auto add = [](auto& list, const auto& value) {
    if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
  };
  for (int stages = 1; stages <= kStagesMax; ++stages) {
    if (job.cluster.num_gpus() % stages == 0) add(choices.pipeline, stages);
  }
  for (const std::pair<int, int>& ratio : {std::pair(1, 1), std::pair(1, 2), std::pair(2, 1)}) {
    add(choices.instances, ratio);
  }
  for (std::int64_t size = job.plan.micro_batch / 2; size >= 1; size /= 2) {
    add(choices.micro_batch, size);
  }
  add(choices.recompute, model::RecomputeKind::Full);
  return choices;
}

// With every tensor size of the two sides; the replicas follow. Few changes first.
std::vector<OtherPlan> other_decoupled(const Job& job, const DecoupledChoices& choices) {
  constexpr std::array<int, 4> kSizes = {1, 2, 4, 8};
  std::vector<OtherPlan> others;
  const auto add = [&](Plan plan) {
    plan.data = 1;
    const int replica = plan.gpus();
    if (replica < 1 || job.cluster.num_gpus() % replica != 0) return;
    plan.data = job.cluster.num_gpus() / replica;
    std::vector<std::string> changes = changes_between(job.plan, plan);
    others.push_back({std::move(plan), std::move(changes)});
  };
  for (const int stages : choices.pipeline) {
    for (const auto& [forward_instances, backward_instances] : choices.instances) {
      for (const std::int64_t micro_batch : choices.micro_batch) {
        for (const model::RecomputeKind recompute : choices.recompute) {
          Plan plan = job.plan;
          if (plan.pipeline != stages) plan.layers_per_virtual_stage.clear();
          plan.pipeline = stages;
          plan.micro_batch = micro_batch;
          if (plan.recompute != recompute) plan.recompute_layers = 0;
          plan.recompute = recompute;
          plan.decoupled.forward.instances = forward_instances;
          plan.decoupled.backward.instances = backward_instances;
          for (const int forward : kSizes) {
            for (const int backward : kSizes) {
              plan.decoupled.forward.tensor = forward;
              plan.decoupled.backward.tensor = backward;
              add(plan);
            }
          }
        }
      }
    }
  }
  std::stable_sort(others.begin(), others.end(), [](const OtherPlan& a, const OtherPlan& b) {
    return a.changes.size() < b.changes.size();
  });
  return others;
}

// Adds up to `count` of the choices that run; `before` is said first of each.
void look_at_decoupled(const Job& job, const DecoupledChoices& choices, const std::string& before,
                       std::size_t count, Trials& trials, PlanRefusal& refusal) {
  std::vector<OtherPlan> found;
  int simulated = 0;
  for (OtherPlan& other : other_decoupled(job, choices)) {
    if (found.size() == count || simulated == kDecoupledMax) return;
    if (before.empty() && other.changes.empty()) continue;  // What was refused.
    if (std::any_of(found.begin(), found.end(),
                    [&](const OtherPlan& enough) { return other.includes(enough); })) {
      continue;
    }
    add_tried(1, refusal);
    Job changed = job;
    changed.plan = other.plan;
    if (!decoupled_problems(changed).empty()) continue;
    ++simulated;
    if (!trials.run(job, other.plan)) continue;
    const std::string text = other.text();
    refusal.nearest.push_back(
        {other.plan, before + (before.empty() || text.empty() ? "" : ", ") + text});
    found.push_back(std::move(other));
  }
}

// On twice or four times the machines, of one kind.
void look_at_more_machines(const Job& job, Trials& trials, PlanRefusal& refusal) {
  if (job.cluster.groups.size() != 1) return;
  const int own = job.cluster.groups.front().count;
  for (const int factor : {2, 4}) {
    Job larger = job;
    int& machines = larger.cluster.groups.front().count;
    machines *= factor;
    look_at_decoupled(larger, own_choices(job.plan),
                      change_of("cluster.nodes[0].count", own, machines), 1, trials, refusal);
    if (!refusal.nearest.empty()) return;
  }
}

// The policy is kept where anything helps: other tensor sizes of the sides first, then everything
// else that a decoupled plan can turn, then more machines. One that runs both passes on the same
// ranks comes last.
void look_near_decoupled(const Job& job, Trials& trials, PlanRefusal& refusal) {
  look_at_decoupled(job, own_choices(job.plan), "", kMaxPlans, trials, refusal);
  if (!refusal.nearest.empty()) return;
  look_at_decoupled(job, wide_choices(job), "", kMaxPlans, trials, refusal);
  if (!refusal.nearest.empty()) return;
  look_at_more_machines(job, trials, refusal);
  Plan coupled = job.plan;
  coupled.schedule = ScheduleKind::OneForwardOneBackward;
  coupled.decoupled = {};
  coupled.data = model::data_from_gpus(coupled, job.cluster.num_gpus()).value_or(coupled.data);
  look_near(job, coupled, "policy.schedule fbd → 1f1b", trials, refusal);
}

// The fewest live activations that can run.
void look_for_activations(const Job& job, Trials& trials, PlanRefusal& refusal) {
  Plan more = job.plan;
  more.live_activations = job.plan.model_chunks;
  add_tried(1, refusal);
  if (trials.run(job, more)) {
    refusal.nearest.push_back({more, change_of("policy.live_activations", job.plan.live_activations,
                                               more.live_activations)});
  }
}

}  // namespace

void look_for_others(const Job& job, PlanRefusal& refusal) {
  Trials trials;
  if (!policies::bound_problems(job.plan).empty()) {
    look_for_activations(job, trials, refusal);
    if (!refusal.nearest.empty()) return;
  }
  if (job.plan.schedule == ScheduleKind::UserPolicy) return;
  if (job.plan.schedule == ScheduleKind::Decoupled) {
    look_near_decoupled(job, trials, refusal);
  } else {
    look_near(job, job.plan, "", trials, refusal);
  }
  trials.tell(refusal);
}

void look_for_slots(const Job& job, PlanRefusal& refusal) {
  constexpr int kMostSlots = 16;
  if (job.plan.schedule == ScheduleKind::UserPolicy) return;
  Plan more = job.plan;
  Trials trials;
  const double tasks = tasks_of_trial(job);
  for (int slots = 2 * job.plan.receive_slots;; slots = slots < kMostSlots ? 2 * slots : 0) {
    if (trials.left() < 2 * tasks) slots = 0;  // What is surest, as the last that can be tried.
    more.receive_slots = slots;
    add_tried(1, refusal);
    if (trials.run(job, more)) {
      refusal.nearest.push_back(
          {more, change_of("policy.receive_slots", job.plan.receive_slots, slots)});
    }
    if (slots == 0 || !refusal.nearest.empty()) break;
  }
  trials.tell(refusal);
}

}  // namespace megatwin::sim
