#include "model/rank_layout.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "model/assert.h"

namespace megatwin::model {
namespace {

constexpr std::size_t index_of(ParallelDimension dimension) {
  return static_cast<std::size_t>(dimension);
}

std::optional<ParallelDimension> dimension_from_text(std::string_view text) {
  if (text == "tp") return ParallelDimension::Tensor;
  if (text == "cp") return ParallelDimension::Context;
  if (text == "ep") return ParallelDimension::Expert;
  if (text == "dp") return ParallelDimension::Data;
  if (text == "pp") return ParallelDimension::Pipeline;
  return std::nullopt;
}

}  // namespace

std::optional<RankOrder> rank_order_from_text(std::string_view text) {
  RankOrder order{};
  std::array<bool, 5> seen{};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t dash = text.find('-');
    const bool is_last = i + 1 == order.size();
    if ((dash == std::string_view::npos) != is_last) return std::nullopt;
    const auto dimension = dimension_from_text(text.substr(0, dash));
    if (!dimension || seen[index_of(*dimension)]) return std::nullopt;
    seen[index_of(*dimension)] = true;
    order[i] = *dimension;
    if (!is_last) text.remove_prefix(dash + 1);
  }
  return order;
}

NodeMap::NodeMap(const Cluster& cluster) {
  Run run;
  for (const NodeGroup& group : cluster.groups) {
    run.gpus_per_node = std::max(1, group.node.num_gpus);
    runs_.push_back(run);
    run.first_rank += group.count * run.gpus_per_node;
    run.first_node += group.count;
  }
  MEGATWIN_ASSERT(!runs_.empty(), "a cluster without machines");
}

NodeMap::NodeMap(int gpus_per_node) : runs_{Run{0, 0, gpus_per_node}} {
  MEGATWIN_ASSERT(gpus_per_node >= 1, gpus_per_node);
}

const NodeMap::Run& NodeMap::run_of_rank(RankId rank) const {
  std::size_t i = runs_.size() - 1;
  while (i > 0 && rank.value < runs_[i].first_rank) --i;
  return runs_[i];
}

NodeId NodeMap::node_of(RankId rank) const {
  const Run& run = run_of_rank(rank);
  return {run.first_node + (rank.value - run.first_rank) / run.gpus_per_node};
}

NodeMap::Ranks NodeMap::ranks_on(NodeId node) const {
  std::size_t i = runs_.size() - 1;
  while (i > 0 && node.value < runs_[i].first_node) --i;
  const int first =
      runs_[i].first_rank + (node.value - runs_[i].first_node) * runs_[i].gpus_per_node;
  return {{first}, {first + runs_[i].gpus_per_node}};
}

int NodeMap::kind_of(RankId rank) const {
  return static_cast<int>(&run_of_rank(rank) - runs_.data());
}

RankLayout::RankLayout(const Plan& plan) {
  const auto order = rank_order_from_text(plan.rank_order);
  MEGATWIN_ASSERT(order.has_value(), "rank order ", plan.rank_order);
  num_ranks_ = plan.gpus();
  const int expert_ranks = plan.effective_expert_tensor() * plan.expert;
  const int stage_ranks = plan.tensor * plan.context * plan.data;
  MEGATWIN_ASSERT(num_ranks_ > 0 && expert_ranks > 0, num_ranks_, " ranks");
  // A dense model never looks at the expert grid; there it may be anything that fits.
  const bool fits = stage_ranks % expert_ranks == 0;
  MEGATWIN_ASSERT(fits || plan.expert == 1, "expert grid ", expert_ranks, " over ", stage_ranks);
  const int expert_tensor = fits ? plan.effective_expert_tensor() : 1;
  const int expert_data = stage_ranks / (expert_tensor * plan.expert);
  // In the order of ParallelDimension.
  dense_ = make_grid({plan.tensor, plan.context, 1, plan.data, plan.pipeline}, *order);
  expert_ = make_grid({expert_tensor, 1, plan.expert, expert_data, plan.pipeline}, *order);
}

