#include "exec/replica_exchange.h"

#include <algorithm>
#include <map>
#include <utility>

#include "model/assert.h"

namespace megatwin::exec {
namespace {

// The numbers at `places` of the chunk, of which `held` at `held_at` has all.
std::span<float> at_places(std::span<float> held, const Slice& held_at, const Slice& places) {
  MEGATWIN_ASSERT(
      places.size == 0 || (places.offset >= held_at.offset &&
                           places.offset + places.size <= held_at.offset + held_at.size),
      places.offset, " of ", held_at.offset);
  return Slice{places.size == 0 ? 0 : places.offset - held_at.offset, places.size}.of(held);
}

void add(std::span<float> to, std::span<const float> values) {
  std::transform(to.begin(), to.end(), values.begin(), to.begin(), std::plus<>());
}

void copy(std::span<const float> from, std::span<float> to) {
  std::copy(from.begin(), from.end(), to.begin());
}

}  // namespace

ReplicaExchange::ReplicaExchange(HostWorld& world, const ReplicaExchangeSetup& setup)
    : world_(world), setup_(setup) {
  for (std::int32_t rank = 0; rank < setup.layout.num_ranks(); ++rank) {
    if (setup.layout.coordinates({rank}).pipeline == setup.stage.value) {
      members_.push_back({.rank = {rank}});
    }
  }
  tensor_groups_ = groups_of(model::GroupKind::Tensor);
  replicas_ = groups_of(model::GroupKind::Data);
  expert_replicas_ = groups_of(model::GroupKind::ExpertData);
}

std::vector<ReplicaExchange::Group> ReplicaExchange::groups_of(model::GroupKind kind) const {
  std::map<model::RankId, Group> by_leader;
  for (std::size_t index = 0; index < members_.size(); ++index) {
    by_leader[setup_.layout.leader(kind, members_[index].rank)].push_back(index);
  }
  std::vector<Group> groups;
  for (auto& [leader, group] : by_leader) {
    groups.push_back(std::move(group));
  }
  return groups;
}

const std::vector<ReplicaExchange::Group>& ReplicaExchange::replicas_of(std::size_t unit) const {
  return members_[0].table->units[unit].experts ? expert_replicas_ : replicas_;
}

void ReplicaExchange::add(const Member& member) {
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [&](const Member& other) { return other.rank == member.rank; });
  MEGATWIN_ASSERT(found != members_.end(), "rank ", member.rank.value, " is of another stage");
  *found = member;
}

void ReplicaExchange::tie(ReplicaExchange& embedding, ReplicaExchange& head) {
  embedding.tie_ = head.tie_ = std::make_shared<Tie>();
  embedding.tie_->embedding = &embedding;
  embedding.tie_->head = &head;
}

void ReplicaExchange::join_reduce() {
  const std::lock_guard lock(mutex_);
  if (++reduces_joined_ < std::ssize(members_)) {
    return;
  }
  reduces_joined_ = 0;
  sum_local_tokens();
  // From stage 2 on the replicas have summed every micro-batch.
  for (std::size_t unit = 0; unit < members_[0].units.size() && setup_.zero_stage < 2; ++unit) {
    sum_replicas(unit);
  }
  if (!tie_) {
    post_to_all(model::ExecutorEventKind::ReduceDone);
    return;
  }
  const std::lock_guard tie_lock(tie_->mutex);
  if (!std::exchange(tie_->one_is_done, !tie_->one_is_done)) {
    return;  // The other chunk ends it for both.
  }
  sum_tied(*tie_);
  tie_->embedding->post_to_all(model::ExecutorEventKind::ReduceDone);
  tie_->head->post_to_all(model::ExecutorEventKind::ReduceDone);
}

void ReplicaExchange::join_gather() {
  const std::lock_guard lock(mutex_);
  if (++gathers_joined_ < std::ssize(members_)) {
    return;
  }
  gathers_joined_ = 0;
  const bool shards_the_step = setup_.zero_stage == 1 || setup_.zero_stage == 2;
  for (std::size_t unit = 0; unit < members_[0].units.size() && shards_the_step; ++unit) {
    copy_stepped(unit);
  }
  post_to_all(model::ExecutorEventKind::GatherDone);
}

// Parameters of which each tensor-parallel member has seen its own tokens only. All members of a
// group hold the same places of them.
void ReplicaExchange::sum_local_tokens() {
  for (const Parameter& parameter : members_[0].table->parameters) {
    if (!parameter.sees_local_tokens) {
      continue;
    }
    for (std::size_t unit = 0; unit < members_[0].units.size(); ++unit) {
      for (const Group& group : tensor_groups_) {
        const Slice places = common(parameter.place, members_[group[0]].units[unit].gradients_at);
        const auto of_member = [&](std::size_t member) {
          const HeldUnit& held = members_[member].units[unit];
          return at_places(held.gradients, held.gradients_at, places);
        };
        for (std::size_t i = 1; i < group.size(); ++i) {
          exec::add(of_member(group[0]), of_member(group[i]));
        }
        for (std::size_t i = 1; i < group.size(); ++i) {
          copy(of_member(group[0]), of_member(group[i]));
        }
      }
    }
  }
}

void ReplicaExchange::sum_replicas(std::size_t unit) {
  for (const Group& group : replicas_of(unit)) {
    if (group.size() == 1) {
      continue;
    }
    const HeldUnit& first = members_[group[0]].units[unit];
    std::vector<float> sum(first.gradients.begin(), first.gradients.end());
    for (std::size_t i = 1; i < group.size(); ++i) {
      exec::add(sum, members_[group[i]].units[unit].gradients);
    }
    for (const std::size_t member : group) {
      const HeldUnit& held = members_[member].units[unit];
      copy(at_places(sum, held.gradients_at, held.stepped),
           at_places(held.gradients, held.gradients_at, held.stepped));
    }
  }
}

void ReplicaExchange::copy_stepped(std::size_t unit) {
  for (const Group& group : replicas_of(unit)) {
    for (const std::size_t owner : group) {
      const HeldUnit& from = members_[owner].units[unit];
      for (const std::size_t member : group) {
        if (member != owner) {
          const HeldUnit& to = members_[member].units[unit];
          copy(at_places(from.weights, from.weights_at, from.stepped),
               at_places(to.weights, to.weights_at, from.stepped));
        }
      }
    }
  }
}

// The n-th ranks of both stages have the same part of the matrix and step the same part of that.
void ReplicaExchange::sum_tied(Tie& tie) {
  for (std::size_t index = 0; index < tie.embedding->members_.size(); ++index) {
    const auto stepped = [&](ReplicaExchange& exchange) {
      const Member& member = exchange.members_[index];
      const HeldUnit& held = member.units[*member.table->tied_unit];
      return at_places(held.gradients, held.gradients_at, held.stepped);
    };
    exec::add(stepped(*tie.embedding), stepped(*tie.head));
    copy(stepped(*tie.embedding), stepped(*tie.head));
  }
}

void ReplicaExchange::post_to_all(model::ExecutorEventKind kind) {
  world_.progress();
  for (const Member& member : members_) {
    world_.mailbox(member.rank).post({.kind = kind, .id = setup_.chunk.value});
  }
}

}  // namespace megatwin::exec
