#include "exec/side_crossing.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "exec/saved_parts.h"
#include "model/assert.h"

namespace megatwin::exec {
namespace {

using model::PipelineSide;
using model::RankId;
using model::TaskId;

constexpr Channel kChannel{Topic::Crossing, 0};

// What one side has of something that crosses.
struct SideNumbers {
  const ModelShape& shape;
  std::int64_t size = 0;
  std::function<std::vector<HeldPart>(int member)> parts;
};

SideNumbers fed_numbers(const CrossingNumbers& numbers, const ModelShape& shape) {
  const ChunkPart& part = numbers.part;
  if (numbers.feeds_activations) {
    return {shape, model_chunk_sizes(shape, part).activation,
            [&shape, part](int member) { return saved_parts(shape, part, member); }};
  }
  return {shape, shape.message_size(),
          [&shape](int member) { return stage_message_parts(shape, member); }};
}

SideNumbers left_numbers(const CrossingNumbers& numbers, const ModelShape& shape) {
  const ChunkPart& part = numbers.part;
  return {shape, model_chunk_sizes(shape, part).gradient_input,
          [&shape, part](int member) { return gradient_input_parts(shape, part, member); }};
}

// By member of `from`: what each sends to one of `to`. Who is nearest comes first, so that copies
// which all hold come from different ranks. Members that cut alike have the same buffer, whatever
// is in it.
std::vector<std::vector<NumberRun>> runs_between(const SideNumbers& from, const SideNumbers& to,
                                                 int to_member) {
  const int members = from.shape.tensor;
  std::vector<std::vector<NumberRun>> by_member(static_cast<std::size_t>(members));
  const int nearest = to_member * members / to.shape.tensor;
  if (members == to.shape.tensor) {
    by_member[static_cast<std::size_t>(nearest)] = {{0, 0, from.size}};
    return by_member;
  }
  std::vector<int> order = {nearest};
  for (int member = 0; member < members; ++member) {
    if (member != nearest) order.push_back(member);
  }
  std::vector<std::vector<HeldPart>> sources;
  sources.reserve(order.size());
  for (const int member : order) sources.push_back(from.parts(member));
  auto runs = runs_from(sources, to.parts(to_member));
  for (std::size_t place = 0; place < order.size(); ++place) {
    by_member[static_cast<std::size_t>(order[place])] = std::move(runs[place]);
  }
  return by_member;
}

}  // namespace

std::vector<std::vector<NumberRun>> fed_runs(const CrossingNumbers& numbers, int backward_member) {
  return runs_between(fed_numbers(numbers, numbers.forward), fed_numbers(numbers, numbers.backward),
                      backward_member);
}

std::vector<std::vector<NumberRun>> left_runs(const CrossingNumbers& numbers, int forward_member) {
  return runs_between(left_numbers(numbers, numbers.backward),
                      left_numbers(numbers, numbers.forward), forward_member);
}

SideCrossing::SideCrossing(const Setup& setup)
    : world_(setup.world),
      layout_(setup.layout),
      program_(setup.program),
      rank_(setup.rank),
      coordinates_(setup.layout.coordinates(setup.rank)),
      instances_(
          setup.instances.of(is_forward() ? PipelineSide::Backward : PipelineSide::Forward)) {
  const CrossingNumbers& numbers = setup.numbers;
  const bool leaves_weights = program_.shape.leaves_weights();
  const int num_peers = is_forward() ? numbers.backward.tensor : numbers.forward.tensor;
  const auto own = static_cast<std::size_t>(coordinates_.tensor);
  for (int peer = 0; peer < num_peers; ++peer) {
    const auto index = static_cast<std::size_t>(peer);
    std::vector<NumberRun> fed =
        is_forward() ? fed_runs(numbers, peer)[own] : fed_runs(numbers, coordinates_.tensor)[index];
    std::vector<NumberRun> left;
    if (leaves_weights) {
      left = is_forward() ? left_runs(numbers, coordinates_.tensor)[index]
                          : left_runs(numbers, peer)[own];
    }
    if (!is_forward()) std::swap(fed, left);
    num_sources_ += left.empty() ? 0 : 1;
    peers_.push_back({peer, std::move(fed), std::move(left)});
  }
  received_size_ =
      static_cast<std::size_t>(is_forward() ? left_numbers(numbers, numbers.forward).size
                                            : fed_numbers(numbers, numbers.backward).size);
}

RankId SideCrossing::rank_of(int instance, const Peer& peer) const {
  model::RankCoordinates at = coordinates_;
  at.tensor = peer.tensor;
  return layout_.rank_at({is_forward() ? PipelineSide::Backward : PipelineSide::Forward, instance},
                         at);
}

void SideCrossing::send_to(const Peer& peer, const model::Message& message,
                           std::span<const float> numbers) {
  ByteWriter letter;
  letter.put(message.task.value);
  letter.put_list(numbers);
  world_.send({.from = rank_, .to = rank_of(message.instance, peer), .channel = kChannel},
              letter.take());
}

void SideCrossing::send(TaskId producer, std::span<const float> numbers) {
  const model::Message& message = program_.crossings[static_cast<std::size_t>(producer.value)];
  for (const Peer& peer : peers_) {
    if (!peer.sent.empty()) send_to(peer, message, gathered(numbers, peer.sent));
  }
}

void SideCrossing::make_room(TaskId producer) {
  for (const Peer& peer : peers_) {
    send_to(peer, program_.rooms[static_cast<std::size_t>(producer.value)], {});
  }
}

void SideCrossing::advance() {
  for (int instance = 0; instance < instances_; ++instance) {
    for (const Peer& peer : peers_) {
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
  ++arrived.letters;
  if (is_room(task)) {
    if (arrived.letters < std::ssize(peers_)) return;
    world_.post(rank_, {.kind = model::ExecutorEventKind::MessageArrived, .id = task.value});
  } else {
    arrived.message.resize(received_size_);
    scatter(reader.list<float>(), peer.received, arrived.message);
    if (arrived.letters < num_sources_) return;
    world_.deliver(rank_, task, std::move(arrived.message));
  }
  arrived_.erase(task);
}

}  // namespace megatwin::exec
