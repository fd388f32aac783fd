// NCCL's algorithms as patterns: which share of a collective's bytes goes over which way, all of it
// at once, as pieces are pipelined. collective_flows.h makes flows of them; the step's groups are
// laid out by them (group_lanes.h).
#ifndef MEGATWIN_SIM_FLOW_COLLECTIVE_PATTERN_H_
#define MEGATWIN_SIM_FLOW_COLLECTIVE_PATTERN_H_

#include <optional>
#include <span>
#include <vector>

#include "model/micro_op.h"
#include "model/nccl_tuning.h"
#include "model/result.h"
#include "model/topology/reduction_tree.h"
#include "model/topology/router.h"

namespace megatwin::sim {

// The members of a communicator in rank order: those of one machine stand together.
struct CommunicatorRanks {
  std::vector<model::RankId> ranks;
  // Rings or pairs of trees at once, each with its part of the bytes; ring c enters and leaves each
  // machine by the adapter of its c-th member. 0: one for each member of the smallest machine.
  int channels = 0;
  model::Seconds step;  // Beyond the links' own latency, for each message.
};

// One way that bytes take.
struct Stream {
  enum class Way {
    Between,     // From a GPU to another.
    ToSwitch,    // From a GPU to the NVSwitch of its machine, which adds or copies.
    FromSwitch,  // Back.
    TreeUp,      // A member's part of a tree of switches between machines: reduction_tree.h.
    TreeDown
  };
  Way way = Way::Between;
  model::RankId from, to;  // One and the same but for Between.
  int channel = 0;
  double share = 0;  // Of the collective's bytes.
  int member = 0;    // TreeUp and TreeDown: which of the channel's heads.
};

struct CollectivePattern {
  std::vector<Stream> streams;
  // By channel, for TreeUp and TreeDown: the member of each machine that speaks for it.
  std::vector<std::vector<model::RankId>> tree_heads;
  int channels = 1;
  int steps = 0;          // Messages that follow each other before the last one arrives …
  int network_steps = 0;  // … of which by Between, each with the latency of its way.
  int machines = 1;       // That the group touches.
  // What the busiest machine sends to others, or, on one machine, the busiest GPU.
  double busiest = 0;
};

// Tree: chains inside the machines and two binary trees over them, each with half of the bytes; up
//   and down at once. Source: Sanders, Speck, Träff, Parallel Computing 35(12) 2009; NVIDIA/nccl
//   v2.30.7, src/graph/trees.cc.
// Nvls: every rank's bytes to the NVSwitch of its machine, which adds, and the sum back.
// NvlsTree: that inside each machine, for each channel to and from one member, and two binary trees
//   over these members.
// CollNetDirect: the same with one tree of switches (SHARP) over the members instead; where the
//   machine's switch cannot add (`multicast` false) by direct sends inside. Source: NVIDIA/nccl
//   v2.30.7, src/transport/nvls.cc and coll_net.cc.
// Pat: of one rank a machine: to the rank 2^k further on, what of the blocks goes there, farthest
//   first. Source: NVIDIA/nccl v2.23, "PAT"; a block's rank r + x has it from r + x less the lowest
//   bit of x.
// Ring: every rank to the next in each of its rings.
// Errors: an algorithm that does not do this kind of collective, or not on these machines.
struct PatternWish {
  model::CollectiveKind kind = model::CollectiveKind::AllReduce;
  model::CollectiveAlgorithm algorithm = model::CollectiveAlgorithm::Ring;
  bool multicast = true;  // NVSwitches add and copy: Hopper and later.
};
model::Result<CollectivePattern> collective_pattern(const model::Topology& topology,
                                                    const CommunicatorRanks& group,
                                                    const PatternWish& wish);

// The ways of a pattern's streams over a graph, in their order, and the latency of one step: the
// slowest stream's, with that of a tree of switches as a whole.
class PatternRoutes {
 public:
  PatternRoutes(model::Router& router, const CollectivePattern& pattern)
      : router_(router), pattern_(pattern) {}
  // `adapter` as in FlowKey. Errors: no way; a GPU without an NVSwitch to add in.
  model::Result<model::Route> route(const Stream& stream, int adapter = 0);
  // Of the trees of switches; nothing without.
  model::Result<model::Seconds> tree_latency();

 private:
  model::Result<const model::ReductionTree*> tree(int channel, int adapter);
  model::Result<model::Route> inside(const Stream& stream) const;

  model::Router& router_;
  const CollectivePattern& pattern_;
  std::vector<std::vector<std::optional<model::ReductionTree>>> trees_;  // By channel, adapter.
};

// The edges of every ring of a communicator, ring by ring; see CommunicatorRanks::channels.
struct RingEdge {
  model::RankId from, to;
  int channel = 0;
};
struct Rings {
  int channels = 1;
  std::vector<RingEdge> edges;
};
Rings rings_of(const model::Topology& topology, const CommunicatorRanks& group);

// The parent of each machine in NCCL's binary tree over `count` of them, −1 for the root; `second`
// is the other tree, in which leaves of the first stand inside.
std::vector<int> binary_tree(int count, bool second);

// The members by machine, in order.
using MachineRanks = std::vector<std::vector<model::RankId>>;
MachineRanks by_machine(const model::Topology& topology, const CommunicatorRanks& group);
// As CommunicatorRanks::channels says.
int num_channels(const CommunicatorRanks& group, const MachineRanks& machines);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_FLOW_COLLECTIVE_PATTERN_H_
