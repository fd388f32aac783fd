// Where every rank stands: its coordinates in the parallel dimensions, the members of its groups,
// and how the groups lie over machines. Ranks are numbered as Megatron-LM does: the dimensions of
// the rank order from fastest to slowest. Experts have a grid of their own over the same ranks of
// a pipeline stage: expert-tensor × expert × expert-data takes the place of
// tensor × context × data.
#ifndef MEGATWIN_MODEL_RANK_LAYOUT_H_
#define MEGATWIN_MODEL_RANK_LAYOUT_H_

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "model/hardware.h"
#include "model/ids.h"
#include "model/micro_op.h"
#include "model/plan.h"

namespace megatwin::model {

enum class ParallelDimension { Tensor, Context, Expert, Data, Pipeline };
using RankOrder = std::array<ParallelDimension, 5>;

// "tp-cp-ep-dp-pp", fastest first, each once; nothing else is a rank order.
std::optional<RankOrder> rank_order_from_text(std::string_view text);

struct RankCoordinates {
  int tensor = 0, context = 0, data = 0, pipeline = 0;
  int expert_tensor = 0, expert = 0, expert_data = 0;
  friend bool operator==(const RankCoordinates&, const RankCoordinates&) = default;
};

// Which machine a rank is on when ranks fill the cluster's machines in order.
class NodeMap {
 public:
  explicit NodeMap(const Cluster& cluster);
  // Equal machines, as many as needed.
  explicit NodeMap(int gpus_per_node);

  NodeId node_of(RankId rank) const;
  // Ranks [first, last) of a machine.
  struct Ranks {
    RankId first, last;
    int size() const { return last.value - first.value; }
  };
  Ranks ranks_on(NodeId node) const;
  // Index into Cluster::groups: which kind of machine the rank is on.
  int kind_of(RankId rank) const;

 private:
  struct Run {
    int first_rank = 0, first_node = 0, gpus_per_node = 1;
  };
  const Run& run_of_rank(RankId rank) const;
  std::vector<Run> runs_;
};

// How one group lies over machines.
struct GroupSpread {
  int size = 1;
  int num_nodes = 1;
  int ranks_per_node = 1;  // On the fullest machine.
  // Groups of the same kind with members on the first member's machine: that many share its NICs
  // when they talk at once.
  int groups_per_node = 1;
  bool inside_node() const { return num_nodes == 1; }
  friend bool operator==(const GroupSpread&, const GroupSpread&) = default;
};

class RankLayout {
 public:
  // Requires: sizes of at least 1, a legal rank order, and expert-tensor × expert dividing
  // tensor × context × data (plan_check.h says so in words).
  explicit RankLayout(const Plan& plan);

  int num_ranks() const { return num_ranks_; }
  RankCoordinates coordinates(RankId rank) const;
  // The rank at tensor, context, data and pipeline; the expert coordinates are not read.
  RankId rank_at(const RankCoordinates& coordinates) const;

  int group_size(GroupKind kind) const;
  // The group of `rank`, itself included, in ascending rank. GroupKind::Data holds the ranks with
  // the same dense weights, over data × context; GroupKind::ExpertData those with the same experts.
  std::vector<RankId> members(GroupKind kind, RankId rank) const;
  // The smallest rank of the group: its name among groups of the kind.
  RankId leader(GroupKind kind, RankId rank) const;
  // From the smallest rank of a group to the largest: the same for all groups of a kind.
  int extent(GroupKind kind) const;
  // Whether a group of the kind has members on both sides of a multiple of `block` ranks.
  bool crosses(GroupKind kind, int block) const;

  GroupSpread spread(GroupKind kind, RankId rank, const NodeMap& nodes) const;
  // The different ways in which groups of the kind lie over machines of so many GPUs: one, unless
  // machines and groups do not nest. Of groups that leave a machine, only such share its NICs.
  std::vector<GroupSpread> spreads(GroupKind kind, int gpus_per_node) const;

  // The rank at the next pipeline stage (the first after the last one).
  RankId next_stage_rank(RankId rank) const;
  bool next_stage_in_node(RankId rank, const NodeMap& nodes) const;

 private:
  // One grid over all ranks: size and stride of each dimension, by ParallelDimension.
  struct Grid {
    std::array<int, 5> size{};
    std::array<int, 5> stride{};
  };
  Grid make_grid(const std::array<int, 5>& sizes, const RankOrder& order) const;
  // Dimensions along which a group's members differ, and the grid they are of.
  struct Span {
    const Grid* grid = nullptr;
    std::array<ParallelDimension, 2> dimensions{};
    int num_dimensions = 1;
  };
  Span span_of(GroupKind kind) const;
  // Whether blocks of so many ranks cut every group of the grid alike.
  bool nests(const Grid& grid, int block) const;

  Grid dense_;
  Grid expert_;
  int num_ranks_ = 1;
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_RANK_LAYOUT_H_
