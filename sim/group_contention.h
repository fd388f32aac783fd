// How much slower the collectives of a job's groups are on the real placement than their closed
// form says, when all groups that run at the same time do, with bytes flowing. 1 where links
// suffice.
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
  // How many times as long bytes take that flow at GroupAlgorithm::peak. Inside
  // tasks, by unit (data-parallel replica · p + stage): of its slowest group, each at least 1. An
  // expert group has members in several replicas, all of which wait for it.
  std::vector<double> tensor, context, expert, expert_tensor;
  // By stage: its groups join all replicas. Dense and expert weights alike, at least 1.
  std::vector<double> data;
  std::vector<LinkLoad> links;  // The worst first, a few of each kind.
  std::vector<bool> used;       // By link of the topology: whether any group sends there.
};

// Tensor, context, expert and expert-tensor groups of all stages talk at once, as every micro-batch
// makes them; the data-parallel groups of one stage do so among themselves. By the algorithms that
// were priced, and all-to-all for experts. Errors: no route; what the FlowNet refuses.
model::Result<GroupContention> group_contention(const model::Job& job, JobNetwork& network,
                                                const FlowNet& net,
                                                const GroupAlgorithms& algorithms);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_GROUP_CONTENTION_H_
