// A tree of switches in which the network itself adds up what its leaves send and gives the sum
// back, as SHARP does: every member sends once up to its switch, switches send one sum each up to
// the root, and the result goes down the same tree, copied where it forks. Each cable of the tree
// carries the bytes once each way.
// Source: Graham et al., "Scalable Hierarchical Aggregation Protocol (SHARP)", COMHPC 2016, §II.
#ifndef MEGATWIN_MODEL_TOPOLOGY_REDUCTION_TREE_H_
#define MEGATWIN_MODEL_TOPOLOGY_REDUCTION_TREE_H_

#include <vector>

#include "model/result.h"
#include "model/topology/router.h"

namespace megatwin::model {

struct ReductionTree {
  VertexId root;
  // The cables of the tree dealt to its members, so that each is in one way up and one way down:
  // the first member under a switch has what joins the switch to the one above it.
  struct Ways {
    Route up, down;  // From the GPU towards the root; from there to the GPU.
  };
  std::vector<Ways> members;  // In the order in which they were given.
  Seconds latency;            // From the farthest member to the root and down to the farthest.
};

struct TreeMembers {
  std::vector<RankId> ranks;  // GPUs of several machines, one each.
  int adapter = 0;            // As in FlowKey.
};

// A member goes up by the adapter that Router::uplink() gives it, whatever the others' rails, and
// down the same way. The root is a switch from which the farthest member is nearest, then all of
// them; of several such, by the first rank in turn, so that trees spread over the spines.
// Deterministic.
// Errors: fewer than two machines, or two members on one; a rank that is not there; a member
// without an adapter that is up; members that no cables join.
Result<ReductionTree> reduction_tree(Router& router, const TreeMembers& members);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_TOPOLOGY_REDUCTION_TREE_H_
