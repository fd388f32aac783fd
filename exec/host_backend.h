// The host world behind policies/backend.h, for one rank: what the Executor issues is queued and
// run by the rank's own thread when it asks for work, so that all calls return at once. Messages go
// to the mailbox of the receiver when their producer is done, through the world when it is in
// another process, and wait in the outbox for a receive slot where these are limited; data-parallel
// traffic is joined, see exec/replica_exchange.h.
#ifndef MEGATWIN_EXEC_HOST_BACKEND_H_
#define MEGATWIN_EXEC_HOST_BACKEND_H_

#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/host_job.h"
#include "exec/host_layout.h"
#include "exec/norm_exchange.h"
#include "exec/rank_model.h"
#include "exec/replica_exchange.h"
#include "exec/side_crossing.h"
#include "model/program/event_record.h"
#include "model/program/program.h"
#include "policies/backend.h"

namespace megatwin::exec {

struct HostBackendSetup {
  const HostJob& job;
  const HostLayout& layout;
  const model::Program& program;
  model::RankId rank;
  HostWorld& world;
  RankModel& model;
  std::span<const model::RankId> lockstep;  // See exec/lockstep.h.
  std::vector<ReplicaExchange*> exchanges;  // One a chunk.
  SideCrossing* crossing = nullptr;         // Decoupled.
  NormExchange& norm;
  std::chrono::steady_clock::time_point start;  // Of the run.
};

class HostBackend : public policies::Backend {
 public:
  // Everything is borrowed.
  explicit HostBackend(const HostBackendSetup& setup);

  void issue_task(model::RankId rank, model::TaskId task) override;
  void issue_send(model::RankId rank, model::TaskId producer) override;
  void issue_crossing(model::RankId rank, model::TaskId producer) override;
  void issue_gather(model::RankId rank, model::ChunkId chunk) override;
  void issue_reduce(model::RankId rank, model::ChunkId chunk) override;
  void issue_optimizer(model::RankId rank) override;
  void return_credit(model::RankId rank, model::TaskId consumer) override;
  void announce(model::RankId rank, model::TaskId task) override;

  void start_step(int step);
  // The rank's Executor consumed `event`: ends what was issued and runs elsewhere.
  void note_event(const model::ExecutorEvent& event);
  // Runs the next thing in the compute lane and gives the event in which it ended; nothing when
  // the lane is empty or must wait.
  std::optional<model::ExecutorEvent> run_next();
  // Messages that were made and wait for a receive slot.
  bool has_unsent() const { return !outbox().is_empty(); }
  // After the last task. Requires: nothing is unsent.
  void end_step();
  // What the lane is at, for messages.
  const std::string& activity() const { return activity_; }

  const std::vector<model::EventRecord>& timeline() const { return timeline_; }
  const policies::Order& executed() const { return executed_; }
  // Mean losses of the micro-batches that this rank finished the forward of, in their order.
  const std::vector<double>& losses() const { return losses_; }

 private:
  void run_task(model::TaskId id);
  void run_optimizer();
  void send(model::TaskId producer, std::vector<float> message);
  Outbox& outbox() const { return setup_.world.outbox(setup_.rank); }
  std::vector<float> take_input(model::TaskId task);
  void cross(model::TaskId producer, std::span<const float> numbers);
  // The rank that is at `stage` of this side with this rank's other coordinates.
  model::RankId at_stage(model::StageId stage) const;
  // The task of this very rank that goes on with the micro-batch after `task`.
  std::optional<model::TaskId> local_consumer(const model::Task& task) const;
  bool is_first_of_pipeline(const model::Task& task) const;
  void check_finite(const RankModel::Outcome& outcome) const;
  bool records() const { return step_ - setup_.job.first_step < setup_.job.timeline_steps; }
  model::Instant at(std::chrono::steady_clock::time_point time) const;
  model::Instant now() const { return at(std::chrono::steady_clock::now()); }
  struct Span {
    model::Instant start, end;
  };
  void record(model::Lane lane, model::EventKind kind, const model::Task& task, const Span& span);

  HostBackendSetup setup_;
  model::RankCoordinates coordinates_;
  int step_ = 0;
  std::deque<model::TaskId> lane_;
  bool optimizer_issued_ = false;
  std::vector<bool> may_cross_;  // By producer.
  policies::Order executed_;
  std::vector<double> losses_;
  std::string activity_ = "start";
  std::vector<model::EventRecord> timeline_;
  std::map<model::ChunkId, model::Instant> gathers_, reduces_;  // Issued and not done.
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_HOST_BACKEND_H_
