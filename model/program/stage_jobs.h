// A job as its stages see it. In a cluster of several kinds of machines each stage of each replica
// is priced as if the whole job ran on its kind: the kind's GPU, profile, machine and precision,
// the stage's tensor size, the replica's number of micro-batches. Elsewhere a stage sees the job
// itself.
#ifndef MEGATWIN_MODEL_PROGRAM_STAGE_JOBS_H_
#define MEGATWIN_MODEL_PROGRAM_STAGE_JOBS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "model/job.h"
#include "model/stage_sites.h"

namespace megatwin::model {

// `job` with one group of its machines only: that group's profile, precision and attention kernel.
// The plan's sizes stay as they are.
Job on_group(const Job& job, int group);

class StageJobs {
 public:
  // Borrows the job. Requires: a legal plan.
  explicit StageJobs(const Job& job);

  // Stages that see the same have the same key.
  using Key = std::tuple<int, int, std::int64_t>;  // Kind, tensor size, micro-batches.
  Key key(int replica, int stage) const;
  // Lives as long as this object, or is the job itself.
  const Job& at(int replica, int stage);

  // Stages may differ in GPU or tensor size; then there are sites.
  bool mixed() const { return sites_.has_value(); }
  const StageSites& sites() const { return *sites_; }

 private:
  Job seen_by(int replica, int stage) const;

  const Job& job_;
  std::optional<StageSites> sites_;
  std::map<Key, std::unique_ptr<const Job>> jobs_;
};

// Replicas that cannot differ, each class in ascending order, classes by their first replica.
std::vector<std::vector<int>> replica_classes(const Job& job);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PROGRAM_STAGE_JOBS_H_
