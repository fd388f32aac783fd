#include "exec/host_world.h"

#include <algorithm>
#include <numeric>

#include "exec/slice.h"
#include "model/assert.h"

namespace megatwin::exec {

std::string to_text(const Fault& fault) {
  return "rank " + std::to_string(fault.rank.value) + ", step " + std::to_string(fault.step) +
         ", " + fault.task + ": " + fault.what;
}

HostWorld::HostWorld(int num_ranks) : activities_(static_cast<std::size_t>(num_ranks)) {
  for (int rank = 0; rank < num_ranks; ++rank) {
    mailboxes_.push_back(std::make_unique<Mailbox>());
  }
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

void MeetingPoint::meet(const Wait& wait) {
  const std::uint64_t round = round_.load();
  {
    const std::lock_guard lock(mutex_);
    if (++arrived_ == size()) {
      arrived_ = 0;
      round_.fetch_add(1);
      world_.progress();
      for (const model::RankId member : members_) {
        world_.mailbox(member).wake();
      }
      return;
    }
  }
  wait([&] { return round_.load() != round; });
}

void ThreadGroup::exchange(std::span<const float> values, const std::function<void()>& read) {
  shared_->lent[static_cast<std::size_t>(member_)] = values;
  shared_->meeting.meet(wait_);
  read();
  shared_->meeting.meet(wait_);
}

void ThreadGroup::all_reduce_sum(std::span<float> values) {
  std::vector<float> sum(values.size(), 0);
  exchange(values, [&] {
    for (const std::span<const float> part : shared_->lent) {
      std::transform(part.begin(), part.end(), sum.begin(), sum.begin(), std::plus<>());
    }
  });
  std::copy(sum.begin(), sum.end(), values.begin());
}

void ThreadGroup::all_reduce_max(std::span<float> values) {
  std::vector<float> most(values.begin(), values.end());
  exchange(values, [&] {
    for (const std::span<const float> part : shared_->lent) {
      std::transform(part.begin(), part.end(), most.begin(), most.begin(),
                     [](float a, float b) { return std::max(a, b); });
    }
  });
  std::copy(most.begin(), most.end(), values.begin());
}

void ThreadGroup::all_gather(std::span<const float> shard, std::span<float> whole) {
  exchange(shard, [&] {
    auto to = whole.begin();
    for (const std::span<const float> part : shared_->lent) {
      to = std::copy(part.begin(), part.end(), to);
    }
  });
}

void ThreadGroup::reduce_scatter(std::span<const float> whole, std::span<float> shard) {
  const Slice own = shard_of(std::ssize(whole), member_, size());
  MEGATWIN_ASSERT(own.size == std::ssize(shard), own.size, " into ", shard.size());
  std::fill(shard.begin(), shard.end(), 0.0F);
  exchange(whole, [&] {
    for (const std::span<const float> part : shared_->lent) {
      const auto from = own.of(part);
      std::transform(from.begin(), from.end(), shard.begin(), shard.begin(), std::plus<>());
    }
  });
}

void ThreadGroup::all_to_all(const AllToAll& arguments) {
  shared_->lent_sizes[static_cast<std::size_t>(member_)] = arguments.send_sizes;
  exchange(arguments.send, [&] {
    auto to = arguments.receive.begin();
    for (std::size_t source = 0; source < shared_->lent.size(); ++source) {
      const auto sizes = shared_->lent_sizes[source];
      const std::int64_t before =
          std::accumulate(sizes.begin(), sizes.begin() + member_, std::int64_t{0});
      const std::int64_t size = sizes[static_cast<std::size_t>(member_)];
      MEGATWIN_ASSERT(size == arguments.receive_sizes[source], "member ", source, " sends ", size);
      const auto from = Slice{before, size}.of(shared_->lent[source]);
      to = std::copy(from.begin(), from.end(), to);
    }
  });
}

}  // namespace megatwin::exec
