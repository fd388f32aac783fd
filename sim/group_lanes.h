// Which ways a collective of a group takes over the network of a job, and how fast each when alone:
// the form in which groups that share links are laid out.
#ifndef MEGATWIN_SIM_GROUP_LANES_H_
#define MEGATWIN_SIM_GROUP_LANES_H_

#include <functional>
#include <vector>

#include "model/all_to_all_load.h"
#include "model/rank_layout.h"
#include "model/topology/router.h"
#include "model/units.h"
#include "sim/flow/capped_ways.h"
#include "sim/flow/collective_pattern.h"
#include "sim/group_algorithm.h"
#include "sim/job_network.h"

namespace megatwin::sim {

struct GroupLane {
  model::FlowKey key;
  model::BytesPerSecond rate;
  Stream::Way way = Stream::Way::Between;
  int member = 0;  // As in Stream.
};

// Whether the members are on several machines, or on one that is not as it should be.
bool uses_network(const JobNetwork& network, const std::vector<model::RankId>& members);

// The same in any stretch of the step.
bool uses_network(ChangingNetwork& network, const std::vector<model::RankId>& members);

// The streams of a group's collectives, which the busiest machine sends at `rate` together when
// alone: rings over every way, trees, sums in switches.
struct GroupLanes {
  CollectivePattern pattern;  // Without streams for rings.
  std::vector<GroupLane> lanes;
  // What the busiest machine really sends over what the closed form counts, at least 1: lanes are
  // so much slower than `rate`.
  double denser = 1;
};
// Errors: as collective_pattern().
model::Result<GroupLanes> group_lanes(const JobNetwork& network,
                                      const std::vector<model::RankId>& members,
                                      const GroupAlgorithm& algorithm, model::BytesPerSecond rate);

// The ways of one group's lanes. Keeps trees of switches that it found; borrows both.
class LaneRoutes {
 public:
  LaneRoutes(JobNetwork& network, const CollectivePattern& pattern)
      : network_(network),
        disturbed_(network.router(), pattern),
        pristine_(network.pristine_router(), pattern) {}
  // Errors: no route.
  model::Result<JobNetwork::Way> way(const GroupLane& lane);

 private:
  JobNetwork& network_;
  PatternRoutes disturbed_, pristine_;
};

// The same for each stretch of the step.
class ChangingLaneRoutes {
 public:
  ChangingLaneRoutes(ChangingNetwork& network, const CollectivePattern& pattern);
  // The way of a user in each stretch, and how fast it is there when alone: `rate`, but no faster
  // than the way's narrowest link would let it without disturbances. Errors: no route.
  model::Result<std::vector<CappedWays::Way>> ways(
      const GroupLane& lane, const std::function<model::BytesPerSecond(std::size_t stretch)>& rate);

 private:
  ChangingNetwork& network_;
  std::vector<LaneRoutes> routes_;  // By stretch; those of equal networks stay unused.
};

// The edges of the group's rings, which move at `bus` together.
std::vector<GroupLane> ring_lanes(const JobNetwork& network,
                                  const std::vector<model::RankId>& members,
                                  model::BytesPerSecond bus);

// How many times the mean of an expert group's pairs each pair sends, [from][to]; empty: all alike.
using PairWeights = model::PairWeights;

// All-to-all: every pair on two machines, each at its weight times `pair`.
std::vector<GroupLane> pair_lanes(const JobNetwork& network,
                                  const std::vector<model::RankId>& members,
                                  model::BytesPerSecond pair, const PairWeights& weights = {});

// The same traffic with the ranks of a machine in one: all that a machine sends to a rank elsewhere
// leaves by the GPU on that rank's rail, as PXN has it. Loads every adapter as the pairs do, and
// spines but for the hash of each pair.
std::vector<GroupLane> rail_lanes(const JobNetwork& network,
                                  const std::vector<model::RankId>& members,
                                  model::BytesPerSecond pair, const PairWeights& weights = {});

// The same traffic in one lane a rank: all that it sends to other machines, to one member there.
// Loads each adapter as the pairs do, in both directions, where machines hold equal parts and pairs
// are alike.
std::vector<GroupLane> shifted_lanes(const JobNetwork& network,
                                     const std::vector<model::RankId>& members,
                                     model::BytesPerSecond pair);

// Of an expert group of the job: uneven where a disturbance or the plan says so, over the load of
// the busiest rank, which the closed form prices.
PairWeights pair_weights(const model::Job& job);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_GROUP_LANES_H_
