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
  // Of a step's collectives of the kind, those that go fastest: what the busiest machine sends,
  // for experts one rank to another (model::busiest_part).
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
  // All bytes of the kind's collectives over all their time, in the terms of GroupAlgorithm::peak,
  // where `left` is left to them; zero: as much as they can use.
  model::BytesPerSecond mean(model::GroupKind kind, model::BytesPerSecond left = {}) const;

  // What is left to a group of the kind whose collectives take `factor` times as long where they go
  // fastest.
  model::BytesPerSecond left(model::GroupKind kind, double factor) const {
    return factor > 1 ? of(kind).peak / factor : model::BytesPerSecond{};
  }

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
