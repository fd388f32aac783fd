// Where every stage of every replica stands when a cluster has machines of several kinds: ranks
// fill the machines in the order of the groups, so that the order of the groups and the rank order
// of the plan place stages (pp slowest) or replicas (dp slowest) on kinds. Pure arithmetic, no
// state.
#ifndef MEGATWIN_MODEL_STAGE_SITES_H_
#define MEGATWIN_MODEL_STAGE_SITES_H_

#include <optional>
#include <string>
#include <vector>

#include "model/hardware.h"
#include "model/plan.h"
#include "model/rank_layout.h"

namespace megatwin::model {

struct StageSite {
  int kind = 0;  // Index into Cluster::groups, the first of equal groups.
  RankId first;  // The rank at tensor 0 and context 0.
  friend bool operator==(const StageSite&, const StageSite&) = default;
};

// Index of the first group with the same GPU and machine, by group.
std::vector<int> kinds_of_groups(const Cluster& cluster);

// Whether the groups differ in GPU or machine.
bool is_mixed(const Cluster& cluster);

class StageSites {
 public:
  // Requires: a legal rank order and sizes of at least 1. Borrows nothing.
  StageSites(const Plan& plan, const Cluster& cluster);

  StageSite site(int replica, int stage) const;
  RankId rank(int replica, int stage, int tensor, int context) const;
  const NodeMap& nodes() const { return nodes_; }

  // The kind of every rank of a stage of a replica, or nothing when they are of several.
  std::optional<int> kind(int replica, int stage) const;

  // Ranks of `stage` on the machine of `rank`.
  int ranks_of_stage_on_node(RankId rank, int stage) const;
  int stage_of(RankId rank) const;

  // Kinds that the replicas of a stage stand on, ascending.
  std::vector<int> kinds_of_stage(int stage) const;

 private:
  int num_replicas_, num_stages_, context_;
  std::vector<int> tensor_;           // One a stage.
  std::vector<int> first_rank_;       // With tensor sizes of its own each stage begins here.
  std::optional<RankLayout> layout_;  // Without.
  int stage_stride_ = 1;              // From a rank to its next stage there.
  NodeMap nodes_;
  std::vector<int> kinds_;  // By group.
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_STAGE_SITES_H_
