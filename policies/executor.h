// The Executor of one rank: a state machine between a program, something that orders its tasks, and
// a world. It is handed one event at a time, issues what it can and returns; it never waits and
// knows no clock. It holds only state: what each task still waits for, what is ready, memory and
// slots. Not thread-safe: one thread hands it events.
//
// Tasks of one rank run in one lane in the order of issue, so a task may be issued as soon as those
// of its own rank that it needs have been issued; messages and parameters must have arrived.
#ifndef MEGATWIN_POLICIES_EXECUTOR_H_
#define MEGATWIN_POLICIES_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "model/ids.h"
#include "model/program/decision_record.h"
#include "model/program/program.h"
#include "policies/backend.h"
#include "policies/policy.h"

namespace megatwin::policies {

// Who says which task comes next.
enum class OrderSource : std::uint8_t {
  List,      // A static order, walked; no observation is ever built.
  Policy,    // Asked at every event; its picks are announced to the group.
  Announced  // The leader of the group, by events.
};

struct ExecutorOptions {
  int issue_depth = 2;  // Tasks that may be issued and not done.
  model::Bytes memory_limit{std::numeric_limits<double>::infinity()};
  int receive_slots = 0;  // A channel; 0 for no limit. Needs overlapping transfers.
  // A policy's tasks that add to a chunk's gradients are issued in the order of the micro-batches,
  // as all our schedules have them: all sum alike. An order file is run as it is written.
  bool gradients_in_order = true;
};

// Working memory that all Executors of a thread share.
struct ExecutorScratch {
  std::vector<model::TaskId> ready;
};

struct ExecutorSetup {
  const model::Program& program;
  model::RankId rank;
  Backend& backend;
  ExecutorScratch& scratch;
  OrderSource source = OrderSource::List;
  std::span<const model::TaskId> order;  // OrderSource::List.
  Policy* policy = nullptr;              // OrderSource::Policy.
  ExecutorOptions options;
  model::ExecutorLog* log = nullptr;  // Borrowed; may be null.
};

class Executor {
 public:
  // Everything in `setup` but `options` is borrowed and must outlive the Executor.
  explicit Executor(const ExecutorSetup& setup);

  // The first event of a step is StepStarted. Requires: accepts(event).
  void on_event(const model::ExecutorEvent& event);

  // Whether the event can happen in this state: a task that was issued is done, a message arrives
  // once for a task that still waits, and so on.
  bool accepts(const model::ExecutorEvent& event) const;

  // The optimizer step is done.
  bool finished() const { return finished_; }

  // Why a rank whose policy decides has stopped, in words: what is ready and withheld from the
  // policy by which rule, or what it does not pick. Empty when it waits for other ranks.
  std::string why_stopped() const;

  model::Bytes memory_used() const { return memory_used_; }

  // What this object holds, itself included: at most 8 KB up to 1,024 tasks, then 8 bytes a task.
  std::size_t state_bytes() const;
  static constexpr std::size_t state_bytes_max(int num_tasks) {
    return num_tasks <= 1024 ? 8192 : 8 * static_cast<std::size_t>(num_tasks);
  }

 private:
  struct ChunkState {
    std::int32_t gradients_issued = 0;  // Tasks that add to the gradients of the chunk.
    std::int32_t gradients_done = 0;
    std::int32_t finish_rank = 0;  // The chunk that finished n-th, at index n.
  };
  struct MovingAverage {
    std::int64_t ns = 0;
  };

  void on_task_done(const model::ExecutorEvent& event);
  void on_chunk_done(model::ChunkId chunk);
  void on_credit(std::int32_t channel);
  std::span<const model::TaskId> issued() const;
  void satisfy(model::TaskId task);
  void release_memory(const model::Task& task);
  void update_average(const model::Task& task, model::QuantisedDuration duration);

  void advance();
  void walk_list(std::span<const model::TaskId> order);
  bool ask_policy();
  void collect_ready();
  bool may_issue(model::TaskId task) const;
  bool fits(const model::Task& task) const;  // A forward, below the memory limit.
  void issue(model::TaskId task);
  void issue_send(model::TaskId task);
  void record_decision(std::int32_t task, std::uint64_t hash);

  std::uint8_t& waits(model::TaskId task) { return waits_[static_cast<std::size_t>(task.value)]; }
  ChunkState& chunk_state(model::ChunkId chunk) {
    return chunks_[static_cast<std::size_t>(chunk.value)];
  }
  void set_ready(model::TaskId task, bool ready);

  const model::Program* program_;
  Backend* backend_;
  ExecutorScratch* scratch_;
  std::span<const model::TaskId> order_;
  Policy* policy_;
  model::ExecutorLog* log_;
  model::RankId rank_;
  OrderSource source_;
  ExecutorOptions options_;

  std::size_t position_ = 0;  // In the list or the announced order.
  int in_flight_ = 0;
  int tasks_done_ = 0;
  int chunks_done_ = 0;
  int chunks_reduced_ = 0;
  bool finished_ = false;
  model::Bytes memory_used_;
  std::int32_t free_slots_[model::kNumChannels];  // Below 0: minus the sends held for want of one.

  std::vector<std::uint8_t> waits_;   // Still to come, or kIssued, or kDone.
  std::vector<std::uint64_t> ready_;  // A bit a task; only when a policy decides.
  std::vector<std::uint64_t> held_;   // Tasks whose send waits for a slot; only with a limit.
  // What the leader announced; of a policy with a limit of slots what it picked.
  std::vector<model::TaskId> sequence_;
  std::vector<ChunkState> chunks_;
  std::vector<MovingAverage> averages_;
  std::vector<model::QuantisedDuration> average_codes_;
};

}  // namespace megatwin::policies

#endif  // MEGATWIN_POLICIES_EXECUTOR_H_
