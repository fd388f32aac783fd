// The norm of all gradients of a run, for clipping, as one rank takes part: it brings its parts
// after its reductions and has the norm when those of all others have come. Parts are summed by
// name, so that the norm does not depend on which stage holds what.
#ifndef MEGATWIN_EXEC_NORM_EXCHANGE_H_
#define MEGATWIN_EXEC_NORM_EXCHANGE_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exec/host_world.h"
#include "exec/rank_model.h"

namespace megatwin::exec {

class NormExchange {
 public:
  // The world is borrowed.
  NormExchange(HostWorld& world, model::RankId rank) : world_(world), rank_(rank) {}

  // Once a step.
  void join(const std::vector<RankModel::NormPart>& parts);
  // The norm, when all have joined.
  std::optional<double> norm();
  // Forgets the step.
  void reset();

 private:
  void keep(model::RankId rank, const ByteVector& letter);

  HostWorld& world_;
  model::RankId rank_;
  bool joined_ = false;
  std::map<std::pair<std::string, model::RankId>, double> squares_;
  std::optional<double> norm_;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_NORM_EXCHANGE_H_
