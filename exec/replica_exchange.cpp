#include "exec/replica_exchange.h"

#include <algorithm>
#include <utility>

#include "exec/slice.h"
#include "model/assert.h"

namespace megatwin::exec {
namespace {

using model::ExecutorEventKind;
using model::GroupKind;
using model::RankId;

// The numbers at `places` of the chunk, of which `held` at `held_at` has all.
std::span<float> at_places(std::span<float> held, const Slice& held_at, const Slice& places) {
  MEGATWIN_ASSERT(
      places.size == 0 || (places.offset >= held_at.offset &&
                           places.offset + places.size <= held_at.offset + held_at.size),
      places.offset, " of ", held_at.offset);
  return Slice{places.size == 0 ? 0 : places.offset - held_at.offset, places.size}.of(held);
}

std::span<float> gradients_at(const HeldUnit& unit, const Slice& places) {
  return at_places(unit.gradients, unit.gradients_at, places);
}

std::span<float> weights_at(const HeldUnit& unit, const Slice& places) {
  return at_places(unit.weights, unit.weights_at, places);
}

void append(std::vector<float>& to, std::span<const float> values) {
  to.insert(to.end(), values.begin(), values.end());
}

// Takes letters apart, in the order in which they were put together.
class Parts {
 public:
  explicit Parts(std::vector<float> letter) : letter_(std::move(letter)) {}
  std::span<const float> next(std::size_t size) {
    MEGATWIN_ASSERT(at_ + size <= letter_.size(), at_, " + ", size, " of ", letter_.size());
    return std::span<const float>(letter_).subspan(std::exchange(at_, at_ + size), size);
  }

 private:
  std::vector<float> letter_;
  std::size_t at_ = 0;
};

bool is_of_experts(Topic topic) { return topic == Topic::Experts || topic == Topic::ExpertWeights; }

void copy(std::span<const float> from, std::span<float> to) {
  MEGATWIN_ASSERT(from.size() == to.size(), from.size(), " to ", to.size());
  std::copy(from.begin(), from.end(), to.begin());
}

// What every member of a group has sent; this one's own stands where it is summed.
class Letters {
 public:
  Letters(std::vector<std::vector<float>> letters, std::size_t own) : own_(own) {
    for (std::vector<float>& letter : letters) letters_.emplace_back(std::move(letter));
  }

  // The next part of all, added in the order of the members: the same bits for each of them.
  void sum_into(std::span<float> own) {
    std::vector<float> sum;
    for (std::size_t member = 0; member < letters_.size(); ++member) {
      const std::span<const float> theirs =
          member == own_ ? own : letters_[member].next(own.size());
      if (member == 0) {
        append(sum, theirs);
      } else {
        add(sum, theirs);
      }
    }
    copy(sum, own);
  }

