// How much slower the collectives of a job's groups are on the real placement than their closed
// form says, when all groups that run at the same time do. 1 where links suffice.
#ifndef MEGATWIN_SIM_GROUP_CONTENTION_H_
#define MEGATWIN_SIM_GROUP_CONTENTION_H_

#include <array>
#include <vector>

#include "sim/flow/capped_ways.h"
#include "sim/flow/flow_net.h"
#include "sim/group_algorithm.h"
#include "sim/job_network.h"

namespace megatwin::sim {

struct GroupContention {
  // Inside tasks, by unit (data-parallel replica · p + stage): of its slowest group, each at
  // least 1. An expert group has members in several replicas, all of which wait for it.
  std::vector<double> tensor, context, expert;
  // By stage: its groups join all replicas. Dense and expert weights alike, at least 1.
  std::vector<double> data;
  std::vector<LinkLoad> links;  // Of the kind that lost most, the worst first.
  std::vector<bool> used;       // By link of the topology: whether any group sends there.
};

// Tensor, context and expert groups of all stages talk at once, as every micro-batch makes them;
// the data-parallel groups of one stage do so among themselves. By the algorithms that were priced,
// and all-to-all for experts.
// Errors: no route; what the FlowNet refuses.
model::Result<GroupContention> group_contention(const model::Job& job, JobNetwork& network,
                                                const FlowNet& net,
                                                const GroupAlgorithms& algorithms = {});

// What a ring of this group's kind reaches alone: its bus bandwidth for large messages.
model::BytesPerSecond ring_rate(const model::Job& job, model::GroupKind kind);
// What the mean pair of an expert group's ranks reaches in an all-to-all of all of them, alone; by
// the job's table of tokens where there is one.
model::BytesPerSecond all_to_all_rate(const model::Job& job);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_GROUP_CONTENTION_H_
