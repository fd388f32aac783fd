#include "exec/outbox.h"

#include <algorithm>
#include <utility>

#include "model/assert.h"

namespace megatwin::exec {

void Outbox::start_step(int receive_slots) {
  MEGATWIN_ASSERT(is_empty(), "a step starts before all of the last was sent");
  const std::lock_guard lock(mutex_);
  limited_ = receive_slots > 0;
  for (Line& line : lines_) line.credits = receive_slots;
}

std::optional<Outbox::Outgoing> Outbox::put(std::int32_t channel, Outgoing outgoing) {
  const std::lock_guard lock(mutex_);
  Line& own = line(channel);
  if (limited_ && own.credits == 0) {
    own.waiting.push_back(std::move(outgoing));
    return std::nullopt;
  }
  own.credits -= limited_ ? 1 : 0;
  sent_.push_back({outgoing.producer, outgoing.made, Clock::now()});
  return outgoing;
}

std::optional<Outbox::Outgoing> Outbox::add_credit(std::int32_t channel) {
  const std::lock_guard lock(mutex_);
  Line& own = line(channel);
  if (own.waiting.empty()) {
    ++own.credits;
    return std::nullopt;
  }
  Outgoing outgoing = std::move(own.waiting.front());
  own.waiting.pop_front();
  sent_.push_back({outgoing.producer, outgoing.made, Clock::now()});
  return outgoing;
}

bool Outbox::is_empty() const {
  const std::lock_guard lock(mutex_);
  return std::all_of(lines_.begin(), lines_.end(),
                     [](const Line& line) { return line.waiting.empty(); });
}

std::vector<Outbox::Sent> Outbox::take_sent() {
  const std::lock_guard lock(mutex_);
  return std::exchange(sent_, {});
}

}  // namespace megatwin::exec
