#include "exec/letter_group.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "exec/slice.h"
#include "model/assert.h"

namespace megatwin::exec {
namespace {

using model::GroupKind;

constexpr GroupKind kKinds[] = {GroupKind::Tensor,       GroupKind::Context, GroupKind::Expert,
                                GroupKind::ExpertTensor, GroupKind::Data,    GroupKind::ExpertData};

// The m-th part of `values`, one behind the other.
Slice part_of(std::span<const std::int64_t> sizes, std::size_t member) {
  const auto place = sizes.begin() + static_cast<std::ptrdiff_t>(member);
  return {std::accumulate(sizes.begin(), place, std::int64_t{0}), *place};
}

}  // namespace

LetterGroup::LetterGroup(const Setup& setup) : setup_(setup) {
  for (std::size_t member = 0; member < setup.members.size(); ++member) {
    if (setup.members[member] == setup.rank) {
      member_ = static_cast<int>(member);
    } else {
      others_.push_back(setup.members[member]);
    }
  }
  MEGATWIN_ASSERT(!others_.empty() && others_.size() + 1 == setup.members.size(), "rank ",
                  setup.rank.value, " of ", setup.members.size());
}

void LetterGroup::send(std::size_t member, std::span<const float> values) {
  setup_.world.send({.from = setup_.rank,
                     .to = setup_.members[member],
                     .channel = {Topic::Group, static_cast<std::int32_t>(setup_.kind)}},
                    bytes_of(values));
}

void LetterGroup::send_all(std::span<const float> values) {
  for (std::size_t member = 0; member < setup_.members.size(); ++member) {
    if (!is_own(member)) {
      send(member, values);
    }
  }
}

std::vector<std::vector<float>> LetterGroup::receive_all() {
  std::vector<std::vector<float>> received(setup_.members.size());
  const Channel channel{Topic::Group, static_cast<std::int32_t>(setup_.kind)};
  Mailbox& mailbox = setup_.world.mailbox(setup_.rank);
  wait_([&] { return mailbox.has_letters(others_, channel); });
  for (std::size_t member = 0; member < received.size(); ++member) {
    if (!is_own(member)) {
      received[member] = values_of<float>(*mailbox.take_letter(setup_.members[member], channel));
    }
  }
  setup_.world.progress();
  return received;
}

void LetterGroup::all_reduce_sum(std::span<float> values) {
  send_all(values);
  const auto received = receive_all();
  std::vector<float> sum(values.size(), 0);
  for (std::size_t member = 0; member < received.size(); ++member) {
    add(sum, is_own(member) ? std::span<const float>(values) : received[member]);
  }
  std::copy(sum.begin(), sum.end(), values.begin());
}

void LetterGroup::all_reduce_max(std::span<float> values) {
  send_all(values);
  auto received = receive_all();
  received[static_cast<std::size_t>(member_)].assign(values.begin(), values.end());
  std::vector<float>& most = received.front();
  for (const std::vector<float>& part : received) {
    std::transform(part.begin(), part.end(), most.begin(), most.begin(),
                   [](float a, float b) { return std::max(b, a); });
  }
  std::copy(most.begin(), most.end(), values.begin());
}

void LetterGroup::all_gather(std::span<const float> shard, std::span<float> whole) {
  send_all(shard);
  const auto received = receive_all();
  auto to = whole.begin();
  for (std::size_t member = 0; member < received.size(); ++member) {
    const std::span<const float> part = is_own(member) ? shard : received[member];
    MEGATWIN_ASSERT(std::ssize(part) <= whole.end() - to, "member ", member, " has too much");
    to = std::copy(part.begin(), part.end(), to);
  }
}

void LetterGroup::reduce_scatter(std::span<const float> whole, std::span<float> shard) {
  for (std::size_t member = 0; member < setup_.members.size(); ++member) {
    if (!is_own(member)) {
      send(member, shard_of(std::ssize(whole), static_cast<int>(member), size()).of(whole));
    }
  }
  const Slice own = shard_of(std::ssize(whole), member_, size());
  const auto received = receive_all();
  std::fill(shard.begin(), shard.end(), 0.0F);
  for (std::size_t member = 0; member < received.size(); ++member) {
    add(shard, is_own(member) ? own.of(whole) : received[member]);
  }
}

void LetterGroup::all_to_all(const AllToAll& arguments) {
  for (std::size_t member = 0; member < setup_.members.size(); ++member) {
    if (!is_own(member)) {
      send(member, part_of(arguments.send_sizes, member).of(arguments.send));
    }
  }
  const auto received = receive_all();
  auto to = arguments.receive.begin();
  for (std::size_t source = 0; source < received.size(); ++source) {
    const std::span<const float> part =
        is_own(source) ? part_of(arguments.send_sizes, source).of(arguments.send)
                       : received[source];
    MEGATWIN_ASSERT(std::ssize(part) == arguments.receive_sizes[source], "member ", source,
                    " sends ", part.size());
    to = std::copy(part.begin(), part.end(), to);
  }
}

OwnGroups::OwnGroups(HostWorld& world, const HostLayout& layout, model::RankId rank) {
  for (const GroupKind kind : kKinds) {
    const std::vector<model::RankId> members = layout.members(kind, rank);
    if (members.size() > 1) {
      groups_.emplace(kind, LetterGroup({world, kind, rank, members}));
    }
  }
}

RankGroups OwnGroups::all() {
  const auto of = [&](GroupKind kind) -> RankGroup& {
    const auto found = groups_.find(kind);
    return found == groups_.end() ? static_cast<RankGroup&>(lone_) : found->second;
  };
  return {of(GroupKind::Tensor),       of(GroupKind::Context), of(GroupKind::Expert),
          of(GroupKind::ExpertTensor), of(GroupKind::Data),    of(GroupKind::ExpertData)};
}

void OwnGroups::wait_by(const Wait& wait) {
  for (auto& [kind, group] : groups_) {
    group.wait_by(wait);
  }
}

}  // namespace megatwin::exec
