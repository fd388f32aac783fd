#include "sim/simulation_problems.h"

#include <utility>

#include "model/plan_check.h"
#include "policies/policy_choice.h"
#include "sim/decoupled/decoupled_job.h"
#include "sim/job_network.h"

namespace megatwin::sim {
namespace {

using model::Job;

// More tasks than this take minutes and gigabytes, and say nothing that fewer would not.
constexpr double kMostTasks = 20e6;

bool is_decoupled(const Job& job) { return job.plan.schedule == model::ScheduleKind::Decoupled; }

// How a sentence on what a schedule does not go with begins.
std::string schedule_of(const Job& job) {
  return "policy.schedule " + std::string(model::name_of(job.plan.schedule)) + ": ";
}

// Flows are laid out over orders that are known before the step; decoupled ranks over closed forms.
void add_network_problems(const Job& job, std::vector<std::string>& problems) {
  if (is_decoupled(job)) {
    if (job.network != model::NetworkKind::Analytic) {
      problems.push_back(schedule_of(job) + "flows over the network are not simulated, network " +
                         std::string(model::name_of(job.network)) +
                         " is given (allowed: analytic)");
    }
    if (!job.disturbances.empty()) {
      problems.push_back(schedule_of(job) + "disturbances are not simulated; give none");
    }
  } else if (model::is_dynamic(job.plan.schedule) && needs_network(job)) {
    problems.push_back(schedule_of(job) +
                       "decides while the step runs, and flows over the network need the order "
                       "before; give network: analytic and no disturbance of a link, or a static "
                       "schedule");
  }
}

void add_slot_problems(const Job& job, std::vector<std::string>& problems) {
  if (job.plan.receive_slots == 0) return;
  const auto refuse = [&](const std::string& why) {
    problems.push_back("policy.receive_slots " + std::to_string(job.plan.receive_slots) + ": " +
                       why);
  };
  if (is_decoupled(job)) {
    refuse("decoupled ranks have no slots (allowed: 0, or another policy.schedule)");
  } else if (job.plan.pipeline > 1 && !job.plan.overlap_p2p) {
    refuse(
        "a send that holds the compute lane cannot wait for a slot (allowed: 0, or "
        "plan.overlap_p2p true)");
  } else if (needs_network(job)) {
    refuse(
        "flows over the network do not wait for slots (allowed: 0, or network analytic and no "
        "disturbance of a link)");
  }
}

void add_size_problems(const Job& job, std::vector<std::string>& problems) {
  const double tasks = tasks_of_step(job);
  if (tasks <= kMostTasks) return;
  problems.push_back(
      "plan.global_batch " + std::to_string(job.plan.global_batch) + " makes " +
      std::to_string(static_cast<long long>(tasks)) + " tasks a step, over the " +
      std::to_string(static_cast<long long>(kMostTasks)) +
      " that are simulated; time per micro-batch is the same with fewer micro-batches");
}

}  // namespace

double tasks_of_step(const Job& job) {
  // Decoupled: a forward, its recompute and a backward.
  return (is_decoupled(job) ? 3.0 : 2.0) * job.plan.pipeline * job.plan.model_chunks *
         static_cast<double>(job.plan.num_micro_batches());
}

std::vector<std::string> difference_problems(const Job& job) {
  const model::Plan& plan = job.plan;
  std::vector<std::string> problems;
  const auto refuse = [&](bool given, const char* what) {
    if (given) problems.push_back(schedule_of(job) + what);
  };
  if (is_decoupled(job)) {
    refuse(!plan.tensor_per_stage.empty(),
           "plan.tensor_per_stage is for other schedules; give policy.forward.tensor and "
           "policy.backward.tensor");
    refuse(!plan.micro_batches_per_replica.empty() || plan.micro_batches_by_cost,
           "plan.micro_batches_per_replica is for other schedules; leave it out");
    refuse(plan.layers_by_cost,
           "plan.layers_per_stage auto is for other schedules; give a list, or leave it out");
  } else if (model::is_dynamic(plan.schedule)) {
    refuse(plan.micro_batches_by_cost,
           "plan.micro_batches_per_replica auto is found from orders that are known before the "
           "step; give a list");
  }
  return problems;
}

std::vector<std::string> simulation_problems(const Job& job, bool has_policy) {
  std::vector<std::string> problems = difference_problems(job);
  if (!problems.empty()) return problems;
  problems = is_decoupled(job)
                 ? decoupled_problems(job)
                 : model::plan_problems(job.transformer, job.plan, job.cluster, job.software);
  if (!problems.empty()) return problems;
  add_network_problems(job, problems);
  add_slot_problems(job, problems);
  for (std::string& problem : policies::bound_problems(job.plan)) {
    problems.push_back(std::move(problem));
  }
  if (job.plan.schedule == model::ScheduleKind::UserPolicy && !has_policy) {
    problems.push_back("policy " + job.plan.policy_library +
                       ": a policy of one's own runs in simulate and train only");
  }
  add_size_problems(job, problems);
  return problems;
}

}  // namespace megatwin::sim
