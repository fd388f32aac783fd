#include "sim/group_algorithm.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "model/assert.h"
#include "model/collective_cost.h"
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
using model::Seconds;

constexpr std::array kKinds{GroupKind::Tensor,       GroupKind::Context, GroupKind::Expert,
                            GroupKind::ExpertTensor, GroupKind::Data,    GroupKind::ExpertData};

// How often the program makes each collective: by kind of group, of collective, and bytes of one.
using CallCounts = std::map<std::tuple<GroupKind, CollectiveKind, double>, double>;

CallCounts calls_of(const model::Job& job, const model::JobProgram& program) {
  CallCounts counts;
  const model::DataParallelTraffic state(job, {});
  // Chunks of equal content share their lists.
  std::map<const model::TaskOps*, double> lists;
  for (const model::PricedStage& stage : program.stages) {
    for (const model::PricedChunk& chunk : stage.chunks) {
      if (chunk.ops) ++lists[chunk.ops.get()];
      for (const model::StateCall& call : state.calls(chunk.content)) {
        counts[{call.group, call.kind, call.bytes.value}] += call.count;
      }
    }
  }
  for (const auto& [ops, chunks] : lists) {
    for (const model::MicroOps* list : {&ops->forward, &ops->backward}) {
      for (const model::MicroOp& op : *list) {
        if (op.kind != model::MicroOpKind::Collective) continue;
        counts[{op.group, op.collective, op.bytes.value}] += chunks * op.count;
      }
    }
  }
  return counts;
}

// The collective that moves most bytes, and the largest of its calls.
struct Sent {
  CollectiveKind kind = CollectiveKind::AllGather;
  Bytes bytes;
};
Sent most_sent(const CallCounts& counts, GroupKind group) {
  std::map<CollectiveKind, std::pair<double, double>> sums;
  for (const auto& [call, count] : counts) {
    const auto& [of, kind, bytes] = call;
    if (of != group) continue;
    auto& [sum, largest] = sums[kind];
    sum += count * bytes;
    largest = std::max(largest, bytes);
  }
  Sent most;
  double most_sum = 0;
  for (const auto& [kind, sent] : sums) {
    if (sent.first > most_sum) most_sum = sent.first, most = {kind, Bytes{sent.second}};
  }
  return most;
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

}  // namespace

GroupAlgorithms::GroupAlgorithms(const model::Job& job, const model::JobProgram& program) {
  const CallCounts counts = calls_of(job, program);
  for (const GroupKind group : kKinds) {
    const Sent sent = most_sent(counts, group);
    if (sent.bytes.value <= 0) continue;
    const model::GroupTopology topology = model::group_topology(job, group);
    if (topology.ranks < 2) continue;
    GroupAlgorithm& algorithm = by_kind_[static_cast<std::size_t>(group)];
    if (sent.kind == CollectiveKind::AllReduce || gathers_only(sent.kind)) {
      algorithm.wish = {
          .kind = sent.kind, .algorithm = algorithm_of(sent, topology), .multicast = topology.nvls};
    }
    algorithm.busiest = model::busiest_part(sent.kind, algorithm.wish.algorithm, topology);
    for (const auto& [key, count] : counts) {
      const auto& [of, kind, size] = key;
      if (of != group || size <= 0) continue;
      const Bytes bytes{size};
      const model::CollectiveTime alone = model::collective_time(kind, bytes, topology);
      const Bytes busiest = model::busiest_part(kind, alone.algorithm, topology) * bytes;
      calls_[static_cast<std::size_t>(group)].push_back({busiest, alone.time, count});
      algorithm.peak =
          std::max(algorithm.peak, model::flowing_rate(kind, alone.algorithm, topology));
    }
  }
}

double GroupAlgorithms::flowing_part(GroupKind kind, double factor) const {
  const BytesPerSecond peak = of(kind).peak;
  return peak.value > 0 ? std::min(1.0, ratio(factor * mean(kind, factor) / peak)) : 1;
}

BytesPerSecond GroupAlgorithms::mean(GroupKind kind, double factor) const {
  const model::LinkShare given = share(kind, factor);
  Bytes sent;
  Seconds taken;
  for (const Call& call : calls_[static_cast<std::size_t>(kind)]) {
    sent += call.count * call.busiest;
    taken += call.count * call.alone;
    if (given.left.value <= 0) continue;
    taken += call.count * (call.busiest / given.left - call.busiest / given.alone);
  }
  return taken.value > 0 ? sent / taken : BytesPerSecond{};
}

}  // namespace megatwin::sim
