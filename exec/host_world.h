// What the ranks of a host run share: their mailboxes, the meetings at which threads wait for each
// other, and the first fault, which stops everybody.
#ifndef MEGATWIN_EXEC_HOST_WORLD_H_
#define MEGATWIN_EXEC_HOST_WORLD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/mailbox.h"
#include "exec/rank_group.h"
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

class HostWorld {
 public:
  explicit HostWorld(int num_ranks);

  int num_ranks() const { return static_cast<int>(mailboxes_.size()); }
  Mailbox& mailbox(model::RankId rank) { return *mailboxes_[static_cast<std::size_t>(rank.value)]; }

  // Keeps the first fault and wakes all ranks. From any thread.
  void fail(const Fault& fault);
  bool failed() const { return failed_.load(); }
  std::optional<Fault> fault() const;

  // What each rank is at, for whoever finds that nothing moves. Told by the rank's own thread.
  struct Activity {
    enum Kind : std::int32_t { Waits = -1, BetweenSteps = -2, Optimizer = -3 };
    std::int32_t step = 0;
    std::int32_t task = Waits;  // A TaskId, or a Kind.
  };
  void set_activity(model::RankId rank, Activity activity) { activity_of(rank).store(activity); }
  Activity activity(model::RankId rank) { return activity_of(rank).load(); }

  // A count that moves whenever any rank gets something done.
  void progress() { progress_.fetch_add(1); }
  std::uint64_t progress_made() const { return progress_.load(); }

 private:
  std::atomic<Activity>& activity_of(model::RankId rank) {
    return activities_[static_cast<std::size_t>(rank.value)];
  }

  std::vector<std::unique_ptr<Mailbox>> mailboxes_;
  std::vector<std::atomic<Activity>> activities_;
  std::atomic<bool> failed_{false};
  std::atomic<std::uint64_t> progress_{0};
  mutable std::mutex mutex_;
  std::optional<Fault> fault_;
};

// How a rank waits: returns when `done` is true, and throws WorldStopped when the world fails.
using Wait = std::function<void(const std::function<bool()>& done)>;

// A place where some ranks meet again and again.
class MeetingPoint {
 public:
  // The world is borrowed.
  MeetingPoint(HostWorld& world, std::vector<model::RankId> members)
      : world_(world), members_(std::move(members)) {}

  int size() const { return static_cast<int>(members_.size()); }
  // Returns when all members have come.
  void meet(const Wait& wait);

 private:
  HostWorld& world_;
  std::vector<model::RankId> members_;
  std::mutex mutex_;
  int arrived_ = 0;
  std::atomic<std::uint64_t> round_{0};
};

// A group of ranks that are threads: each reads what the others lend it.
struct ThreadGroupShared {
  ThreadGroupShared(HostWorld& world, std::vector<model::RankId> members)
      : meeting(world, members), lent(members.size()), lent_sizes(members.size()) {}
  MeetingPoint meeting;
  // By member, between two meetings. Sizes: of an all-to-all.
  std::vector<std::span<const float>> lent;
  std::vector<std::span<const std::int64_t>> lent_sizes;
};

class ThreadGroup : public RankGroup {
 public:
  ThreadGroup(std::shared_ptr<ThreadGroupShared> shared, int member)
      : shared_(std::move(shared)), member_(member) {}
  // Before the first call. While it waits, the rank goes on consuming events.
  void wait_by(Wait wait) { wait_ = std::move(wait); }

  int size() const override { return shared_->meeting.size(); }
  int member() const override { return member_; }
  void all_reduce_sum(std::span<float> values) override;
  void all_reduce_max(std::span<float> values) override;
  void all_gather(std::span<const float> shard, std::span<float> whole) override;
  void reduce_scatter(std::span<const float> whole, std::span<float> shard) override;
  void all_to_all(const AllToAll& arguments) override;

 private:
  // Lends `values` to the others while `read` reads what all lend.
  void exchange(std::span<const float> values, const std::function<void()>& read);

  std::shared_ptr<ThreadGroupShared> shared_;
  int member_;
  Wait wait_;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_HOST_WORLD_H_
