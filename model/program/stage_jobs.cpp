#include "model/program/stage_jobs.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace megatwin::model {

Job on_group(const Job& job, int group) {
  Job seen = job;
  const auto index = static_cast<std::size_t>(group);
  seen.plan.precision = job.plan.group_precision(group);
  seen.plan.precision_per_group.clear();
  seen.cluster.groups = {job.cluster.groups[index]};
  if (!job.group_profiles.empty()) seen.profile = job.group_profiles[index];
  seen.group_profiles.clear();
  // FlashAttention and cuDNN's fused attention need Ampere.
  if (seen.cluster.groups.front().gpu.architecture == GpuArchitecture::Volta) {
    seen.software.attention = AttentionKernel::Unfused;
  }
  return seen;
}

StageJobs::StageJobs(const Job& job) : job_(job) {
  if (is_mixed(job.cluster) || !job.plan.tensor_per_stage.empty()) {
    sites_.emplace(job.plan, job.cluster);
  }
}

StageJobs::Key StageJobs::key(int replica, int stage) const {
  const std::int64_t micro_batches = job_.plan.replica_micro_batches(replica);
  if (!sites_) return {0, job_.plan.tensor, micro_batches};
  return {sites_->site(replica, stage).kind, job_.plan.stage_tensor(stage), micro_batches};
}

const Job& StageJobs::at(int replica, int stage) {
  if (!sites_ && job_.plan.micro_batches_per_replica.empty()) return job_;
  std::unique_ptr<const Job>& job = jobs_[key(replica, stage)];
  if (!job) job = std::make_unique<const Job>(seen_by(replica, stage));
  return *job;
}

Job StageJobs::seen_by(int replica, int stage) const {
  Job seen = sites_ ? on_group(job_, sites_->site(replica, stage).kind) : job_;
  Plan& plan = seen.plan;
  plan.global_batch = plan.replica_micro_batches(replica) * plan.micro_batch * plan.data;
  plan.micro_batches_per_replica.clear();
  plan.tensor = plan.stage_tensor(stage);
  plan.tensor_per_stage.clear();
  return seen;
}

std::vector<std::vector<int>> replica_classes(const Job& job) {
  const Plan& plan = job.plan;
  std::vector<int> all(static_cast<std::size_t>(std::max(plan.data, 1)));
  std::iota(all.begin(), all.end(), 0);
  if (plan.micro_batches_per_replica.empty() && !is_mixed(job.cluster)) return {all};
  const StageSites sites(plan, job.cluster);
  std::vector<std::pair<std::vector<std::int64_t>, std::vector<int>>> classes;
  for (const int replica : all) {
    std::vector<std::int64_t> traits = {plan.replica_micro_batches(replica)};
    for (int stage = 0; stage < plan.pipeline; ++stage) {
      traits.push_back(sites.site(replica, stage).kind);
    }
    const auto same = std::find_if(classes.begin(), classes.end(),
                                   [&](const auto& entry) { return entry.first == traits; });
    if (same != classes.end()) {
      same->second.push_back(replica);
    } else {
      classes.emplace_back(std::move(traits), std::vector<int>{replica});
    }
  }
  std::vector<std::vector<int>> replicas;
  replicas.reserve(classes.size());
  for (auto& entry : classes) replicas.push_back(std::move(entry.second));
  return replicas;
}

}  // namespace megatwin::model
