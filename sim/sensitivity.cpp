#include "sim/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "sim/decoupled/decoupled_job.h"

namespace megatwin::sim {
namespace {

using model::Job;

struct Variation {
  std::string change;
  std::function<void(Job&)> apply;
  // How uncertain the changed constant is, as a fraction; 0 for a decision of the user.
  double uncertainty = 0;
  double change_fraction = 0.1;
};

template <class Change>
void for_every_profile(Job& job, Change change) {
  change(job.profile);
  for (model::GpuProfile& profile : job.group_profiles) change(profile);
}

template <class Change>
void for_every_machine(Job& job, Change change) {
  for (model::NodeGroup& group : job.cluster.groups) change(group);
}

// Uncertainties are the 68 % residuals of docs/constants.md, rounded up.
std::vector<Variation> constant_variations() {
  return {
      {"matrix products 10 % faster",
       [](Job& job) {
         for_every_profile(job, [](model::GpuProfile& profile) {
           for (auto& [type, rate] : profile.gemm) rate.sustained = 1.1 * rate.sustained;
         });
       },
       0.05},
      {"attention 10 % faster",
       [](Job& job) {
         for_every_profile(job, [](model::GpuProfile& profile) {
           for (auto& [kernel, rate] : profile.attention) {
             rate.forward = 1.1 * rate.forward;
             rate.backward = 1.1 * rate.backward;
           }
         });
       },
       0.08},
      {"memory bandwidth 10 % higher",
       [](Job& job) {
         for_every_profile(job, [](model::GpuProfile& profile) {
           profile.memory.stream = 1.1 * profile.memory.stream;
         });
       },
       0.10},
      {"NVLink 10 % faster",
       [](Job& job) {
         for_every_machine(job, [](model::NodeGroup& group) {
           group.gpu.nvlink_per_direction = 1.1 * group.gpu.nvlink_per_direction;
         });
       },
       0.10},
      {"network cards 10 % faster",
       [](Job& job) {
         for_every_machine(job, [](model::NodeGroup& group) {
           group.node.nic_per_direction = 1.1 * group.node.nic_per_direction;
         });
       },
       0.20},
      {"kernel gaps and host launches 10 % shorter",
       [](Job& job) {
         for_every_profile(job, [](model::GpuProfile& profile) {
           profile.kernel_gap = 0.9 * profile.kernel_gap;
           profile.host_launch = 0.9 * profile.host_launch;
         });
       },
       0.40},
  };
}

std::vector<Variation> decision_variations(const Job& job) {
  std::vector<Variation> variations;
  const model::Plan& plan = job.plan;
  const bool even = plan.micro_batches_per_replica.empty();
  if (even && plan.global_batch % (2 * plan.micro_batch * plan.data) == 0) {
    variations.push_back({"micro-batch doubled", [](Job& j) { j.plan.micro_batch *= 2; }});
  }
  variations.push_back({"global batch doubled, per token", [](Job& j) {
                          j.plan.global_batch *= 2;
                          for (std::int64_t& count : j.plan.micro_batches_per_replica) count *= 2;
                        }});
  if (plan.recompute != model::RecomputeKind::None) {
    variations.push_back({"no activation recomputation",
                          [](Job& j) { j.plan.recompute = model::RecomputeKind::None; }});
  }
  if (plan.tensor > 1 && !plan.overlap_tensor_parallel && plan.sequence_parallel) {
    variations.push_back({"tensor-parallel traffic overlapped",
                          [](Job& j) { j.plan.overlap_tensor_parallel = true; }});
  }
  if (plan.data > 1 && !plan.overlap_grad_reduce) {
    variations.push_back(
        {"gradient reduction overlapped", [](Job& j) { j.plan.overlap_grad_reduce = true; }});
  }
  return variations;
}

std::optional<SimulationReport> rerun(const Job& job, const SimulateOptions& options) {
  const auto answer = simulate(job, {.effects = options.effects,
                                     .engine = options.engine,
                                     .cache = options.cache,
                                     .sensitivities = false});
  if (const auto* report = std::get_if<SimulationReport>(&answer)) return *report;
  const auto& refusal = std::get<PlanRefusal>(answer);
  return refusal.report;
}

// What the model itself leaves out, beyond its constants: the median error on rows of stacks that
// state all their settings (docs/accuracy.md).
constexpr double kModelResidual = 0.04;

// What the plan leaves to the simulator is decided once: a variation changes what it names.
Job decided(Job job) {
  if (job.plan.schedule != model::ScheduleKind::Decoupled) return job;
  job.plan.decoupled.weight_share = decided_weight_share(job);
  job.plan.decoupled.balance_weights = false;
  return job;
}

}  // namespace

void fill_sensitivities(const Job& of_user, const SimulateOptions& options,
                        SimulationReport& report) {
  const Job job = decided(of_user);
  double variance = kModelResidual * kModelResidual;
  for (const Variation& variation : constant_variations()) {
    Job changed = job;
    variation.apply(changed);
    const auto result = rerun(changed, options);
    if (!result) continue;
    report.sensitivities.push_back({variation.change, result->step_time});
    const double gain = 1 - ratio(result->step_time / report.step_time);
    const double share = gain / variation.change_fraction * variation.uncertainty;
    variance += share * share;
  }
  for (const Variation& variation : decision_variations(job)) {
    Job changed = job;
    variation.apply(changed);
    const auto result = rerun(changed, options);
    if (!result) continue;
    const double batches =
        static_cast<double>(changed.plan.global_batch) / static_cast<double>(job.plan.global_batch);
    const bool unfit = !result->fits;
    report.sensitivities.push_back(
        {variation.change + (unfit ? " (would not fit)" : ""), result->step_time / batches});
  }
  std::stable_sort(report.sensitivities.begin(), report.sensitivities.end(),
                   [&](const Sensitivity& a, const Sensitivity& b) {
                     return std::abs((a.step_time - report.step_time).value) >
                            std::abs((b.step_time - report.step_time).value);
                   });
  const double band = std::sqrt(variance);
  report.step_time_low = (1 - band) * report.step_time;
  report.step_time_high = (1 + band) * report.step_time;
}

}  // namespace megatwin::sim
