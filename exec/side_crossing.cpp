#include "exec/side_crossing.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "exec/saved_parts.h"
#include "model/assert.h"

namespace megatwin::exec {
namespace {

using model::PipelineSide;
using model::RankId;
using model::TaskId;

constexpr Channel kChannel{Topic::Crossing, 0};

std::int64_t fed_size(const FedNumbers& numbers, const ModelShape& shape) {
  if (!numbers.activations) return shape.message_size();
  return model_chunk_sizes(shape, numbers.part).activation;
}

std::vector<HeldPart> fed_parts(const FedNumbers& numbers, const ModelShape& shape, int member) {
  if (!numbers.activations) return stage_message_parts(shape, member);
  return saved_parts(shape, numbers.part, member);
}

}  // namespace

// Who is nearest comes first, so that copies which all hold come from different ranks. Members that
// cut alike have the same buffer, whatever is in it.
std::vector<std::vector<NumberRun>> fed_runs(const FedNumbers& numbers, int backward_member) {
  const int members = numbers.forward.tensor;
  std::vector<std::vector<NumberRun>> by_member(static_cast<std::size_t>(members));
  const int nearest = backward_member * members / numbers.backward.tensor;
  if (members == numbers.backward.tensor) {
    by_member[static_cast<std::size_t>(nearest)] = {{0, 0, fed_size(numbers, numbers.forward)}};
    return by_member;
  }
  std::vector<int> order = {nearest};
  for (int member = 0; member < members; ++member) {
    if (member != nearest) order.push_back(member);
  }
  std::vector<std::vector<HeldPart>> sources;
  sources.reserve(order.size());
  for (const int member : order) {
    sources.push_back(fed_parts(numbers, numbers.forward, member));
  }
  auto runs = runs_from(sources, fed_parts(numbers, numbers.backward, backward_member));
  for (std::size_t place = 0; place < order.size(); ++place) {
    by_member[static_cast<std::size_t>(order[place])] = std::move(runs[place]);
  }
  return by_member;
}

SideCrossing::SideCrossing(const Setup& setup)
    : world_(setup.world),
      layout_(setup.layout),
      program_(setup.program),
      rank_(setup.rank),
      coordinates_(setup.layout.coordinates(setup.rank)),
      instances_(setup.instances.of(is_forward() ? PipelineSide::Backward : PipelineSide::Forward)),
      fed_size_(static_cast<std::size_t>(fed_size(setup.fed, setup.fed.backward))) {
  const int peers = is_forward() ? setup.fed.backward.tensor : setup.fed.forward.tensor;
  const auto own = static_cast<std::size_t>(coordinates_.tensor);
  for (int peer = 0; peer < peers; ++peer) {
    all_.push_back({peer, {}});
    auto runs = is_forward()
                    ? fed_runs(setup.fed, peer)[own]
                    : fed_runs(setup.fed, coordinates_.tensor)[static_cast<std::size_t>(peer)];
    if (!runs.empty()) feeding_.push_back({peer, std::move(runs)});
  }
}

RankId SideCrossing::rank_of(int instance, const Peer& peer) const {
  model::RankCoordinates at = coordinates_;
  at.tensor = peer.tensor;
  return layout_.rank_at({is_forward() ? PipelineSide::Backward : PipelineSide::Forward, instance},
                         at);
}

void SideCrossing::send(TaskId producer, std::span<const float> numbers) {
  const model::Message& crossing = program_.crossings[static_cast<std::size_t>(producer.value)];
  for (const Peer& peer : is_forward() ? feeding_ : all_) {
    ByteWriter letter;
    letter.put(crossing.task.value);
    letter.put_list(gathered(numbers, peer.fed));
    world_.send({.from = rank_, .to = rank_of(crossing.instance, peer), .channel = kChannel},
                letter.take());
  }
}

void SideCrossing::advance() {
  for (int instance = 0; instance < instances_; ++instance) {
    for (const Peer& peer : is_forward() ? all_ : feeding_) {
      while (const auto letter =
                 world_.mailbox(rank_).take_letter(rank_of(instance, peer), kChannel)) {
        take(peer, *letter);
      }
    }
  }
}

void SideCrossing::take(const Peer& peer, const ByteVector& letter) {
  ByteReader reader(letter);
  const TaskId task{reader.get<std::int32_t>()};
  MEGATWIN_ASSERT(program_.awaits_crossing(task), task.value);
  Arrived& arrived = arrived_[task];
  if (!is_forward()) {
    arrived.message.resize(fed_size_);
    scatter(reader.list<float>(), peer.fed, arrived.message);
  }
  const std::vector<Peer>& senders = is_forward() ? all_ : feeding_;
  if (++arrived.letters < std::ssize(senders)) {
    return;
  }
  if (is_forward()) {
    world_.post(rank_, {.kind = model::ExecutorEventKind::MessageArrived, .id = task.value});
  } else {
    world_.deliver(rank_, task, std::move(arrived.message));
  }
  arrived_.erase(task);
}

}  // namespace megatwin::exec
