#include "exec/mailbox.h"

#include <algorithm>
#include <utility>

#include "model/assert.h"

namespace megatwin::exec {

using model::ExecutorEvent;
using model::ExecutorEventKind;
using model::RankId;
using model::TaskId;

// Requires: mutex_ is held.
void Mailbox::signal() {
  signalled_ = true;
  arrived_.notify_one();
}

void Mailbox::post(const ExecutorEvent& event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(event);
  signal();
}

void Mailbox::deliver(TaskId consumer, std::vector<float> message) {
  const std::lock_guard lock(mutex_);
  MEGATWIN_ASSERT(messages_.count(consumer) == 0, "task ", consumer.value, " got two messages");
  messages_[consumer] = std::move(message);
  events_.push_back({.kind = ExecutorEventKind::MessageArrived, .id = consumer.value});
  signal();
}

void Mailbox::put(TaskId consumer, std::vector<float> message) {
  const std::lock_guard lock(mutex_);
  messages_[consumer] = std::move(message);
}

void Mailbox::put_letter(RankId from, const Channel& channel, ByteVector letter) {
  const std::lock_guard lock(mutex_);
  letters_[{channel, from}].push_back(std::move(letter));
  signal();
}

void Mailbox::wake() {
  const std::lock_guard lock(mutex_);
  signal();
}

bool Mailbox::take_events(std::vector<ExecutorEvent>& events) {
  const std::lock_guard lock(mutex_);
  events.insert(events.end(), events_.begin(), events_.end());
  const bool any = !events_.empty();
  events_.clear();
  return any;
}

std::vector<float> Mailbox::take_message(TaskId consumer) {
  const std::lock_guard lock(mutex_);
  const auto found = messages_.find(consumer);
  MEGATWIN_ASSERT(found != messages_.end(), "no message for task ", consumer.value);
  std::vector<float> message = std::move(found->second);
  messages_.erase(found);
  return message;
}

std::optional<ByteVector> Mailbox::take_letter(RankId from, const Channel& channel) {
  const std::lock_guard lock(mutex_);
  const auto found = letters_.find({channel, from});
  if (found == letters_.end() || found->second.empty()) {
    return std::nullopt;
  }
  ByteVector letter = std::move(found->second.front());
  found->second.pop_front();
  return letter;
}

bool Mailbox::has_letters(std::span<const RankId> from, const Channel& channel) {
  const std::lock_guard lock(mutex_);
  return std::all_of(from.begin(), from.end(), [&](RankId rank) {
    const auto found = letters_.find({channel, rank});
    return found != letters_.end() && !found->second.empty();
  });
}

bool Mailbox::park(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  const bool came = arrived_.wait_for(lock, limit, [&] { return signalled_; });
  signalled_ = false;
  return came;
}

void Mailbox::clear_events() {
  const std::lock_guard lock(mutex_);
  events_.clear();
}

}  // namespace megatwin::exec
