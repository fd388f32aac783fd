#include <bit>
#include <exception>
#include <map>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "exec/host_backend.h"
#include "exec/host_job.h"
#include "exec/norm_exchange.h"
#include "exec/rank_model.h"
#include "exec/replica_exchange.h"
#include "model/assert.h"
#include "model/program/program_builder.h"
#include "model/rank_layout.h"
#include "policies/policy_choice.h"

namespace megatwin::exec {
namespace {

using model::RankCoordinates;
using model::RankId;
using policies::Executor;
using policies::OrderSource;

// What all ranks of a run read.
struct RunShared {
  explicit RunShared(const HostJob& host_job)
      : job(host_job),
        spec(host_program_spec(job)),
        programs(model::build_programs(spec)),
        orders(job.policy ? std::vector<policies::Order>{} : policies::schedule_orders(spec)),
        shape(model_shape(job.transformer, job.plan)),
        layout(job.plan),
        world(layout.num_ranks()),
        norm(world),
        step_end(world, all_ranks()),
        micro_batch_losses(static_cast<std::size_t>(job.plan.data) *
                           static_cast<std::size_t>(job.plan.num_micro_batches())) {
    for (int stage = 0; stage < job.plan.pipeline; ++stage) {
      for (std::int32_t chunk = 0; chunk < job.plan.model_chunks; ++chunk) {
        exchanges.push_back(std::make_unique<ReplicaExchange>(
            world, ReplicaExchangeSetup{.chunk = {chunk},
                                        .tensor = job.plan.tensor,
                                        .data = job.plan.data,
                                        .shard_optimizer = job.plan.zero_stage > 0}));
      }
    }
  }
  std::vector<RankId> all_ranks() const {
    std::vector<RankId> ranks;
    for (std::int32_t rank = 0; rank < layout.num_ranks(); ++rank) {
      ranks.push_back({rank});
    }
    return ranks;
  }

  const HostJob& job;
  model::ProgramSpec spec;
  std::vector<model::Program> programs;  // One a stage.
  std::vector<policies::Order> orders;   // One a stage, without a policy.
  ModelShape shape;
  model::RankLayout layout;
  HostWorld world;
  NormExchange norm;
  MeetingPoint step_end;
  std::vector<std::unique_ptr<ReplicaExchange>> exchanges;  // By stage, then chunk.
  // Of the step that runs: each element is written by one rank, read by rank 0 between the two
  // meetings that end the step.
  std::vector<double> micro_batch_losses;
  std::vector<double> losses;
};

// One rank: what it owns, and the loop of its thread.
class HostRank {
 public:
  HostRank(RunShared& shared, RankId rank, std::unique_ptr<TensorGroup> group)
      : shared_(shared),
        rank_(rank),
        coordinates_(shared.layout.coordinates(rank)),
        program_(shared.programs[static_cast<std::size_t>(coordinates_.pipeline)]),
        group_(std::move(group)),
        model_({shared.job, shared.shape, program_, coordinates_}, *group_, arena_plan()),
        backend_({shared.job, shared.layout, program_, rank, shared.world, model_, join_exchanges(),
                  shared.norm}) {
    if (auto* threads = dynamic_cast<ThreadGroup*>(group_.get())) {
      threads->wait_by([this](const auto& done) { wait(done); });
    }
    if (decides() && shared.job.policy) {
      policy_ = shared.job.policy(program_, rank);
    }
    report_.rank = rank;
    report_.stage = program_.stage;
  }

  // The body of the thread.
  void run() {
    try {
      for (step_ = 0; step_ < shared_.job.steps; ++step_) {
        run_step();
      }
    } catch (const WorldStopped&) {
      return;
    } catch (const std::exception& error) {
      shared_.world.fail({rank_, step_, backend_.activity(), error.what()});
    }
  }

  HostRankReport take_report() {
    report_.executed = backend_.executed();
    report_.activations_max = model_.memory().live_max();
    report_.activations_reserved = model_.memory().high_water();
    return std::move(report_);
  }
  RankModel& model() { return model_; }

 private:
  bool decides() const { return coordinates_.tensor == 0; }

  std::optional<model::ArenaPlan> arena_plan() const {
    if (shared_.job.policy) {
      return std::nullopt;
    }
    const auto stage = static_cast<std::size_t>(coordinates_.pipeline);
    return model::plan_arena({program_.shape, shared_.spec.stages[stage], shared_.orders[stage]});
  }

  std::vector<ReplicaExchange*> join_exchanges() {
    std::vector<ReplicaExchange*> exchanges;
    for (std::size_t chunk = 0; chunk < model_.chunks().size(); ++chunk) {
      const std::size_t index =
          static_cast<std::size_t>(coordinates_.pipeline) * model_.chunks().size() + chunk;
      ReplicaExchange& exchange = *shared_.exchanges[index];
      ModelChunk& part = *model_.chunks()[chunk];
      exchange.add(coordinates_.tensor, coordinates_.data,
                   {rank_, part.weights(), part.gradients(), &part.table()});
      exchanges.push_back(&exchange);
    }
    return exchanges;
  }