 private:
  std::size_t own_;
  std::vector<Parts> letters_;
};

}  // namespace

ReplicaExchange::ReplicaExchange(const ReplicaExchangeSetup& setup)
    : setup_(setup),
      tensor_(group_of(GroupKind::Tensor, setup.layout)),
      replicas_(group_of(GroupKind::Data, setup.layout)),
      expert_replicas_(group_of(GroupKind::ExpertData, setup.layout)) {}

ReplicaExchange::Group ReplicaExchange::group_of(GroupKind kind, const HostLayout& layout) const {
  Group group{.members = layout.members(kind, setup_.rank), .others = {}};
  for (std::size_t index = 0; index < group.members.size(); ++index) {
    if (group.members[index] == setup_.rank) {
      group.own = index;
    } else {
      group.others.push_back(group.members[index]);
    }
  }
  return group;
}

Slice ReplicaExchange::stepped_by(std::size_t unit, std::size_t member) const {
  return stepped_slice(setup_.shape, setup_.table.units[unit], static_cast<int>(member));
}

void ReplicaExchange::join_reduce() {
  MEGATWIN_ASSERT(reduction_ == Waits::Nothing, "chunk ", setup_.chunk.value, " is reduced twice");
  if (is_forward_side()) {
    send_gradients_across();
    post(ExecutorEventKind::ReduceDone);
    return;
  }
  reduction_ = Waits::OtherSide;
  advance();
}

void ReplicaExchange::join_gather() {
  MEGATWIN_ASSERT(!gathers_, "chunk ", setup_.chunk.value, " is gathered twice");
  if (!is_forward_side()) {
    send_weights(Topic::Weights);
    send_weights(Topic::ExpertWeights);
  }
  gathers_ = true;
  advance();
}

void ReplicaExchange::advance() {
  if (is_forward_side()) {
    if (gathers_ && take_across()) {
      gathers_ = false;
      post(ExecutorEventKind::GatherDone);
    }
    return;
  }
  if (gathers_ && have_come(Topic::Weights) && have_come(Topic::ExpertWeights)) {
    copy_weights(Topic::Weights);
    copy_weights(Topic::ExpertWeights);
    send_across();
    gathers_ = false;
    post(ExecutorEventKind::GatherDone);
  }
  if (reduction_ == Waits::OtherSide && add_gradients_across()) {
    send_local_tokens();
    reduction_ = Waits::LocalTokens;
  }
  if (reduction_ == Waits::LocalTokens && have_come(Topic::LocalTokens)) {
    sum_local_tokens();
    send_to_replicas(Topic::Replicas);
    send_to_replicas(Topic::Experts);
    reduction_ = Waits::Replicas;
  }
  if (reduction_ == Waits::Replicas && have_come(Topic::Replicas) && have_come(Topic::Experts)) {
    sum_replicas(Topic::Replicas);
    sum_replicas(Topic::Experts);
    send_tied();
    reduction_ = Waits::TiedCopy;
  }
  if (reduction_ == Waits::TiedCopy && sum_tied()) {
    reduction_ = Waits::Nothing;
    post(ExecutorEventKind::ReduceDone);
  }
}

const ReplicaExchange::Group& ReplicaExchange::group(Topic topic) const {
  if (topic == Topic::LocalTokens) {
    return tensor_;
  }
  return is_of_experts(topic) ? expert_replicas_ : replicas_;
}

// From ZeRO stage 2 on the replicas have summed every micro-batch; from stage 3 on every task
// gathers its weights.
bool ReplicaExchange::is_needed(Topic topic) const {
  if (topic == Topic::LocalTokens) {
    return std::any_of(setup_.table.parameters.begin(), setup_.table.parameters.end(),
                       [](const Parameter& parameter) { return parameter.sees_local_tokens; });
  }
  const int zero_stage = setup_.shape.zero_stage;
  const bool is_of_gradients = topic == Topic::Replicas || topic == Topic::Experts;
  return std::any_of(setup_.units.begin(), setup_.units.end(),
                     [&](const HeldUnit& unit) { return unit.experts == is_of_experts(topic); }) &&
         (is_of_gradients ? zero_stage < 2 : zero_stage == 1 || zero_stage == 2);
}

bool ReplicaExchange::have_come(Topic topic) {
  return !is_needed(topic) ||
         setup_.world.mailbox(setup_.rank).has_letters(group(topic).others, channel(topic));
}

std::vector<float> ReplicaExchange::take(RankId from, Topic topic) {
  return values_of<float>(*setup_.world.mailbox(setup_.rank).take_letter(from, channel(topic)));
}

std::vector<std::vector<float>> ReplicaExchange::take_all(const Group& group, Topic topic) {
  std::vector<std::vector<float>> letters;
  for (const RankId member : group.members) {
    letters.push_back(member == setup_.rank ? std::vector<float>() : take(member, topic));
  }
  return letters;
}

void ReplicaExchange::send(RankId to, const Channel& channel, std::span<const float> values) {
  setup_.world.send({.from = setup_.rank, .to = to, .channel = channel}, bytes_of(values));
}

void ReplicaExchange::for_each_unit(Topic topic,
                                    const std::function<void(std::size_t)>& visit) const {
  for (std::size_t unit = 0; unit < setup_.units.size(); ++unit) {
    if (setup_.units[unit].experts == is_of_experts(topic)) {
      visit(unit);
    }
  }
}

// All members of a tensor-parallel group hold the same places of these.
void ReplicaExchange::for_each_local_token_part(
    const std::function<void(std::span<float>)>& visit) const {
  for (const Parameter& parameter : setup_.table.parameters) {
    if (!parameter.sees_local_tokens) {
      continue;
    }
    for (const HeldUnit& unit : setup_.units) {
      visit(gradients_at(unit, common(parameter.place, unit.gradients_at)));
    }
  }
}

void ReplicaExchange::send_local_tokens() {
  if (!is_needed(Topic::LocalTokens)) {
    return;
  }
  std::vector<float> letter;
  for_each_local_token_part([&](std::span<float> part) { append(letter, part); });
  for (const RankId other : tensor_.others) {
    send(other, channel(Topic::LocalTokens), letter);
  }
}

void ReplicaExchange::sum_local_tokens() {
  if (!is_needed(Topic::LocalTokens)) {
    return;
  }
  Letters letters(take_all(tensor_, Topic::LocalTokens), tensor_.own);
  for_each_local_token_part([&](std::span<float> part) { letters.sum_into(part); });
}

// To each the part that it steps.
void ReplicaExchange::send_to_replicas(Topic topic) {
  if (!is_needed(topic)) {
    return;
  }
  const Group& replicas = group(topic);
  for (std::size_t member = 0; member < replicas.members.size(); ++member) {
    if (member == replicas.own) {
      continue;
    }
    std::vector<float> letter;
    for_each_unit(topic, [&](std::size_t unit) {
      append(letter, gradients_at(setup_.units[unit], stepped_by(unit, member)));
    });
    send(replicas.members[member], channel(topic), letter);
  }
}

void ReplicaExchange::sum_replicas(Topic topic) {
  if (!is_needed(topic)) {
    return;
  }
  const Group& replicas = group(topic);
  Letters letters(take_all(replicas, topic), replicas.own);
  for_each_unit(topic, [&](std::size_t unit) {
    letters.sum_into(gradients_at(setup_.units[unit], setup_.units[unit].stepped));
  });
}

std::span<float> ReplicaExchange::tied_gradients() const {
  const HeldUnit& unit = setup_.units[*setup_.table.tied_unit];
  return gradients_at(unit, unit.stepped);
}

void ReplicaExchange::send_tied() {
  if (setup_.tied) {
    send(setup_.tied->rank, tied_channel(setup_.tied->is_head), tied_gradients());
  }
}

// Embedding and head, in this order.
bool ReplicaExchange::sum_tied() {
  if (!setup_.tied) {
    return true;
  }
  const auto letter = setup_.world.mailbox(setup_.rank)
                          .take_letter(setup_.tied->rank, tied_channel(!setup_.tied->is_head));
  if (!letter) {
    return false;
  }
  const std::span<float> own = tied_gradients();
  std::vector<float> theirs = values_of<float>(*letter);
  if (setup_.tied->is_head) {
    exec::add(theirs, own);
    copy(theirs, own);
  } else {
    exec::add(own, theirs);
  }
  return true;
}

void ReplicaExchange::send_weights(Topic topic) {
  if (!is_needed(topic)) {
    return;
  }
  std::vector<float> letter;
  for_each_unit(topic, [&](std::size_t unit) {
    append(letter, weights_at(setup_.units[unit], setup_.units[unit].stepped));
  });
  for (const RankId other : group(topic).others) {
    send(other, channel(topic), letter);
  }
}

void ReplicaExchange::copy_weights(Topic topic) {
  if (!is_needed(topic)) {
    return;
  }
  const Group& replicas = group(topic);
  for (std::size_t member = 0; member < replicas.members.size(); ++member) {
    if (member == replicas.own) {
      continue;
    }
    Parts letter(take(replicas.members[member], topic));
    for_each_unit(topic, [&](std::size_t unit) {
      const Slice places = stepped_by(unit, member);
      copy(letter.next(static_cast<std::size_t>(places.size)),
           weights_at(setup_.units[unit], places));
    });
  }
}

void ReplicaExchange::send_across() {
  if (!setup_.other_side) {
    return;
  }
  for (const WeightTransfer& transfer : setup_.other_side->transfers) {
    send(transfer.rank, channel(Topic::SideWeights), gathered(setup_.weights, transfer.runs));
  }
}

bool ReplicaExchange::have_come_across(Topic topic, const std::vector<WeightTransfer>& transfers) {
  std::vector<RankId> ranks;
  ranks.reserve(transfers.size());
  for (const WeightTransfer& transfer : transfers) ranks.push_back(transfer.rank);
  return setup_.world.mailbox(setup_.rank).has_letters(ranks, channel(topic));
}

bool ReplicaExchange::take_across() {
  const std::vector<WeightTransfer>& transfers = setup_.other_side->transfers;
  if (!have_come_across(Topic::SideWeights, transfers)) {
    return false;
  }
  for (const WeightTransfer& transfer : transfers) {
    scatter(take(transfer.rank, Topic::SideWeights), transfer.runs, setup_.weights);
  }
  return true;
}

void ReplicaExchange::send_gradients_across() {
  for (const WeightTransfer& transfer : setup_.other_side->gradients) {
    send(transfer.rank, channel(Topic::SideGradients), gathered(setup_.gradients, transfer.runs));
  }
}

// Behind its own, in ascending order of the ranks.
bool ReplicaExchange::add_gradients_across() {
  if (!setup_.other_side) {
    return true;
  }
  const std::vector<WeightTransfer>& transfers = setup_.other_side->gradients;
  if (!have_come_across(Topic::SideGradients, transfers)) {
    return false;
  }
  for (const WeightTransfer& transfer : transfers) {
    Parts letter(take(transfer.rank, Topic::SideGradients));
    for (const NumberRun& run : transfer.runs) {
      exec::add(Slice{run.to, run.size}.of(setup_.gradients),
                letter.next(static_cast<std::size_t>(run.size)));
    }
  }
  return true;
}

void ReplicaExchange::post(ExecutorEventKind kind) {
  setup_.world.progress();
  setup_.world.mailbox(setup_.rank).post({.kind = kind, .id = setup_.chunk.value});
}

}  // namespace megatwin::exec