RankLayout::Grid RankLayout::make_grid(const std::array<int, 5>& sizes,
                                       const RankOrder& order) const {
  Grid grid;
  grid.size = sizes;
  int stride = 1;
  for (const ParallelDimension dimension : order) {
    grid.stride[index_of(dimension)] = stride;
    stride *= sizes[index_of(dimension)];
  }
  MEGATWIN_ASSERT(stride == num_ranks_, stride, " cells for ", num_ranks_, " ranks");
  return grid;
}

RankCoordinates RankLayout::coordinates(RankId rank) const {
  MEGATWIN_ASSERT(rank.value >= 0 && rank.value < num_ranks_, "rank ", rank.value);
  const auto at = [&](const Grid& grid, ParallelDimension dimension) {
    const std::size_t i = index_of(dimension);
    return rank.value / grid.stride[i] % grid.size[i];
  };
  using enum ParallelDimension;
  return {.tensor = at(dense_, Tensor),
          .context = at(dense_, Context),
          .data = at(dense_, Data),
          .pipeline = at(dense_, Pipeline),
          .expert_tensor = at(expert_, Tensor),
          .expert = at(expert_, Expert),
          .expert_data = at(expert_, Data)};
}

RankId RankLayout::rank_at(const RankCoordinates& coordinates) const {
  using enum ParallelDimension;
  return {coordinates.tensor * dense_.stride[index_of(Tensor)] +
          coordinates.context * dense_.stride[index_of(Context)] +
          coordinates.data * dense_.stride[index_of(Data)] +
          coordinates.pipeline * dense_.stride[index_of(Pipeline)]};
}

RankLayout::Span RankLayout::span_of(GroupKind kind) const {
  using enum ParallelDimension;
  switch (kind) {
    case GroupKind::Tensor:
      return {&dense_, {Tensor}, 1};
    case GroupKind::Context:
      return {&dense_, {Context}, 1};
    case GroupKind::Expert:
      return {&expert_, {Expert}, 1};
    case GroupKind::ExpertTensor:
      return {&expert_, {Tensor}, 1};
    case GroupKind::Data:
      return {&dense_, {Context, Data}, 2};
    case GroupKind::ExpertData:
      return {&expert_, {Data}, 1};
    case GroupKind::Pipeline:
      return {&dense_, {Pipeline}, 1};
  }
  return {&dense_, {Tensor}, 1};
}

int RankLayout::group_size(GroupKind kind) const {
  const Span span = span_of(kind);
  int size = 1;
  for (int i = 0; i < span.num_dimensions; ++i) {
    size *= span.grid->size[index_of(span.dimensions[static_cast<std::size_t>(i)])];
  }
  return size;
}

RankId RankLayout::leader(GroupKind kind, RankId rank) const {
  const Span span = span_of(kind);
  int value = rank.value;
  for (int i = 0; i < span.num_dimensions; ++i) {
    const std::size_t dimension = index_of(span.dimensions[static_cast<std::size_t>(i)]);
    const int stride = span.grid->stride[dimension];
    value -= rank.value / stride % span.grid->size[dimension] * stride;
  }
  return {value};
}

int RankLayout::extent(GroupKind kind) const {
  const Span span = span_of(kind);
  int extent = 0;
  for (int i = 0; i < span.num_dimensions; ++i) {
    const std::size_t dimension = index_of(span.dimensions[static_cast<std::size_t>(i)]);
    extent += (span.grid->size[dimension] - 1) * span.grid->stride[dimension];
  }
  return extent;
}

bool RankLayout::crosses(GroupKind kind, int block) const {
  MEGATWIN_ASSERT(block > 0, block);
  const int reach = extent(kind);
  if (reach >= block) return true;
  for (int edge = block; edge < num_ranks_; edge += block) {
    for (int first = std::max(0, edge - reach); first < edge; ++first) {
      if (leader(kind, {first}).value == first) return true;
    }
  }
  return false;
}

