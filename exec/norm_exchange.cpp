#include "exec/norm_exchange.h"

#include <cmath>

namespace megatwin::exec {

void NormExchange::join(model::RankId rank, const std::vector<RankModel::NormPart>& parts) {
  bool complete = false;
  {
    const std::lock_guard lock(mutex_);
    for (const RankModel::NormPart& part : parts) {
      squares_[{part.name, rank}] = part.squares;
    }
    complete = ++joined_ == world_.num_ranks();
  }
  if (!complete) {
    return;
  }
  world_.progress();
  for (std::int32_t other = 0; other < world_.num_ranks(); ++other) {
    world_.mailbox({other}).wake();
  }
}

std::optional<double> NormExchange::norm() const {
  const std::lock_guard lock(mutex_);
  if (joined_ < world_.num_ranks()) {
    return std::nullopt;
  }
  double sum = 0;
  for (const auto& [key, squares] : squares_) {
    sum += squares;
  }
  return std::sqrt(sum);
}

void NormExchange::reset() {
  const std::lock_guard lock(mutex_);
  joined_ = 0;
  squares_.clear();
}

}  // namespace megatwin::exec
