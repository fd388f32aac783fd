#include <bit>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "exec/host_backend.h"
#include "exec/host_job.h"
#include "exec/lockstep.h"
#include "exec/norm_exchange.h"
#include "exec/rank_model.h"
#include "exec/replica_exchange.h"
#include "exec/thread_groups.h"
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
using Activity = HostWorld::Activity;

// What all ranks of a run read.
struct RunShared {
  explicit RunShared(const HostJob& host_job)
      : job(host_job),
        spec(host_program_spec(job)),
        programs(model::build_programs(spec)),
        orders(job.policy ? std::vector<policies::Order>{} : policies::schedule_orders(spec)),
        shape(model_shape(job.transformer, job.plan, job.experts)),
        layout(job.plan),
        lockstep(lockstep_groups(job.plan, layout)),
        world(layout.num_ranks()),
        norm(world),
        step_end(world, all_ranks()),
        micro_batch_losses(static_cast<std::size_t>(job.plan.data * job.plan.context) *
                           static_cast<std::size_t>(job.plan.num_micro_batches())) {
    for (int stage = 0; stage < job.plan.pipeline; ++stage) {
      for (std::int32_t chunk = 0; chunk < job.plan.model_chunks; ++chunk) {
        exchanges.push_back(std::make_unique<ReplicaExchange>(
            world, ReplicaExchangeSetup{.layout = layout,
                                        .stage = {stage},
                                        .chunk = {chunk},
                                        .zero_stage = job.plan.zero_stage}));
      }
    }
    if (shape.tied) {
      tie_ends();
    }
  }
  ReplicaExchange& exchange(model::StageId stage, std::size_t chunk) {
    const auto first = static_cast<std::size_t>(stage.value * job.plan.model_chunks);
    return *exchanges[first + chunk];
  }
  // The embedding is in the first virtual stage, the head in the last one.
  void tie_ends() {
    const model::PipelineShape& pipeline = programs.front().shape;
    const int last = pipeline.virtual_stages() - 1;
    if (last == 0) {
      return;
    }
    const auto exchange_of = [&](int virtual_stage) -> ReplicaExchange& {
      return exchange(pipeline.stage_of(virtual_stage),
                      static_cast<std::size_t>(pipeline.chunk_of(virtual_stage).value));
    };
    ReplicaExchange::tie(exchange_of(0), exchange_of(last));
  }
  std::vector<RankId> all_ranks() const {
    std::vector<RankId> ranks;
    for (std::int32_t rank = 0; rank < layout.num_ranks(); ++rank) {
      ranks.push_back({rank});
    }
    return ranks;
  }

  const HostJob job;  // A copy: a rank that hangs may outlive the caller's.
  model::ProgramSpec spec;
  std::vector<model::Program> programs;  // One a stage.
  std::vector<policies::Order> orders;   // One a stage, without a policy.
  ModelShape shape;
  model::RankLayout layout;
  std::vector<std::vector<RankId>> lockstep;  // By rank.
  HostWorld world;
  NormExchange norm;
  MeetingPoint step_end;
  std::vector<std::unique_ptr<ReplicaExchange>> exchanges;  // By stage, then chunk.
  // Of the step that runs: each element is written by one rank, read by rank 0 between the two
  // meetings that end the step.
  std::vector<double> micro_batch_losses;
  std::vector<double> losses, gradient_norms;
  bool last_step = false;  // Said by rank 0 between the meetings.
  std::vector<ChunkState> state;
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

// One rank: what it owns, and the loop of its thread.
class HostRank {
 public:
  HostRank(RunShared& shared, RankId rank, ThreadGroups groups)
      : shared_(shared),
        rank_(rank),
        coordinates_(shared.layout.coordinates(rank)),
        program_(shared.programs[static_cast<std::size_t>(coordinates_.pipeline)]),
        groups_(std::move(groups)),
        model_({shared.job, shared.shape, program_, coordinates_}, groups_.all(), arena_plan()),
        backend_({shared.job, shared.layout, program_, rank, shared.world, model_, lockstep(),
                  join_exchanges(), shared.norm, shared.start}) {
    groups_.wait_by([this](const auto& done) { wait(done); });
    report_.rank = rank;
    report_.stage = program_.stage;
  }

  // The body of the thread.
  void run() {
    try {
      step_ = shared_.job.first_step;
      while (step_ < shared_.job.steps && !shared_.last_step) {
        run_step();
        ++step_;
      }
    } catch (const WorldStopped&) {
      return;
    } catch (const std::exception& error) {
      const bool between = shared_.world.activity(rank_).task == Activity::BetweenSteps;
      shared_.world.fail(
          {rank_, step_, between ? "after the step" : backend_.activity(), error.what()});
    }
  }

  HostRankReport take_report() {
    report_.executed = backend_.executed();
    report_.state = model_.state_bytes();
    report_.timeline = backend_.timeline();
    report_.activations_max = model_.memory().live_max();
    report_.activations_reserved = model_.memory().high_water();
    return std::move(report_);
  }
  RankModel& model() { return model_; }
  RankId rank() const { return rank_; }
  // From any thread.
  std::string text_of(const Activity& activity) const {
    switch (activity.task) {
      case Activity::Waits:
        return "waits for another rank";
      case Activity::BetweenSteps:
        return "after the step";
      case Activity::Optimizer:
        return "optimizer";
    }
    return to_text(program_.tasks[static_cast<std::size_t>(activity.task)]);
  }

