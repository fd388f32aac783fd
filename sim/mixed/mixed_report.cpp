#include "sim/mixed/mixed_report.h"

#include <algorithm>

#include "model/program/stage_jobs.h"
#include "model/stage_sites.h"

namespace megatwin::sim {
namespace {

using model::Job;

std::string joined(const std::vector<std::string>& names) {
  std::vector<std::string> once;
  for (const std::string& name : names) {
    if (std::find(once.begin(), once.end(), name) == once.end()) once.push_back(name);
  }
  std::string text;
  for (std::size_t i = 0; i < once.size(); ++i) {
    if (i > 0) text += i + 1 == once.size() ? " and " : ", ";
    text += once[i];
  }
  return text;
}

// Without work: the bubble, and the wait for other replicas before a reduction can start.
model::Instant idle_of(const model::StageCost& cost, const RankResult& rank) {
  model::Instant traffic;
  for (const model::ChunkCost& chunk : cost.chunks) {
    traffic += chunk.gradient_reduce + chunk.parameter_gather;
  }
  return rank.bubble + std::max(model::Instant{}, rank.exposed_data_parallel - traffic);
}

StageShare share_of(const Job& seen, const model::PricedStage& stage, const RankResult& rank) {
  StageShare share;
  share.stage = rank.stage.value;
  share.gpu = seen.cluster.groups.front().gpu.name;
  share.precision = std::string(model::name_of(seen.plan.precision));
  share.tensor = seen.plan.tensor;
  share.micro_batches = seen.plan.num_micro_batches();
  for (const model::PricedChunk& chunk : stage.chunks) {
    share.layers += chunk.content.layers();
    share.forward += chunk.forward.duration + chunk.sharded_forward;
    share.backward += chunk.backward.duration + chunk.sharded_backward;
  }
  share.busy = model::to_seconds(rank.compute);
  return share;
}

}  // namespace

bool ranks_differ(const Job& job) {
  const model::Plan& plan = job.plan;
  return model::is_mixed(job.cluster) || !plan.tensor_per_stage.empty() ||
         !plan.micro_batches_per_replica.empty() || plan.micro_batches_by_cost;
}

std::vector<ReplicaClass> classes_of(const std::vector<model::JobProgram>& programs) {
  std::vector<ReplicaClass> classes;
  for (const model::JobProgram& program : programs) {
    classes.push_back(replica_class(program.spec));
    // A single class stands for all replicas, and nobody asks for how many.
    if (programs.size() > 1) {
      classes.back().multiplicity = static_cast<int>(program.replicas.size());
    }
  }
  return classes;
}

std::string gpu_names(const model::Cluster& cluster) {
  std::vector<std::string> names;
  for (const model::NodeGroup& group : cluster.groups) names.push_back(group.gpu.name);
  return joined(names);
}

std::string node_names(const model::Cluster& cluster) {
  std::vector<std::string> names;
  for (const model::NodeGroup& group : cluster.groups) names.push_back(group.node.name);
  return joined(names);
}

model::FlopPerSecond total_peak(const Job& job) {
  const auto peak = [&](int group) {
    return job.cluster.groups[static_cast<std::size_t>(group)].gpu.peak_of(
        model::gemm_type(job.plan.group_precision(group)));
  };
  if (!model::is_mixed(job.cluster)) return static_cast<double>(job.plan.gpus()) * peak(0);
  model::FlopPerSecond total;
  for (std::size_t i = 0; i < job.cluster.groups.size(); ++i) {
    const model::NodeGroup& group = job.cluster.groups[i];
    total += static_cast<double>(group.count * group.node.num_gpus) * peak(static_cast<int>(i));
  }
  return total;
}

void fill_stages(const Job& job, const std::vector<model::JobProgram>& programs,
                 const PipelineResult& result, SimulationReport& report) {
  if (!ranks_differ(job)) return;
  model::StageJobs jobs(job);
  std::size_t rank = 0;
  for (const model::JobProgram& program : programs) {
    for (std::size_t stage = 0; stage < program.stages.size(); ++stage, ++rank) {
      const int replica = program.replicas.front();
      StageShare share = share_of(jobs.at(replica, static_cast<int>(stage)), program.stages[stage],
                                  result.ranks[rank]);
      share.replica = replica;
      share.idle =
          ratio(model::to_seconds(idle_of(program.spec.stages[stage], result.ranks[rank])) /
                model::to_seconds(result.makespan));
      share.num_replicas = static_cast<int>(program.replicas.size());
      share.memory_peak = report.memory[rank].peak;
      share.memory_limit = report.memory[rank].limit;
      report.stages.push_back(std::move(share));
    }
  }
}

}  // namespace megatwin::sim
