// By which of NCCL's algorithms the collectives of a job's groups run: the one that the closed form
// took for them, so that flows are of the algorithm that was priced.
#ifndef MEGATWIN_SIM_GROUP_ALGORITHM_H_
#define MEGATWIN_SIM_GROUP_ALGORITHM_H_

#include <array>

#include "model/job.h"
#include "model/program/job_program.h"
#include "model/units.h"
#include "sim/flow/collective_pattern.h"

namespace megatwin::sim {

struct GroupAlgorithm {
  PatternWish wish{.kind = model::CollectiveKind::AllGather};
  // What the closed form counts the busiest machine to send, as a part of the collective's bytes.
  double busiest = 0;
};

class GroupAlgorithms {
 public:
  GroupAlgorithms() = default;  // Rings everywhere.
  // Of each kind of group, the collective that moves most bytes in the program decides. Between PAT
  // and rings, which the closed form gives one bandwidth, NCCL's tuner does.
  GroupAlgorithms(const model::Job& job, const model::JobProgram& program);

  const GroupAlgorithm& of(model::GroupKind kind) const {
    return by_kind_[static_cast<std::size_t>(kind)];
  }

 private:
  std::array<GroupAlgorithm, 7> by_kind_;  // By GroupKind.
};

// At which rate the busiest machine of a group sends when the group's large collectives run alone,
// on one machine a rank: for rings their bus bandwidth. Nothing for a group of one.
model::BytesPerSecond group_rate(const model::Job& job, model::GroupKind kind,
                                 const GroupAlgorithm& algorithm);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_GROUP_ALGORITHM_H_
