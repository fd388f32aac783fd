// Which ways a collective of a group takes over the network of a job, and how fast each when alone:
// the form in which groups that share links are laid out.
#ifndef MEGATWIN_SIM_GROUP_LANES_H_
#define MEGATWIN_SIM_GROUP_LANES_H_

#include <functional>
#include <vector>

#include "model/rank_layout.h"
#include "model/topology/router.h"
#include "model/units.h"
#include "sim/flow/capped_ways.h"
#include "sim/job_network.h"

namespace megatwin::sim {

struct GroupLane {
  model::FlowKey key;
  model::BytesPerSecond rate;
};

// Whether the members are on several machines, or on one that is not as it should be.
bool uses_network(const JobNetwork& network, const std::vector<model::RankId>& members);

// The same in any stretch of the step.
bool uses_network(ChangingNetwork& network, const std::vector<model::RankId>& members);

// The way of a user in each stretch, and how fast it is there when alone: `rate`, but no faster
// than the way's narrowest link would let it without disturbances. Errors: no route.
model::Result<std::vector<CappedWays::Way>> ways_of(
    ChangingNetwork& network, const model::FlowKey& key,
    const std::function<model::BytesPerSecond(std::size_t stretch)>& rate);

// The edges of the group's rings, which move at `bus` together.
std::vector<GroupLane> ring_lanes(const JobNetwork& network,
                                  const std::vector<model::RankId>& members,
                                  model::BytesPerSecond bus);

// All-to-all: every pair on two machines, each at `pair`.
std::vector<GroupLane> pair_lanes(const JobNetwork& network,
                                  const std::vector<model::RankId>& members,
                                  model::BytesPerSecond pair);

// The same traffic in one lane a rank: all that it sends to other machines, to one member there.
// Loads each adapter as the pairs do, in both directions, where machines hold equal parts.
std::vector<GroupLane> shifted_lanes(const JobNetwork& network,
                                     const std::vector<model::RankId>& members,
                                     model::BytesPerSecond pair);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_GROUP_LANES_H_
