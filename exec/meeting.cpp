#include "exec/meeting.h"

#include <utility>

namespace megatwin::exec {

std::vector<ByteVector> Meeting::meet(ByteVector brought, const Wait& wait) {
  constexpr Channel kChannel{Topic::Meeting, 0};
  const std::vector<model::RankId> others = world_.ranks_but(rank_);
  for (const model::RankId other : others) {
    world_.send({.from = rank_, .to = other, .channel = kChannel}, brought);
  }
  Mailbox& mailbox = world_.mailbox(rank_);
  wait([&] { return mailbox.has_letters(others, kChannel); });
  std::vector<ByteVector> letters(static_cast<std::size_t>(world_.num_ranks()));
  for (const model::RankId other : others) {
    letters[static_cast<std::size_t>(other.value)] = *mailbox.take_letter(other, kChannel);
  }
  letters[static_cast<std::size_t>(rank_.value)] = std::move(brought);
  world_.progress();
  return letters;
}

}  // namespace megatwin::exec
