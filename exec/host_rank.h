// One rank of a host run: what it owns, and the loop of its thread.
#ifndef MEGATWIN_EXEC_HOST_RANK_H_
#define MEGATWIN_EXEC_HOST_RANK_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/chunk_state.h"
#include "exec/host_backend.h"
#include "exec/host_job.h"
#include "exec/host_layout.h"
#include "exec/letter_group.h"
#include "exec/meeting.h"
#include "exec/norm_exchange.h"
#include "exec/rank_model.h"
#include "exec/replica_exchange.h"
#include "exec/side_crossing.h"
#include "exec/slot_pool.h"
#include "exec/state_letter.h"
#include "model/program/program.h"
#include "policies/executor.h"
#include "policies/policy.h"

namespace megatwin::exec {

// What all ranks of a process read.
struct RunShared {
  RunShared(const HostJob& host_job, const LocalRanks& local, Carrier* carrier);

  const model::Program& program_of(model::RankId rank) const;
  const ModelShape& shape_of(model::RankId rank) const;
  std::string text_of(model::RankId rank, const HostWorld::Activity& activity) const;
  const model::StageCost& stage_of(model::RankId rank) const;
  // Requires: a policy.
  SlotPoolPlan slot_pool_of(model::RankId rank) const;

  const HostJob job;  // A copy: a rank that hangs may outlive the caller's.
  const HostLayout layout;
  std::vector<model::ProgramSpec> specs;             // One, or one an instance of a side.
  std::vector<model::Program> programs;              // By HostLayout::role() …
  std::vector<policies::Order> orders;               // … and these, without a policy.
  ModelShape shape, backward_shape;                  // The second of a backward side.
  std::vector<std::vector<model::RankId>> lockstep;  // By rank.
  HostWorld world;
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();

  // Written by the first local rank, read when it has ended.
  std::vector<double> losses, gradient_norms;
  std::uint64_t weights_hash = 0;                 // At rank 0.
  std::vector<HostRankReport> reports_of_others;  // At rank 0, of ranks that are not local.
  std::vector<ChunkState> state;                  // Of the local ranks.
};

class HostRank {
 public:
  // Everything is borrowed.
  HostRank(RunShared& shared, model::RankId rank);
  HostRank(const HostRank&) = delete;
  HostRank& operator=(const HostRank&) = delete;

  // The body of the thread: all steps, then what is told at the end. Faults go to the world.
  void run();

  HostRankReport take_report();
  RankModel& model() { return model_; }
  model::RankId rank() const { return rank_; }

 private:
  std::span<const model::RankId> lockstep() const {
    return shared_.lockstep[static_cast<std::size_t>(rank_.value)];
  }
  bool decides() const { return lockstep().front() == rank_; }
  bool is_first_here() const { return rank_.value == shared_.world.local().first; }

  RankMemory planned_memory() const;
  std::vector<ReplicaExchange*> make_exchanges();
  SideCrossing* make_crossing();
  std::optional<OtherSide> other_side(const ChunkPart& part) const;
  std::optional<TiedCopy> tied_copy(const ChunkPart& part) const;
  std::size_t role() const { return static_cast<std::size_t>(shared_.layout.role(rank_)); }

  void run_step();
  void end_step();
  // Rank 0 only. Whether to go on.
  bool between_steps();
  double mean_loss(const std::vector<ByteVector>& losses) const;
  ByteVector own_losses();
  std::span<const ChunkState> all_state();
  void give_state_when_wanted();
  void hash_weights();
  void gather_reports();

  void consume_events();
  void wait(const std::function<bool()>& done);
  void park();

  RunShared& shared_;
  model::RankId rank_;
  model::RankCoordinates coordinates_;
  const model::Program& program_;
  OwnGroups groups_;
  RankModel model_;
  NormExchange norm_;
  Meeting meeting_;
  std::vector<std::unique_ptr<ReplicaExchange>> exchanges_;  // One a chunk.
  std::optional<SideCrossing> crossing_;                     // Decoupled.
  HostBackend backend_;
  std::unique_ptr<policies::Policy> policy_;
  policies::Executor* executor_ = nullptr;  // While a step runs.
  int step_ = 0;
  bool last_step_ = false;
  std::vector<model::ExecutorEvent> events_;
  std::vector<StateLetter> letters_of_state_;  // Of ranks elsewhere, at rank 0.
  std::vector<ChunkState> state_;              // Of all ranks.
  HostRankReport report_;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_HOST_RANK_H_