std::vector<RankId> RankLayout::members(GroupKind kind, RankId rank) const {
  const Span span = span_of(kind);
  std::vector<RankId> ranks = {leader(kind, rank)};
  for (int i = 0; i < span.num_dimensions; ++i) {
    const std::size_t dimension = index_of(span.dimensions[static_cast<std::size_t>(i)]);
    const std::vector<RankId> row = ranks;
    for (int step = 1; step < span.grid->size[dimension]; ++step) {
      for (const RankId member : row) {
        ranks.push_back({member.value + step * span.grid->stride[dimension]});
      }
    }
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

GroupSpread RankLayout::spread(GroupKind kind, RankId rank, const NodeMap& nodes) const {
  GroupSpread spread;
  const std::vector<RankId> group = members(kind, rank);
  spread.size = static_cast<int>(group.size());
  spread.num_nodes = 0;
  spread.ranks_per_node = 0;
  // Members ascend, and so do their machines.
  NodeId node{-1};
  int on_node = 0;
  for (const RankId member : group) {
    if (const NodeId at = nodes.node_of(member); at != node) {
      node = at;
      ++spread.num_nodes;
      on_node = 0;
    }
    spread.ranks_per_node = std::max(spread.ranks_per_node, ++on_node);
  }
  std::set<RankId> leaders;
  const NodeMap::Ranks local = nodes.ranks_on(nodes.node_of(group.front()));
  const int last = std::min(local.last.value, num_ranks_);
  for (int value = local.first.value; value < last; ++value) {
    leaders.insert(leader(kind, {value}));
  }
  spread.groups_per_node = static_cast<int>(leaders.size());
  return spread;
}

bool RankLayout::nests(const Grid& grid, int block) const {
  const auto fits = [&](int edge) { return edge % block == 0 || block % edge == 0; };
  return fits(num_ranks_) && std::all_of(grid.stride.begin(), grid.stride.end(), fits);
}

std::vector<GroupSpread> RankLayout::spreads(GroupKind kind, int gpus_per_node) const {
  const Span span = span_of(kind);
  if (nests(*span.grid, gpus_per_node)) return {spread(kind, {0}, NodeMap(gpus_per_node))};
  // Groups repeat behind the outermost dimension that they extend over, machines as well.
  std::int64_t block = 1;
  for (int i = 0; i < span.num_dimensions; ++i) {
    const std::size_t dimension = index_of(span.dimensions[static_cast<std::size_t>(i)]);
    block =
        std::max(block, std::int64_t{span.grid->stride[dimension]} * span.grid->size[dimension]);
  }
  const std::int64_t period = std::lcm(block, std::int64_t{gpus_per_node});
  const int last = static_cast<int>(std::min<std::int64_t>(period, num_ranks_));
  std::vector<int> leave(static_cast<std::size_t>(last / gpus_per_node + 1));  // By machine.
  struct Group {
    GroupSpread spread;
    std::vector<int> machines;
  };
  std::vector<Group> groups;
  for (int rank = 0; rank < last; ++rank) {
    if (leader(kind, {rank}).value != rank) continue;
    Group group{.spread = {.size = 0, .num_nodes = 0, .ranks_per_node = 0}, .machines = {}};
    int on_node = 0;
    for (const RankId member : members(kind, {rank})) {
      const int machine = member.value / gpus_per_node;
      if (group.machines.empty() || group.machines.back() != machine) {
        group.machines.push_back(machine);
        on_node = 0;
      }
      ++group.spread.size;
      group.spread.ranks_per_node = std::max(group.spread.ranks_per_node, ++on_node);
    }
    group.spread.num_nodes = static_cast<int>(group.machines.size());
    if (!group.spread.inside_node()) {
      for (const int machine : group.machines) ++leave[static_cast<std::size_t>(machine)];
    }
    groups.push_back(std::move(group));
  }
  std::vector<GroupSpread> different;
  for (Group& group : groups) {
    GroupSpread& spread = group.spread;
    if (!spread.inside_node()) {
      for (const int machine : group.machines) {
        spread.groups_per_node =
            std::max(spread.groups_per_node, leave[static_cast<std::size_t>(machine)]);
      }
    }
    if (std::find(different.begin(), different.end(), spread) == different.end()) {
      different.push_back(spread);
    }
  }
  return different;
}

RankId RankLayout::next_stage_rank(RankId rank) const {
  RankCoordinates at = coordinates(rank);
  at.pipeline = (at.pipeline + 1) % dense_.size[index_of(ParallelDimension::Pipeline)];
  return rank_at(at);
}

bool RankLayout::next_stage_in_node(RankId rank, const NodeMap& nodes) const {
  return nodes.node_of(rank) == nodes.node_of(next_stage_rank(rank));
}

}  // namespace megatwin::model
