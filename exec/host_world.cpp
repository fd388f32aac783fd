#include "exec/host_world.h"

#include <utility>

#include "model/assert.h"

namespace megatwin::exec {

using model::RankId;

std::string to_text(const Fault& fault) {
  return "rank " + std::to_string(fault.rank.value) + ", step " + std::to_string(fault.step) +
         ", " + fault.task + ": " + fault.what;
}

HostWorld::HostWorld(int num_ranks, const LocalRanks& local, Carrier* carrier)
    : local_(local), carrier_(carrier), activities_(static_cast<std::size_t>(num_ranks)) {
  for (std::int32_t rank = 0; rank < local.count; ++rank) {
    mailboxes_.push_back(std::make_unique<Mailbox>());
    outboxes_.push_back(std::make_unique<Outbox>());
  }
}

std::vector<RankId> HostWorld::ranks_but(RankId rank) const {
  std::vector<RankId> others;
  for (std::int32_t other = 0; other < num_ranks(); ++other) {
    if (other != rank.value) {
      others.push_back({other});
    }
  }
  return others;
}

void HostWorld::post(RankId to, const model::ExecutorEvent& event) {
  if (!local_.has(to)) {
    carrier_->post(to, event);
    return;
  }
  if (event.kind == model::ExecutorEventKind::CreditReturned) {
    if (auto outgoing = outbox(to).add_credit(event.id)) {
      deliver(outgoing->to, outgoing->consumer, std::move(outgoing->message));
    }
  }
  mailbox(to).post(event);
}

void HostWorld::deliver(RankId to, model::TaskId consumer, std::vector<float> message) {
  local_.has(to) ? mailbox(to).deliver(consumer, std::move(message))
                 : carrier_->deliver(to, consumer, std::move(message));
}

void HostWorld::send(const Carrier::Address& address, ByteVector letter) {
  local_.has(address.to)
      ? mailbox(address.to).put_letter(address.from, address.channel, std::move(letter))
      : carrier_->send(address, std::move(letter));
}

std::size_t HostWorld::local_index(RankId rank) const {
  MEGATWIN_ASSERT(local_.has(rank), "rank ", rank.value, " is of another process");
  return static_cast<std::size_t>(rank.value - local_.first);
}

void HostWorld::fail(const Fault& fault) {
  {
    const std::lock_guard lock(mutex_);
    if (!fault_) {
      fault_ = fault;
    }
  }
  failed_.store(true);
  for (const auto& mailbox : mailboxes_) {
    mailbox->wake();
  }
}

std::optional<Fault> HostWorld::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

}  // namespace megatwin::exec
