#include "model/stage_sites.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "model/assert.h"

namespace megatwin::model {
namespace {

// All that a price is made of; machines that a scenario describes itself may share a name, or none.
auto kind_of(const NodeGroup& group) {
  const Node& node = group.node;
  return std::tie(group.gpu.name, node.name, node.num_gpus, node.nvlink_topology,
                  node.nvlink_matrix, node.num_nics, node.nic_per_direction, node.nic_type,
                  node.static_routes, node.nic_latency, node.power_max, node.price_per_hour);
}

bool same_kind(const NodeGroup& a, const NodeGroup& b) { return kind_of(a) == kind_of(b); }

}  // namespace

std::vector<int> kinds_of_groups(const Cluster& cluster) {
  std::vector<int> kinds;
  for (const NodeGroup& group : cluster.groups) {
    const auto same = std::find_if(cluster.groups.begin(), cluster.groups.end(),
                                   [&](const NodeGroup& other) { return same_kind(group, other); });
    kinds.push_back(static_cast<int>(same - cluster.groups.begin()));
  }
  return kinds;
}

bool is_mixed(const Cluster& cluster) {
  const std::vector<int> kinds = kinds_of_groups(cluster);
  return std::any_of(kinds.begin(), kinds.end(), [](int kind) { return kind != 0; });
}

StageSites::StageSites(const Plan& plan, const Cluster& cluster)
    : num_replicas_(plan.data),
      num_stages_(plan.pipeline),
      context_(plan.context),
      nodes_(cluster),
      kinds_(kinds_of_groups(cluster)) {
  for (int stage = 0; stage < plan.pipeline; ++stage) tensor_.push_back(plan.stage_tensor(stage));
  if (plan.tensor_per_stage.empty()) {
    layout_.emplace(plan);
    if (plan.pipeline > 1) stage_stride_ = layout_->rank_at({.pipeline = 1}).value;
    return;
  }
  int next = 0;
  for (const int tensor : tensor_) {
    first_rank_.push_back(next);
    next += tensor * context_ * num_replicas_;
  }
}

RankId StageSites::rank(int replica, int stage, int tensor, int context) const {
  if (layout_) {
    return layout_->rank_at(
        {.tensor = tensor, .context = context, .data = replica, .pipeline = stage});
  }
  const auto index = static_cast<std::size_t>(stage);
  return {first_rank_[index] + tensor_[index] * (context + context_ * replica) + tensor};
}

StageSite StageSites::site(int replica, int stage) const {
  const RankId first = rank(replica, stage, 0, 0);
  return {kinds_[static_cast<std::size_t>(nodes_.kind_of(first))], first};
}

std::optional<int> StageSites::kind(int replica, int stage) const {
  const int first = site(replica, stage).kind;
  for (int context = 0; context < context_; ++context) {
    for (int tensor = 0; tensor < tensor_[static_cast<std::size_t>(stage)]; ++tensor) {
      const int group = nodes_.kind_of(rank(replica, stage, tensor, context));
      if (kinds_[static_cast<std::size_t>(group)] != first) return std::nullopt;
    }
  }
  return first;
}

int StageSites::stage_of(RankId rank) const {
  if (layout_) return rank.value / stage_stride_ % num_stages_;
  const auto after = std::upper_bound(first_rank_.begin(), first_rank_.end(), rank.value);
  return static_cast<int>(after - first_rank_.begin()) - 1;
}

int StageSites::ranks_of_stage_on_node(RankId rank, int stage) const {
  const NodeMap::Ranks local = nodes_.ranks_on(nodes_.node_of(rank));
  const int last = layout_ ? layout_->num_ranks()
                           : first_rank_.back() + tensor_.back() * context_ * num_replicas_;
  int count = 0;
  for (int value = local.first.value; value < std::min(local.last.value, last); ++value) {
    count += stage_of({value}) == stage ? 1 : 0;
  }
  return count;
}

std::vector<int> StageSites::kinds_of_stage(int stage) const {
  std::set<int> kinds;
  for (int replica = 0; replica < num_replicas_; ++replica) kinds.insert(site(replica, stage).kind);
  return {kinds.begin(), kinds.end()};
}

}  // namespace megatwin::model
