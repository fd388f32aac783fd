#include "sim/group_algorithm.h"

#include <algorithm>
#include <map>
#include <optional>

#include "model/collective_cost.h"
#include "model/collective_forms.h"
#include "model/numbers.h"
#include "model/program/data_parallel.h"
#include "model/program/group_topology.h"

namespace megatwin::sim {
namespace {

using model::Bytes;
using model::BytesPerSecond;
using model::CollectiveAlgorithm;
using model::CollectiveKind;
using model::GroupKind;

// Large, so that ratios are those of bandwidths.
constexpr Bytes kLargeCollective{256e6};

struct Sent {
  CollectiveKind kind = CollectiveKind::AllGather;
  Bytes bytes;  // Of one call.
};

// The collective of these groups that moves most bytes inside tasks.
std::optional<Sent> sent_in_tasks(const model::JobProgram& program, GroupKind group) {
  std::map<CollectiveKind, std::pair<double, Bytes>> sums;
  const auto add = [&](const model::MicroOps& ops) {
    for (const model::MicroOp& op : ops) {
      if (op.kind != model::MicroOpKind::Collective || op.group != group) continue;
      auto& [sum, largest] = sums[op.collective];
      sum += op.count * op.bytes.value;
      largest = std::max(largest, op.bytes);
    }
  };
  for (const model::PricedStage& stage : program.stages) {
    for (const model::PricedChunk& chunk : stage.chunks) {
      if (!chunk.ops) continue;
      add(chunk.ops->forward);
      add(chunk.ops->backward);
    }
  }
  std::optional<Sent> most;
  double most_sum = 0;
  for (const auto& [kind, sent] : sums) {
    if (sent.first > most_sum) most_sum = sent.first, most = Sent{kind, sent.second};
  }
  return most;
}

// What reduces the gradients of a chunk of the largest stage.
Sent sent_of_gradients(const model::Job& job, const model::JobProgram& program, bool experts) {
  const model::GradientReduction reduction = model::gradient_reduction(job);
  std::int64_t parameters = 0;
  for (const model::PricedStage& stage : program.stages) {
    parameters = std::max(parameters, experts ? stage.parameters.expert : stage.parameters.dense);
  }
  const double chunks = std::max(1, job.plan.model_chunks);
  return {reduction.kind, model::as_double(parameters) / chunks * reduction.per_parameter};
}

bool gathers_only(CollectiveKind kind) {
  return kind == CollectiveKind::AllGather || kind == CollectiveKind::ReduceScatter;
}

CollectiveAlgorithm algorithm_of(const Sent& sent, const model::GroupTopology& topology) {
  const CollectiveAlgorithm taken =
      model::collective_time(sent.kind, sent.bytes, topology).algorithm;
  if (taken != CollectiveAlgorithm::Pat && taken != CollectiveAlgorithm::Ring) return taken;
  if (!gathers_only(sent.kind)) return taken;
  const auto choice = model::nccl_choice(sent.kind, model::nccl_communicator(topology), sent.bytes);
  return choice.algorithm == CollectiveAlgorithm::Pat ? CollectiveAlgorithm::Pat
                                                      : CollectiveAlgorithm::Ring;
}

bool is_tree_of_machines(CollectiveAlgorithm algorithm) {
  return algorithm == CollectiveAlgorithm::Tree || algorithm == CollectiveAlgorithm::NvlsTree ||
         algorithm == CollectiveAlgorithm::CollNetDirect;
}

}  // namespace

GroupAlgorithms::GroupAlgorithms(const model::Job& job, const model::JobProgram& program) {
  for (const GroupKind kind : {GroupKind::Tensor, GroupKind::Context, GroupKind::ExpertTensor,
                               GroupKind::Data, GroupKind::ExpertData}) {
    const bool data = kind == GroupKind::Data || kind == GroupKind::ExpertData;
    if (kind == GroupKind::ExpertData && !job.transformer.experts) continue;
    const std::optional<Sent> sent =
        data ? sent_of_gradients(job, program, kind == GroupKind::ExpertData)
             : sent_in_tasks(program, kind);
    if (!sent || sent->bytes.value <= 0) continue;
    if (sent->kind != CollectiveKind::AllReduce && !gathers_only(sent->kind)) continue;
    const model::GroupTopology topology = model::group_topology(job, kind);
    if (topology.ranks < 2) continue;
    GroupAlgorithm& algorithm = by_kind_[static_cast<std::size_t>(kind)];
    algorithm.wish = {
        .kind = sent->kind, .algorithm = algorithm_of(*sent, topology), .multicast = topology.nvls};
    // Over two machines a tree sends everything once each way, see collective_cost.cpp.
    algorithm.busiest = is_tree_of_machines(algorithm.wish.algorithm) && topology.nodes == 2
                            ? 1
                            : model::busbw_factor(sent->kind, topology.ranks);
  }
}

BytesPerSecond group_rate(const model::Job& job, GroupKind kind, const GroupAlgorithm& algorithm) {
  const model::GroupTopology group = model::group_topology(job, kind);
  if (group.ranks < 2) return {};
  const PatternWish& wish = algorithm.wish;
  if (wish.algorithm == CollectiveAlgorithm::Ring || wish.algorithm == CollectiveAlgorithm::Pat) {
    return model::collective_time(CollectiveKind::AllGather, kLargeCollective, group).busbw;
  }
  const auto alone =
      model::collective_time(wish.kind, kLargeCollective, group, {.algorithm = wish.algorithm});
  return algorithm.busiest * kLargeCollective / alone.time;
}

}  // namespace megatwin::sim
