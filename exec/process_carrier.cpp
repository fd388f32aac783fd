#include "exec/process_carrier.h"

#include <algorithm>
#include <span>
#include <utility>

#include "model/assert.h"

namespace megatwin::exec {
namespace {

using model::RankId;

constexpr int kTag = 1;  // One for all, so that everything stays in order.
constexpr std::chrono::milliseconds kLifeEvery{100};

}  // namespace

LocalRanks ranks_of_process(int num_ranks, int num_processes, int process) {
  MEGATWIN_ASSERT(num_ranks % num_processes == 0, num_ranks, " ranks, ", num_processes);
  const int share = num_ranks / num_processes;
  return {.first = process * share, .count = share};
}

ProcessCarrier::ProcessCarrier(model::Processes& processes, int num_ranks)
    : processes_(processes),
      num_ranks_(num_ranks),
      peers_(static_cast<std::size_t>(processes.size())) {
  const ProcessName name = own_process_name();
  ByteWriter frame;
  frame.put(Frame::Hello);
  frame.put(name.pid);
  frame.put_text(name.space);
  send_to_all(frame.take());
}

int ProcessCarrier::process_of(RankId rank) const {
  return rank.value / (num_ranks_ / processes_.size());
}

void ProcessCarrier::cut() {
  const std::lock_guard lock(mutex_);
  is_cut_ = true;
}

void ProcessCarrier::send_to(int process, std::span<const std::byte> frame) {
  const std::lock_guard lock(mutex_);
  if (!is_cut_) {
    processes_.send(process, kTag, frame);
  }
}

void ProcessCarrier::send_to_all(const ByteVector& frame) {
  for (int process = 0; process < processes_.size(); ++process) {
    if (process != processes_.rank() && !peers_[static_cast<std::size_t>(process)].lost) {
      send_to(process, frame);
    }
  }
}

void ProcessCarrier::post(RankId to, const model::ExecutorEvent& event) {
  ByteWriter frame;
  frame.put(Frame::Event);
  frame.put(to);
  frame.put(event);
  send_to(process_of(to), frame.bytes());
}

void ProcessCarrier::deliver(RankId to, model::TaskId consumer, std::vector<float> message) {
  ByteWriter frame;
  frame.put(Frame::Message);
  frame.put(to);
  frame.put(consumer);
  frame.put_all(std::span<const float>(message));
  send_to(process_of(to), frame.bytes());
}

void ProcessCarrier::send(const Address& address, ByteVector letter) {
  ByteWriter frame;
  frame.put(Frame::Letter);
  frame.put(address);
  frame.put_all(std::span<const std::byte>(letter));
  send_to(process_of(address.to), frame.bytes());
}

void ProcessCarrier::say_farewell() {
  ByteWriter frame;
  frame.put(Frame::Farewell);
  send_to_all(frame.take());
}

void ProcessCarrier::tell(const Fault& fault, std::optional<int> lost) {
  if (std::exchange(told_, true)) {
    return;
  }
  ByteWriter frame;
  frame.put(Frame::Fault);
  frame.put(lost.value_or(-1));
  frame.put(fault.rank);
  frame.put(fault.step);
  frame.put_text(fault.task);
  frame.put_text(fault.what);
  send_to_all(frame.take());
}

bool ProcessCarrier::pump(HostWorld& world) {
  bool any = false;
  while (const auto frame = processes_.try_receive(model::Processes::kAny, kTag)) {
    take(*frame, world);
    any = true;
    if (Clock::now() - shown_ >= kLifeEvery) {
      break;
    }
  }
  show_life(world);
  return any;
}

void ProcessCarrier::take(const model::Processes::Message& message, HostWorld& world) {
  Peer& peer = peers_[static_cast<std::size_t>(message.from)];
  peer.heard = true;
  peer.heard_at = clock_.now();
  ByteReader reader(message.bytes);
  switch (reader.get<Frame>()) {
    case Frame::Hello: {
      const auto pid = reader.get<std::int32_t>();
      peer.watch = ProcessWatch({.pid = pid, .space = reader.text()});
      return;
    }
    case Frame::Event: {
      const auto to = reader.get<RankId>();
      world.post(to, reader.get<model::ExecutorEvent>());
      return;
    }
    case Frame::Message: {
      const auto to = reader.get<RankId>();
      const auto consumer = reader.get<model::TaskId>();
      world.mailbox(to).deliver(consumer, values_of<float>(reader.rest()));
      return;
    }
    case Frame::Letter: {
      const auto address = reader.get<Address>();
      const auto rest = reader.rest();
      world.mailbox(address.to)
          .put_letter(address.from, address.channel, {rest.begin(), rest.end()});
      return;
    }
    case Frame::Life:
      take_life(reader, message.from, world);
      return;
    case Frame::Fault:
      take_fault(reader, world);
      return;
    case Frame::Farewell:
      peer.left = true;
      return;
  }
}

void ProcessCarrier::show_life(const HostWorld& world) {
  if (Clock::now() - shown_ < kLifeEvery) {
    return;
  }
  shown_ = Clock::now();
  ByteWriter frame;
  frame.put(Frame::Life);
  frame.put(world.progress_made());
  for (std::int32_t rank = local().first; rank < local().first + local().count; ++rank) {
    frame.put(world.activity({rank}));
    frame.put(world.waits({rank}));
  }
  send_to_all(frame.take());
}

void ProcessCarrier::take_life(ByteReader& reader, int from, HostWorld& world) {
  peers_[static_cast<std::size_t>(from)].progress = reader.get<std::uint64_t>();
  const LocalRanks ranks = ranks_of(from);
  for (std::int32_t rank = ranks.first; rank < ranks.first + ranks.count; ++rank) {
    world.set_activity({rank}, reader.get<HostWorld::Activity>());
    world.set_waits({rank}, reader.get<bool>());
  }
}

void ProcessCarrier::take_fault(ByteReader& reader, HostWorld& world) {
  if (const int lost = reader.get<int>(); lost >= 0) {
    peers_[static_cast<std::size_t>(lost)].lost = true;
  }
  Fault fault;
  fault.rank = reader.get<RankId>();
  fault.step = reader.get<int>();
  fault.task = reader.text();
  fault.what = reader.text();
  told_ = true;  // By the other one, to all.
  world.fail(fault);
}

bool ProcessCarrier::all_heard() const {
  return std::count_if(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.heard; }) +
             1 ==
         std::ssize(peers_);
}

