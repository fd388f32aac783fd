// One collective alone on the network of a job's cluster, by an algorithm of choice: every pattern
// of flow/, run and looked at. What disturbs the job's links disturbs it, too.
#ifndef MEGATWIN_SIM_LONE_COLLECTIVE_H_
#define MEGATWIN_SIM_LONE_COLLECTIVE_H_

#include <cstdint>
#include <optional>
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
  model::Bytes bytes;  // As nccl-tests prints it; a byte or more.
  // Each once; those of one machine stand together.
  std::vector<model::RankId> ranks;
  std::string algorithm = "auto";  // One of lone_algorithm_names().
  // All-to-all only: what rank i sends to rank j, in any unit; the mean of the rows is `bytes`.
  // Empty: all alike. Requires: not only zeros.
  std::vector<std::vector<double>> tokens;
};

// An all-to-all of more flows than this, one a pair, is laid out by machines: one flow for all that
// a machine sends to a rank elsewhere. Of more flows than kMachineFlowsMax it is refused.
inline constexpr std::int64_t kLonePairFlowsMax = std::int64_t{1} << 20;
inline constexpr std::int64_t kMachineFlowsMax = std::int64_t{1} << 22;

struct LoneResult {
  std::string algorithm;
  // By bandwidth and latency of the links, without what NCCL's kernels add to a step. Nothing where
  // a table of tokens lets nothing leave a rank.
  model::Seconds time;
  // By what leaves a rank in the mean; not there where nothing does.
  std::optional<model::BytesPerSecond> busbw, closed_form_busbw;
  // With NCCL's own choice, on the adapters that the ranks have as their own, of the table's pairs.
  model::CollectiveTime closed_form;
  int ranks = 0, machines = 0;
  std::int64_t flows = 0;
  bool by_machines = false;           // See kLonePairFlowsMax.
  std::vector<std::string> warnings;  // What the network does not have or the answer not count.
  struct Busy {
    std::string link;
    model::Bytes carried;
    model::BytesPerSecond bandwidth;
    double fraction = 0;  // Of the time at the link's bandwidth.
  };
  std::vector<Busy> links;  // The busiest first, at most eight.
};

// Errors: ranks that are not there, twice there, not together or fewer than two, an algorithm that
// does not do this, more flows than kMachineFlowsMax, no route; what the FlowNet refuses.
model::Result<LoneResult> run_lone_collective(const model::Job& job, const LoneCollective& wish);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_LONE_COLLECTIVE_H_
