#include "exec/replica_exchange.h"

#include <algorithm>

namespace megatwin::exec {

Slice shard_of(std::int64_t size, int replica, int count) {
  const std::int64_t shard = (size + count - 1) / count;
  const std::int64_t begin = std::min(size, replica * shard);
  return {begin, std::min(size, begin + shard) - begin};
}

void ReplicaExchange::join_reduce() {
  const std::lock_guard lock(mutex_);
  if (++reduces_joined_ < std::ssize(members_)) {
    return;
  }
  reduces_joined_ = 0;
  sum_local_tokens();
  sum_replicas();
  post_to_all(model::ExecutorEventKind::ReduceDone);
}

void ReplicaExchange::join_gather() {
  const std::lock_guard lock(mutex_);
  if (++gathers_joined_ < std::ssize(members_)) {
    return;
  }
  gathers_joined_ = 0;
  if (setup_.shard_optimizer) {
    copy_shards();
  }
  post_to_all(model::ExecutorEventKind::GatherDone);
}

// Parameters of which each tensor-parallel member has seen its own tokens only.
void ReplicaExchange::sum_local_tokens() {
  for (const Parameter& parameter : members_[0].table->parameters) {
    if (!parameter.sees_local_tokens) {
      continue;
    }
    for (int replica = 0; replica < setup_.data; ++replica) {
      const std::span<float> first = parameter.place.of(at(0, replica).gradients);
      for (int member = 1; member < setup_.tensor; ++member) {
        const std::span<float> other = parameter.place.of(at(member, replica).gradients);
        std::transform(first.begin(), first.end(), other.begin(), first.begin(), std::plus<>());
      }
      for (int member = 1; member < setup_.tensor; ++member) {
        std::copy(first.begin(), first.end(),
                  parameter.place.of(at(member, replica).gradients).begin());
      }
    }
  }
}

void ReplicaExchange::sum_replicas() {
  if (setup_.data == 1) {
    return;
  }
  for (int member = 0; member < setup_.tensor; ++member) {
    std::vector<float> sum(at(member, 0).gradients.begin(), at(member, 0).gradients.end());
    for (int replica = 1; replica < setup_.data; ++replica) {
      const std::span<float> other = at(member, replica).gradients;
      std::transform(sum.begin(), sum.end(), other.begin(), sum.begin(), std::plus<>());
    }
    for (int replica = 0; replica < setup_.data; ++replica) {
      const auto size = std::ssize(sum);
      const Slice part =
          setup_.shard_optimizer ? shard_of(size, replica, setup_.data) : Slice{0, size};
      const std::span<float> from = part.of(std::span<float>(sum));
      std::copy(from.begin(), from.end(), part.of(at(member, replica).gradients).begin());
    }
  }
}

void ReplicaExchange::copy_shards() {
  for (int member = 0; member < setup_.tensor; ++member) {
    for (int owner = 0; owner < setup_.data; ++owner) {
      const std::span<float> weights = at(member, owner).weights;
      const Slice shard = shard_of(std::ssize(weights), owner, setup_.data);
      const std::span<float> from = shard.of(weights);
      for (int replica = 0; replica < setup_.data; ++replica) {
        if (replica != owner) {
          std::copy(from.begin(), from.end(), shard.of(at(member, replica).weights).begin());
        }
      }
    }
  }
}

void ReplicaExchange::post_to_all(model::ExecutorEventKind kind) {
  world_.progress();
  for (const Member& member : members_) {
    world_.mailbox(member.rank).post({.kind = kind, .id = setup_.chunk.value});
  }
}

}  // namespace megatwin::exec
