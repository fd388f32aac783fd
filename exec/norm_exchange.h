// The norm of all gradients of a run, for clipping. Every rank brings its parts after its
// reductions; when the last one has, the norm is there for all. Parts are summed by name, so that
// the norm does not depend on which stage holds what.
#ifndef MEGATWIN_EXEC_NORM_EXCHANGE_H_
#define MEGATWIN_EXEC_NORM_EXCHANGE_H_

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "exec/host_world.h"
#include "exec/rank_model.h"

namespace megatwin::exec {

class NormExchange {
 public:
  // The world is borrowed.
  explicit NormExchange(HostWorld& world) : world_(world) {}

  // Once a rank and step; wakes all ranks when the last has come.
  void join(model::RankId rank, const std::vector<RankModel::NormPart>& parts);
  // The norm, when all have joined.
  std::optional<double> norm() const;
  // Forgets the step. By one rank, while no other is inside a step.
  void reset();

 private:
  HostWorld& world_;
  mutable std::mutex mutex_;
  int joined_ = 0;
  std::map<std::pair<std::string, model::RankId>, double> squares_;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_NORM_EXCHANGE_H_
