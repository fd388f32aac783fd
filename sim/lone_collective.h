// One collective alone on the network of a job's cluster, by an algorithm of choice: every pattern
// of flow/, run and looked at. What disturbs the job's links disturbs it, too.
#ifndef MEGATWIN_SIM_LONE_COLLECTIVE_H_
#define MEGATWIN_SIM_LONE_COLLECTIVE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/collective_cost.h"
#include "model/ids.h"
#include "model/job.h"
#include "model/result.h"
#include "model/units.h"

namespace megatwin::sim {

// ring, tree, nvls, nvls-tree, sharp, pat: collective_pattern.h. hierarchical, direct, pairwise:
// collective_flows.h. auto: what the closed form takes.
const std::vector<std::string>& lone_algorithm_names();

struct LoneCollective {
  model::CollectiveKind kind = model::CollectiveKind::AllReduce;
  model::Bytes bytes;                // As nccl-tests prints it.
  std::vector<model::RankId> ranks;  // Those of one machine stand together.
  std::string algorithm = "auto";    // One of lone_algorithm_names().
  // All-to-all only: what rank i sends to rank j, in any unit; the mean of the rows is `bytes`.
  // Empty: all alike.
  std::vector<std::vector<double>> tokens;
};

struct LoneResult {
  std::string algorithm;
  // By bandwidth and latency of the links, without what NCCL's kernels add to a step.
  model::Seconds time;
  model::BytesPerSecond busbw;
  model::CollectiveTime closed_form;  // With NCCL's own choice; nothing of uneven tokens in it.
  int ranks = 0, machines = 0;
  std::int64_t flows = 0;
  struct Busy {
    std::string link;
    model::Bytes carried;
    model::BytesPerSecond bandwidth;
    double fraction = 0;  // Of the time at the link's bandwidth.
  };
  std::vector<Busy> links;  // The busiest first, at most eight.
};

// Errors: ranks that are not there or fewer than two, an algorithm that does not do this, no route;
// what the FlowNet refuses.
model::Result<LoneResult> run_lone_collective(const model::Job& job, const LoneCollective& wish);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_LONE_COLLECTIVE_H_
