#include "model/rank_layout.h"

#include <gtest/gtest.h>

namespace megatwin::model {
namespace {

std::vector<int> values(const std::vector<RankId>& ranks) {
  std::vector<int> result;
  result.reserve(ranks.size());
  for (const RankId rank : ranks) result.push_back(rank.value);
  return result;
}

using Values = std::vector<int>;

// Megatron's own example: 16 GPUs, tensor 2, pipeline 4, data 2. Tensor groups are neighbours,
// data groups two apart, pipeline groups four apart.
TEST(RankLayout, MegatronExample) {
  const RankLayout layout(Plan{.tensor = 2, .pipeline = 4, .data = 2});
  EXPECT_EQ(values(layout.members(GroupKind::Tensor, {5})), (Values{4, 5}));
  EXPECT_EQ(values(layout.members(GroupKind::Data, {1})), (Values{1, 3}));
  EXPECT_EQ(values(layout.members(GroupKind::Pipeline, {6})), (Values{2, 6, 10, 14}));
  EXPECT_EQ(layout.next_stage_rank({15}), RankId{3});
}

// Tensor 2, context 2, data 2, pipeline 1: the dense gradient group runs over context and data.
TEST(RankLayout, DataGroupCoversContext) {
  const RankLayout layout(Plan{.tensor = 2, .context = 2, .data = 2});
  EXPECT_EQ(values(layout.members(GroupKind::Context, {0})), (Values{0, 2}));
  EXPECT_EQ(values(layout.members(GroupKind::Data, {0})), (Values{0, 2, 4, 6}));
  EXPECT_EQ(layout.group_size(GroupKind::Data), 4);
}

// Tensor 2, data 4, expert 4, expert tensor 1: experts lie over 4 neighbouring ranks, and each
// expert shard has 8/4 = 2 replicas four apart.
TEST(RankLayout, ExpertsHaveAGridOfTheirOwn) {
  const RankLayout layout(Plan{.tensor = 2, .expert = 4, .expert_tensor = 1, .data = 4});
  EXPECT_EQ(values(layout.members(GroupKind::Expert, {1})), (Values{0, 1, 2, 3}));
  EXPECT_EQ(values(layout.members(GroupKind::ExpertData, {1})), (Values{1, 5}));
  EXPECT_EQ(layout.group_size(GroupKind::ExpertTensor), 1);
}

TEST(RankLayout, CoordinatesInvert) {
  for (const char* order : {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "pp-dp-ep-cp-tp"}) {
    const RankLayout layout(
        Plan{.tensor = 2, .pipeline = 3, .context = 2, .data = 5, .rank_order = order});
    for (int rank = 0; rank < layout.num_ranks(); ++rank) {
      EXPECT_EQ(layout.rank_at(layout.coordinates({rank})), RankId{rank});
    }
  }
}

// Every group of a kind is found from each of its members, and together they cover all ranks.
TEST(RankLayout, GroupsPartitionTheRanks) {
  const RankLayout layout(Plan{
      .tensor = 2, .pipeline = 2, .context = 2, .expert = 4, .expert_tensor = 1, .data = 3 * 2});
  for (const GroupKind kind :
       {GroupKind::Tensor, GroupKind::Context, GroupKind::Expert, GroupKind::ExpertTensor,
        GroupKind::Data, GroupKind::ExpertData, GroupKind::Pipeline}) {
    for (int rank = 0; rank < layout.num_ranks(); ++rank) {
      const auto group = layout.members(kind, {rank});
      EXPECT_EQ(static_cast<int>(group.size()), layout.group_size(kind));
      EXPECT_EQ(group.front(), layout.leader(kind, {rank}));
      for (const RankId member : group) EXPECT_EQ(layout.leader(kind, member), group.front());
    }
  }
}

// Tensor 4 and data 4 on machines of 8: a tensor group is inside one of them, a data group has two
// ranks on each of two machines, and four data groups share a machine's NICs.
TEST(RankLayout, PlacementOverMachines) {
  const RankLayout layout(Plan{.tensor = 4, .data = 4});
  const NodeMap nodes(8);
  const GroupSpread tensor = layout.spread(GroupKind::Tensor, {5}, nodes);
  EXPECT_TRUE(tensor.inside_node());
  EXPECT_EQ(tensor.groups_per_node, 2);
  const GroupSpread data = layout.spread(GroupKind::Data, {0}, nodes);
  EXPECT_EQ(data.num_nodes, 2);
  EXPECT_EQ(data.ranks_per_node, 2);
  EXPECT_EQ(data.groups_per_node, 4);
}

// Stages of four ranks on machines of eight: 0 → 1 stays inside, 1 → 2 leaves.
TEST(RankLayout, NeighbouringStagesInOneMachine) {
  const RankLayout layout(Plan{.tensor = 4, .pipeline = 4});
  const NodeMap nodes(8);
  EXPECT_TRUE(layout.next_stage_in_node({0}, nodes));
  EXPECT_FALSE(layout.next_stage_in_node({4}, nodes));
}

// Two machines of 8 before three of 4: rank 16 opens the third, and a machine of the second kind.
TEST(RankLayout, MachinesOfTwoKinds) {
  Cluster cluster;
  cluster.groups.resize(2);
  cluster.groups[0].node.num_gpus = 8;
  cluster.groups[0].count = 2;
  cluster.groups[1].node.num_gpus = 4;
  cluster.groups[1].count = 3;
  const NodeMap nodes(cluster);
  EXPECT_EQ(nodes.node_of({15}), NodeId{1});
  EXPECT_EQ(nodes.node_of({16}), NodeId{2});
  EXPECT_EQ(nodes.node_of({20}), NodeId{3});
  EXPECT_EQ(nodes.ranks_on({3}).first, RankId{20});
  EXPECT_EQ(nodes.ranks_on({3}).size(), 4);
  EXPECT_EQ(nodes.kind_of({16}), 1);
}

TEST(RankLayout, OnlyPermutationsAreRankOrders) {
  EXPECT_TRUE(rank_order_from_text("tp-cp-ep-dp-pp"));
  for (const char* text : {"", "tp", "tp-cp-ep-dp", "tp-cp-ep-dp-dp", "tp-cp-ep-dp-xx",
                           "tp-cp-ep-dp-pp-", "tp-cp-ep-dp-pp-tp"}) {
    EXPECT_FALSE(rank_order_from_text(text)) << text;
  }
}

}  // namespace
}  // namespace megatwin::model