 private:
  std::span<const RankId> lockstep() const {
    return shared_.lockstep[static_cast<std::size_t>(rank_.value)];
  }
  bool decides() const { return lockstep().front() == rank_; }

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
      ReplicaExchange& exchange = shared_.exchange(program_.stage, chunk);
      ModelChunk& part = *model_.chunks()[chunk];
      exchange.add({rank_, part.units(), &part.table()});
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
    if (dynamic && decides()) {
      policy_ = job.policy(program_, rank_);  // A step stands for itself.
    }
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
      const auto num_micro_batches =
          static_cast<double>(shared_.job.plan.num_micro_batches() * shared_.job.plan.data);
      shared_.losses.push_back(sum / num_micro_batches);
      if (const auto norm = shared_.norm.norm()) {
        shared_.gradient_norms.push_back(*norm);
      }
      shared_.norm.reset();
      if (shared_.job.on_step) {
        shared_.world.set_activity(rank_, {step_, Activity::BetweenSteps});
        shared_.last_step = !shared_.job.on_step({step_, shared_.losses.back(), shared_.state});
        shared_.world.progress();
      }
    }
    shared_.step_end.meet(wait_here);
  }

  void keep_losses() {
    const bool has_head = model_.chunks().back()->part().has_head;
    if (!has_head || coordinates_.tensor != 0) {
      return;
    }
    const int replica = coordinates_.data * shared_.job.plan.context + coordinates_.context;
    const std::size_t first = static_cast<std::size_t>(replica) * backend_.losses().size();
    for (std::size_t i = 0; i < backend_.losses().size(); ++i) {
      shared_.micro_batch_losses[first + i] = backend_.losses()[i];
    }
  }

  void consume_events() {
    events_.clear();
    shared_.world.mailbox(rank_).take_events(events_);
    for (const model::ExecutorEvent& event : events_) {
      backend_.note_event(event);
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

  // Whether the run has come to a stand is found out by whoever waits for the ranks.
  void park() {
    const Activity before = shared_.world.activity(rank_);
    shared_.world.set_activity(rank_, {step_, Activity::Waits});
    shared_.world.mailbox(rank_).park(shared_.job.watchdog);
    shared_.world.set_activity(rank_, before);
    if (shared_.world.failed()) {
      throw WorldStopped();
    }
  }

  RunShared& shared_;
  RankId rank_;
  RankCoordinates coordinates_;
  const model::Program& program_;
  ThreadGroups groups_;
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
  ThreadGroupMaker maker(shared.world, shared.layout);
  for (const RankId rank : shared.all_ranks()) {
    ranks.push_back(std::make_unique<HostRank>(shared, rank, maker.groups_of(rank)));
  }
  return ranks;
}

// The threads of a run, kept alive by each of them.
struct HostRun : std::enable_shared_from_this<HostRun> {
  explicit HostRun(const HostJob& job) : shared(job), ranks(make_ranks(shared)) {
    for (const auto& rank : ranks) {
      const auto state = rank->model().state(rank->rank());
      shared.state.insert(shared.state.end(), state.begin(), state.end());
    }
    if (job.on_start) {
      job.on_start(shared.state);
    }
  }

  void start() {
    for (const auto& rank : ranks) {
      threads.emplace_back([self = shared_from_this(), &rank = *rank] {
        rank.run();
        const std::lock_guard lock(self->mutex);
        ++self->num_ended;
        self->ended.notify_one();
      });
    }
  }

  // Ends the run when nothing gets done. Whether all threads have ended: one that hangs is left to
  // itself a second after the fault.
  bool wait_for_all() {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::milliseconds kLook{20};
    constexpr std::chrono::seconds kGrace{1};
    Clock::time_point moved = Clock::now();
    std::uint64_t progress = shared.world.progress_made();
    std::unique_lock lock(mutex);
    while (num_ended < std::ssize(ranks)) {
      ended.wait_for(lock, kLook);
      const Clock::time_point now = Clock::now();
      if (shared.world.failed()) {
        if (now - moved > kGrace + shared.job.watchdog) break;
        continue;
      }
      const bool between = shared.world.activity({0}).task == Activity::BetweenSteps;
      if (between || progress != shared.world.progress_made()) {
        progress = shared.world.progress_made();
        moved = now;
      } else if (now - moved > shared.job.watchdog) {
        shared.world.fail(stand_still());
      }
    }
    const bool all = num_ended == std::ssize(ranks);
    lock.unlock();
    for (std::thread& thread : threads) {
      all ? thread.join() : thread.detach();
    }
    return all;
  }

  // Who is inside of something while nothing gets done; else all wait for each other, and it is the
  // first.
  Fault stand_still() {
    const std::string what =
        "no rank got anything done for " + std::to_string(shared.job.watchdog.count()) + " ms";
    for (const auto& rank : ranks) {
      const Activity activity = shared.world.activity(rank->rank());
      if (activity.task != Activity::Waits) {
        return {rank->rank(), activity.step, rank->text_of(activity), what};
      }
    }
    const Activity activity = shared.world.activity({0});
    return {{0}, activity.step, ranks.front()->text_of(activity), what};
  }

  RunShared shared;
  std::vector<std::unique_ptr<HostRank>> ranks;
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable ended;
  int num_ended = 0;
};

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
  const auto run = std::make_shared<HostRun>(job);
  run->start();
  HostResult result;
  result.abandoned = !run->wait_for_all();
  result.losses = run->shared.losses;
  result.fault = run->shared.world.fault();
  if (result.abandoned) {
    return result;
  }
  result.gradient_norms = run->shared.gradient_norms;
  result.weights_hash = 0xcbf29ce484222325u;
  for (const auto& rank : run->ranks) {
    result.ranks.push_back(rank->take_report());
    for (const auto& chunk : rank->model().chunks()) {
      result.weights_hash = hash_weights(result.weights_hash, chunk->weights());
    }
  }
  return result;
}

}  // namespace megatwin::exec
