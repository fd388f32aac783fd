// What the ranks of a host run share: their mailboxes and outboxes, what each is at, and the first
// fault, which stops everybody. Ranks are threads; those of other processes are reached through a
// Carrier. Everything may be called from any thread.
#ifndef MEGATWIN_EXEC_HOST_WORLD_H_
#define MEGATWIN_EXEC_HOST_WORLD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "exec/mailbox.h"
#include "exec/outbox.h"
#include "model/ids.h"

namespace megatwin::exec {

// Why a run ended early.
struct Fault {
  model::RankId rank;
  int step = 0;
  std::string task;  // As in "F0.1"; or what else the rank was at.
  std::string what;
};
std::string to_text(const Fault& fault);

// Thrown through a rank that must stop because another one failed.
struct WorldStopped {};

// Takes things to ranks of other processes. What is sent from one rank to another arrives in order.
class Carrier {
 public:
  virtual ~Carrier() = default;
  virtual void post(model::RankId to, const model::ExecutorEvent& event) = 0;
  virtual void deliver(model::RankId to, model::TaskId consumer, std::vector<float> message) = 0;
  struct Address {
    model::RankId from, to;
    Channel channel;
  };
  virtual void send(const Address& address, ByteVector letter) = 0;
};

// Ranks [first, first + count), which are threads of this process.
struct LocalRanks {
  std::int32_t first = 0;
  std::int32_t count = 0;
  bool has(model::RankId rank) const { return rank.value >= first && rank.value < first + count; }
};

class HostWorld {
 public:
  // The carrier is borrowed, and may be null when all ranks are local.
  HostWorld(int num_ranks, const LocalRanks& local, Carrier* carrier);

  int num_ranks() const { return static_cast<int>(activities_.size()); }
  const LocalRanks& local() const { return local_; }
  std::vector<model::RankId> ranks_but(model::RankId rank) const;

  // To a rank, wherever it is. A credit takes what waits for it along, see exec/outbox.h.
  void post(model::RankId to, const model::ExecutorEvent& event);
  void deliver(model::RankId to, model::TaskId consumer, std::vector<float> message);
  void send(const Carrier::Address& address, ByteVector letter);

  // Requires: the rank is local.
  Mailbox& mailbox(model::RankId rank) { return *mailboxes_[local_index(rank)]; }
  Outbox& outbox(model::RankId rank) { return *outboxes_[local_index(rank)]; }

  // Keeps the first fault and wakes all local ranks.
  void fail(const Fault& fault);
  bool failed() const { return failed_.load(); }
  std::optional<Fault> fault() const;

  // What each rank is at, for whoever finds that nothing moves or that a process is gone. Told by
  // the rank's own thread.
  struct Activity {
    enum Kind : std::int32_t { Start = -1, BetweenSteps = -2, Optimizer = -3, End = -4 };
    std::int32_t step = 0;
    std::int32_t task = Start;  // The last TaskId, or a Kind.
  };
  void set_activity(model::RankId rank, Activity activity) { at(rank).activity.store(activity); }
  Activity activity(model::RankId rank) const { return at(rank).activity.load(); }
  // Whether it waits for others, at that.
  void set_waits(model::RankId rank, bool waits) { at(rank).waits.store(waits); }
  bool waits(model::RankId rank) const { return at(rank).waits.load(); }

  // Whether it is inside of a task's arithmetic, where it may be slow. Told by the rank's own
  // thread.
  void set_computes(model::RankId rank, bool computes) {
    if (computes != this->computes(rank)) at(rank).arithmetic.fetch_add(1);
  }
  bool computes(model::RankId rank) const { return arithmetic(rank).has_value(); }
  // Which piece of arithmetic it is in: another number for each; nothing when in none.
  std::optional<std::uint64_t> arithmetic(model::RankId rank) const {
    const std::uint64_t number = at(rank).arithmetic.load();
    return number % 2 == 1 ? std::optional(number) : std::nullopt;
  }

  // A count that moves whenever a rank of this process gets something done.
  void progress() { progress_.fetch_add(1); }
  std::uint64_t progress_made() const { return progress_.load(); }

 private:
  struct RankActivity {
    std::atomic<Activity> activity;
    std::atomic<bool> waits{false};
    std::atomic<std::uint64_t> arithmetic{0};  // Begins and ends so far.
  };
  RankActivity& at(model::RankId rank) { return activities_[static_cast<std::size_t>(rank.value)]; }
  const RankActivity& at(model::RankId rank) const {
    return activities_[static_cast<std::size_t>(rank.value)];
  }

  std::size_t local_index(model::RankId rank) const;

  LocalRanks local_;
  Carrier* carrier_;
  std::vector<std::unique_ptr<Mailbox>> mailboxes_;  // Of the local ranks, and …
  std::vector<std::unique_ptr<Outbox>> outboxes_;    // … these.
  std::vector<RankActivity> activities_;
  std::atomic<bool> failed_{false};
  std::atomic<std::uint64_t> progress_{0};
  mutable std::mutex mutex_;
  std::optional<Fault> fault_;
};

// How a rank waits: returns when `done` is true, and throws WorldStopped when the world fails.
using Wait = std::function<void(const std::function<bool()>& done)>;

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_HOST_WORLD_H_