bool ProcessCarrier::all_left() const {
  return std::count_if(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.left; }) +
             1 ==
         std::ssize(peers_);
}

std::uint64_t ProcessCarrier::progress_elsewhere() const {
  std::uint64_t sum = 0;
  for (const Peer& peer : peers_) {
    sum += peer.progress;
  }
  return sum;
}

std::optional<ProcessCarrier::Lost> ProcessCarrier::find_lost(
    std::chrono::milliseconds silence_max) {
  std::vector<int> quiet;  // Longer than half of it.
  const auto silence = [&, now = clock_.now()](int process) {
    return now - peers_[static_cast<std::size_t>(process)].heard_at;
  };
  for (int process = 0; process < std::ssize(peers_); ++process) {
    const Peer& peer = peers_[static_cast<std::size_t>(process)];
    if (!peer.heard || peer.left || peer.lost) {
      continue;
    }
    if (peer.watch.has_ended()) {
      return lose(process, false);
    }
    if (silence(process) > silence_max / 2) {
      quiet.push_back(process);
    }
  }
  const auto longest = std::max_element(quiet.begin(), quiet.end(),
                                        [&](int a, int b) { return silence(a) < silence(b); });
  if (longest == quiet.end() || silence(*longest) <= silence_max) {
    return std::nullopt;
  }
  // One that is stopped holds others up inside of MPI, which are as quiet and not to blame.
  const auto stopped = std::find_if(quiet.begin(), quiet.end(), [&](int process) {
    return peers_[static_cast<std::size_t>(process)].watch.is_stopped();
  });
  return lose(stopped != quiet.end() ? *stopped : *longest, true);
}

ProcessCarrier::Lost ProcessCarrier::lose(int process, bool is_silent) {
  peers_[static_cast<std::size_t>(process)].lost = true;
  return {.process = process, .is_silent = is_silent};
}

bool ProcessCarrier::is_first_alive() const {
  const auto end = peers_.begin() + processes_.rank();
  return std::all_of(peers_.begin(), end, [](const Peer& peer) { return peer.lost; });
}

}  // namespace megatwin::exec
