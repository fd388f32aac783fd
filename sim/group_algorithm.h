// By which of NCCL's algorithms the collectives of a job's groups run, and how fast: those that the
// closed form took for them, so that flows are of what was priced.
#ifndef MEGATWIN_SIM_GROUP_ALGORITHM_H_
#define MEGATWIN_SIM_GROUP_ALGORITHM_H_

#include <array>
#include <vector>

#include "model/job.h"
#include "model/link_share.h"
#include "model/program/job_program.h"
#include "model/units.h"
#include "sim/flow/collective_pattern.h"

namespace megatwin::sim {

struct GroupAlgorithm {
  PatternWish wish{.kind = model::CollectiveKind::AllGather};
  // What the closed form counts the busiest machine to send, as a part of the collective's bytes.
  double busiest = 0;
  // While bytes flow, of the kind's collectives the fastest: what the busiest machine sends, for
  // experts one rank to another (model::flowing_rate).
  model::BytesPerSecond peak;
};

class GroupAlgorithms {
 public:
  // Of each kind of group, the collective that moves most bytes in the program decides. Between PAT
  // and rings, which the closed form gives one bandwidth, NCCL's tuner does.
  GroupAlgorithms(const model::Job& job, const model::JobProgram& program);

  // Without a rate where the job has no such groups.
  const GroupAlgorithm& of(model::GroupKind kind) const {
    return by_kind_[static_cast<std::size_t>(kind)];
  }
  // Of a group of the kind whose bytes take `factor` times as long.
  model::LinkShare share(model::GroupKind kind, double factor) const {
    const model::BytesPerSecond alone = of(kind).peak;
    return {alone, factor > 1 ? alone / factor : model::BytesPerSecond{}};
  }
  // All bytes of the kind's collectives over all their time, with that share of links.
  model::BytesPerSecond mean(model::GroupKind kind, double factor = 1) const;
  // The part of that time in which bytes flow; 1 where there are none.
  double flowing_part(model::GroupKind kind, double factor) const;

 private:
  struct Call {
    model::Bytes busiest;  // Of the busiest machine.
    model::Seconds alone;
    double count = 0;
  };
  std::array<GroupAlgorithm, 7> by_kind_;  // By GroupKind.
  std::array<std::vector<Call>, 7> calls_;
};

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_GROUP_ALGORITHM_H_