  void run_step() {
    const HostJob& job = shared_.job;
    if (job.log) {
      report_.logs.emplace_back();
    }
    const bool dynamic = static_cast<bool>(job.policy);
    policies::ExecutorScratch scratch;
    const auto stage = static_cast<std::size_t>(coordinates_.pipeline);
    Executor executor({.program = program_,
                       .rank = rank_,
                       .backend = backend_,
                       .scratch = scratch,
                       .source = !dynamic    ? OrderSource::List
                                 : decides() ? OrderSource::Policy
                                             : OrderSource::Announced,
                       .order = dynamic ? std::span<const model::TaskId>{}
                                        : std::span<const model::TaskId>{shared_.orders[stage]},
                       .policy = policy_.get(),
                       .options = job.executor,
                       .log = job.log ? &report_.logs.back() : nullptr});
    executor_ = &executor;
    backend_.start_step(step_);
    executor.on_event({});
    // A gradient may still wait for a receive slot when the optimizer is done.
    while (!executor.finished() || backend_.has_unsent()) {
      consume_events();
      if (const auto event = backend_.run_next()) {
        executor.on_event(*event);
        continue;
      }
      park();
    }
    executor_ = nullptr;
    end_step();
  }

  // Between the two meetings nobody posts, so that what is left in the mailboxes is of this step.
  void end_step() {
    keep_losses();
    const auto wait_here = [this](const auto& done) { wait(done); };
    shared_.step_end.meet(wait_here);
    shared_.world.mailbox(rank_).clear_events();
    if (rank_.value == 0) {
      double sum = 0;
      for (const double loss : shared_.micro_batch_losses) {
        sum += loss;
      }
      shared_.losses.push_back(sum / static_cast<double>(shared_.micro_batch_losses.size()));
      shared_.norm.reset();
      if (shared_.job.on_step) {
        shared_.job.on_step(step_, shared_.losses.back());
      }
    }
    shared_.step_end.meet(wait_here);
  }

  void keep_losses() {
    const bool has_head = model_.chunks().back()->part().has_head;
    if (!has_head || coordinates_.tensor != 0) {
      return;
    }
    const std::size_t first =
        static_cast<std::size_t>(coordinates_.data) * backend_.losses().size();
    for (std::size_t i = 0; i < backend_.losses().size(); ++i) {
      shared_.micro_batch_losses[first + i] = backend_.losses()[i];
    }
  }

  void consume_events() {
    events_.clear();
    shared_.world.mailbox(rank_).take_events(events_);
    for (const model::ExecutorEvent& event : events_) {
      executor_->on_event(event);
    }
  }

  // A rank that waits inside a task for its group goes on consuming events, so that a credit or an
  // announcement that others need is never stuck behind it.
  void wait(const std::function<bool()>& done) {
    while (!done()) {
      if (executor_ != nullptr) {
        consume_events();
      }
      if (done()) {
        return;
      }
      park();
    }
  }

  void park() {
    const std::uint64_t before = shared_.world.progress_made();
    const bool came = shared_.world.mailbox(rank_).park(shared_.job.watchdog);
    if (shared_.world.failed()) {
      throw WorldStopped();
    }
    if (!came && shared_.world.progress_made() == before) {
      throw std::runtime_error("no rank got anything done for " +
                               std::to_string(shared_.job.watchdog.count()) + " ms");
    }
  }

  RunShared& shared_;
  RankId rank_;
  RankCoordinates coordinates_;
  const model::Program& program_;
  std::unique_ptr<TensorGroup> group_;
  RankModel model_;
  HostBackend backend_;
  std::unique_ptr<policies::Policy> policy_;
  Executor* executor_ = nullptr;  // While a step runs.
  int step_ = 0;
  std::vector<model::ExecutorEvent> events_;
  HostRankReport report_;
};

std::vector<std::unique_ptr<HostRank>> make_ranks(RunShared& shared) {
  std::vector<std::unique_ptr<HostRank>> ranks;
  std::map<RankId, std::shared_ptr<ThreadGroupShared>> groups;
  for (const RankId rank : shared.all_ranks()) {
    if (shared.job.plan.tensor == 1) {
      ranks.push_back(std::make_unique<HostRank>(shared, rank, std::make_unique<LoneGroup>()));
      continue;
    }
    auto& group = groups[shared.layout.leader(model::GroupKind::Tensor, rank)];
    if (!group) {
      group = std::make_shared<ThreadGroupShared>(
          shared.world, shared.layout.members(model::GroupKind::Tensor, rank));
    }
    ranks.push_back(std::make_unique<HostRank>(
        shared, rank,
        std::make_unique<ThreadGroup>(group, shared.layout.coordinates(rank).tensor)));
  }
  return ranks;
}

// Fowler-Noll-Vo 1a over the bytes.
std::uint64_t hash_weights(std::uint64_t hash, std::span<const float> weights) {
  for (const float weight : weights) {
    hash = (hash ^ std::bit_cast<std::uint32_t>(weight)) * 0x100000001b3u;
  }
  return hash;
}

}  // namespace

HostResult run_host(const HostJob& job) {
  if (!job.policy && model::is_dynamic(job.plan.schedule)) {
    HostJob decided = job;
    decided.policy = policies::policy_of(job.plan);
    return run_host(decided);
  }
  MEGATWIN_ASSERT(host_job_problems(job).empty(), host_job_problems(job).front());
  RunShared shared(job);
  auto ranks = make_ranks(shared);
  std::vector<std::thread> threads;
  threads.reserve(ranks.size());
  for (const auto& rank : ranks) {
    threads.emplace_back([&rank] { rank->run(); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  HostResult result{.losses = shared.losses, .fault = shared.world.fault()};
  result.weights_hash = 0xcbf29ce484222325u;
  for (const auto& rank : ranks) {
    result.ranks.push_back(rank->take_report());
    for (const auto& chunk : rank->model().chunks()) {
      result.weights_hash = hash_weights(result.weights_hash, chunk->weights());
    }
  }
  return result;
}

}  // namespace megatwin::exec
