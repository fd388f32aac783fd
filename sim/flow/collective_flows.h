// NCCL's algorithms as flows over a topology: which bytes go from GPU to GPU, over which links, in
// which order. Steps of a ring are all alike, so that one flow an edge stands for all of them; what
// their latencies add up to is paid once. Answers are lower bounds by bandwidth and latency of the
// links; what NCCL's kernels add to each step comes in by `step`.
#ifndef MEGATWIN_SIM_FLOW_COLLECTIVE_FLOWS_H_
#define MEGATWIN_SIM_FLOW_COLLECTIVE_FLOWS_H_

#include <vector>

#include "model/result.h"
#include "model/topology/router.h"
#include "sim/flow/collective_pattern.h"
#include "sim/flow/flow_set.h"

namespace megatwin::sim {

// Adds the flows of one collective to a set, all of them after `after`.
class CollectiveFlows {
 public:
  // The set must have been made from the router's topology.
  CollectiveFlows(model::Router& router, FlowSet& flows) : router_(router), flows_(flows) {}

  // Each gives one flow of no size that ends when the collective does. `bytes` as nccl-tests prints
  // them: the whole buffer. A group of one is done at once.
  // Errors: a rank that the topology does not have; ranks that no cable joins.
  using Done = model::Result<FlowIndex>;

  // 2(n−1)/n · bytes over each edge, after 2(n−1) steps of the slowest edge's latency.
  Done ring_all_reduce(const CommunicatorRanks& group, model::Bytes bytes,
                       std::vector<FlowIndex> after = {});
  // Half of that: all-gather and reduce-scatter.
  Done ring_all_gather(const CommunicatorRanks& group, model::Bytes bytes,
                       std::vector<FlowIndex> after = {});
  // Any algorithm of collective_pattern.h: every stream of its pattern is a flow, all at once,
  // after the latencies of its steps. Errors: as collective_pattern() and PatternRoutes have them.
  Done by_algorithm(const CommunicatorRanks& group, model::Bytes bytes, const PatternWish& wish,
                    std::vector<FlowIndex> after = {});
  // Two binary trees over the machines, chains inside them.
  Done tree_all_reduce(const CommunicatorRanks& group, model::Bytes bytes,
                       std::vector<FlowIndex> after = {});
  // Reduce-scatter inside each machine, all-reduce along each rail, all-gather inside.
  // Errors: machines with unlike numbers of members.
  Done hierarchical_all_reduce(const CommunicatorRanks& group, model::Bytes bytes,
                               std::vector<FlowIndex> after = {});
  // Every rank sends bytes/n to every other. At once: all flows start together; else in rounds, the
  // r-th to the rank r further on, as pairwise exchange does it.
  struct AllToAll {
    bool rounds = false;
  };
  Done all_to_all(const CommunicatorRanks& group, model::Bytes bytes, AllToAll how,
                  std::vector<FlowIndex> after = {});
  // From i to j, sent[i][j] bytes: tokens that a router of experts spread unevenly.
  Done all_to_all(const CommunicatorRanks& group,
                  const std::vector<std::vector<model::Bytes>>& sent,
                  std::vector<FlowIndex> after = {});
  // The same with all that a machine sends to a rank elsewhere as one flow, from the GPU beside the
  // destination's adapter, as PXN has it; inside machines pair by pair. Adapters carry the same,
  // spines but for the hash of each pair; the way over NVLink to that GPU is left out. `sent`
  // empty: bytes/n a pair. Requires: machines with NVLink.
  Done all_to_all_by_machines(const CommunicatorRanks& group, model::Bytes bytes,
                              const std::vector<std::vector<model::Bytes>>& sent,
                              std::vector<FlowIndex> after = {});
  // The switches between machines add (SHARP): of each machine one member a channel sends its part
  // once and receives the sum once. Inside the machines by NVSwitches that add, or by direct sends.
  // Errors: ranks of one machine.
  Done sharp_all_reduce(const CommunicatorRanks& group, model::Bytes bytes, bool multicast,
                        std::vector<FlowIndex> after = {});
  // Every rank sends its bytes to the NVSwitch of its machine, which adds, and receives the sum.
  // Errors: ranks of several machines, or without an NVSwitch.
  Done nvls_all_reduce(const CommunicatorRanks& group, model::Bytes bytes,
                       std::vector<FlowIndex> after = {});

 private:
  struct Edge {
    model::RankId from, to;
    model::Bytes bytes;
    int channel = 0;
  };
  // Flows along the edges, each after `steps` latencies of the slowest edge of its channel.
  model::Result<std::vector<FlowIndex>> along(const std::vector<Edge>& edges, int steps,
                                              model::Seconds step,
                                              const std::vector<FlowIndex>& after);
  // One message of these bytes, unless it has none or stays on its rank.
  model::Result<bool> add_message(const Edge& message, model::Seconds step,
                                  const std::vector<FlowIndex>& after,
                                  std::vector<FlowIndex>& added);
  Done ring(const CommunicatorRanks& group, model::Bytes per_edge, int steps,
            std::vector<FlowIndex> after);
  FlowIndex barrier(std::vector<FlowIndex> after);
  // Into how many equal parts bytes to another machine are dealt, with a FlowKey::adapter each, so
  // that they come out even over the adapters that either GPU has to itself.
  int lanes(model::RankId from, model::RankId to) const;
  int lanes_of(const Stream& stream) const;
  // The GPU of `near`'s machine that leaves by an adapter of the same number as `to`'s; else
  // `near`.
  model::RankId beside_adapter_of(model::RankId to, model::RankId near);

  model::Router& router_;
  FlowSet& flows_;
};

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_FLOW_COLLECTIVE_FLOWS_H_
