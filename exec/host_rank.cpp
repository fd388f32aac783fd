#include "exec/host_rank.h"

#include <bit>
#include <exception>
#include <utility>

#include "exec/lockstep.h"
#include "exec/report_letter.h"
#include "model/assert.h"
#include "model/fnv_hash.h"
#include "model/program/memory_planner.h"
#include "model/program/program_builder.h"

namespace megatwin::exec {
namespace {

using model::RankId;
using policies::Executor;
using policies::OrderSource;
using Activity = HostWorld::Activity;

constexpr Channel kStateWanted{Topic::StateWanted, 0};
constexpr Channel kState{Topic::State, 0};
constexpr Channel kWeightsHash{Topic::WeightsHash, 0};
constexpr Channel kReport{Topic::Report, 0};
constexpr RankId kRank0{0};

// Goes on from the hash of the ranks before, four bytes at a time.
std::uint64_t hash_of(std::uint64_t before, std::span<const float> weights) {
  model::FnvHash hash(before);
  for (const float weight : weights) {
    hash.add_whole(std::bit_cast<std::uint32_t>(weight));
  }
  return hash.value();
}

}  // namespace

RunShared::RunShared(const HostJob& host_job, const LocalRanks& local, Carrier* carrier)
    : job(host_job),
      layout(job.plan),
      specs(host_program_specs(job)),
      programs(model::build_programs(specs)),
      orders(job.policy ? std::vector<policies::Order>{} : policies::schedule_orders(specs)),
      shape(model_shape(job.transformer, side_plan(job.plan, model::PipelineSide::Forward),
                        job.experts)),
      backward_shape(model_shape(job.transformer,
                                 side_plan(job.plan, model::PipelineSide::Backward), job.experts)),
      lockstep(lockstep_groups(job.plan, layout)),
      world(layout.num_ranks(), local, carrier) {}

const model::Program& RunShared::program_of(RankId rank) const {
  return programs[static_cast<std::size_t>(layout.role(rank))];
}

const model::StageCost& RunShared::stage_of(RankId rank) const {
  const auto role = static_cast<std::size_t>(layout.role(rank));
  const auto num_stages = static_cast<std::size_t>(program_of(rank).shape.pipeline);
  return specs[role / num_stages].stages[role % num_stages];
}

SlotPoolPlan RunShared::slot_pool_of(RankId rank) const {
  return plan_slot_pool(
      program_of(rank), stage_of(rank),
      {.live_activations = job.plan.live_activations, .memory_limit = job.executor.memory_limit});
}

const ModelShape& RunShared::shape_of(RankId rank) const {
  return layout.instance(rank).side == model::PipelineSide::Backward ? backward_shape : shape;
}

std::string RunShared::text_of(RankId rank, const Activity& activity) const {
  switch (activity.task) {
    case Activity::Start:
      return "start";
    case Activity::BetweenSteps:
      return "after the step";
    case Activity::Optimizer:
      return "optimizer";
    case Activity::End:
      return "after the last step";
  }
  return to_text(program_of(rank).tasks[static_cast<std::size_t>(activity.task)]);
}

HostRank::HostRank(RunShared& shared, RankId rank)
    : shared_(shared),
      rank_(rank),
      coordinates_(shared.layout.coordinates(rank)),
      program_(shared.program_of(rank)),
      groups_(shared.world, shared.layout, rank),
      model_({shared.job, shared.shape_of(rank), program_, coordinates_}, groups_.all(),
             planned_memory()),
      norm_(shared.world, rank),
      meeting_(shared.world, rank),
      backend_({shared.job, shared.layout, program_, rank, shared.world, model_, lockstep(),
                make_exchanges(), make_crossing(), norm_, shared.start}) {
  groups_.wait_by([this](const auto& done) { wait(done); });
  report_.rank = rank;
  report_.stage = {shared.layout.role(rank)};
}

void HostRank::run() {
  try {
    step_ = shared_.job.first_step;
    while (step_ < shared_.job.steps && !last_step_) {
      run_step();
      end_step();
      ++step_;
    }
    shared_.world.set_activity(rank_, {step_, Activity::End});
    hash_weights();
    gather_reports();
  } catch (const WorldStopped&) {
    return;
  } catch (const std::exception& error) {
    const bool between = shared_.world.activity(rank_).task == Activity::BetweenSteps;
    shared_.world.fail(
        {rank_, step_, between ? "after the step" : backend_.activity(), error.what()});
  }
}

HostRankReport HostRank::take_report() {
  report_.executed = backend_.executed();
  report_.state = model_.state_bytes();
  report_.timeline = backend_.timeline();
  report_.activations_max = model_.memory().live_max();
  report_.activations_reserved = model_.memory().reserved();
  return std::move(report_);
}

// Of an order that is known its arena, else slots for what the rank may admit.
RankMemory HostRank::planned_memory() const {
  if (shared_.job.policy) {
    return RankMemory(shared_.slot_pool_of(rank_));
  }
  return RankMemory(
      model::plan_arena({program_.shape, shared_.stage_of(rank_), shared_.orders[role()]}));
}

std::vector<ReplicaExchange*> HostRank::make_exchanges() {
  std::vector<ReplicaExchange*> exchanges;
  for (const auto& chunk : model_.chunks()) {
    const auto index = static_cast<std::int32_t>(exchanges_.size());
    exchanges_.push_back(std::make_unique<ReplicaExchange>(
        ReplicaExchangeSetup{.world = shared_.world,
                             .shape = shared_.shape_of(rank_),
                             .layout = shared_.layout,
                             .rank = rank_,
                             .chunk = {index},
                             .units = chunk->units(),
                             .weights = chunk->weights(),
                             .gradients = chunk->gradients(),
                             .table = chunk->table(),
                             .tied = tied_copy(chunk->part()),
                             .other_side = other_side(chunk->part())}));
    exchanges.push_back(exchanges_.back().get());
  }
  return exchanges;
}

// The embedding is in the first virtual stage, the head in the last one.
std::optional<TiedCopy> HostRank::tied_copy(const ChunkPart& part) const {
  if (!shared_.shape_of(rank_).tied || part.has_embedding == part.has_head) {
    return std::nullopt;
  }
  const model::PipelineShape& pipeline = program_.shape;
  const int other = part.has_head ? 0 : pipeline.virtual_stages() - 1;
  model::RankCoordinates coordinates = coordinates_;
  coordinates.pipeline = pipeline.stage_of(other).value;
  return TiedCopy{.rank = shared_.layout.rank_at(shared_.layout.instance(rank_), coordinates),
                  .is_head = part.has_head};
}

std::optional<OtherSide> HostRank::other_side(const ChunkPart& part) const {
  if (program_.shape.side == model::PipelineSide::Both) {
    return std::nullopt;
  }
  const SideWeightsRequest request{.layout = shared_.layout,
                                   .forward = shared_.shape,
                                   .backward = shared_.backward_shape,
                                   .instances = instances_of(shared_.job.plan),
                                   .part = part,
                                   .rank = rank_};
  OtherSide other{.transfers = weight_transfers(request),
                  .gradients = {},
                  .steps_here = program_.shape.side == model::PipelineSide::Backward};
  if (program_.shape.leaves_weights()) {
    other.gradients = gradient_transfers(request);
  }
  return other;
}

SideCrossing* HostRank::make_crossing() {
  if (program_.shape.side == model::PipelineSide::Both) {
    return nullptr;
  }
  crossing_.emplace(SideCrossing::Setup{
      .world = shared_.world,
      .layout = shared_.layout,
      .program = program_,
      .instances = instances_of(shared_.job.plan),
      .numbers = {.forward = shared_.shape,
                  .backward = shared_.backward_shape,
                  .part = model_.chunks().front()->part(),
                  .feeds_activations = shared_.job.plan.decoupled.ship_activations},
      .rank = rank_});
  return &*crossing_;
}

void HostRank::run_step() {
  const HostJob& job = shared_.job;
  if (job.log) {
    report_.logs.emplace_back();
  }
  const bool dynamic = static_cast<bool>(job.policy);
  if (dynamic && decides()) {
    policy_ = job.policy(program_, rank_);  // A step stands for itself.
  }
  policies::ExecutorScratch scratch;
  Executor executor({.program = program_,
                     .rank = rank_,
                     .backend = backend_,
                     .scratch = scratch,
                     .source = !dynamic    ? OrderSource::List
                               : decides() ? OrderSource::Policy
                                           : OrderSource::Announced,
                     .order = dynamic ? std::span<const model::TaskId>{}
                                      : std::span<const model::TaskId>{shared_.orders[role()]},
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
      // What came while the task ran came before its end.
      consume_events();
      executor.on_event(*event);
      continue;
    }
    park();
  }
  executor_ = nullptr;
  backend_.end_step();
}

// What comes until the first meeting is over is of this step; nobody goes on before the second one.
void HostRank::end_step() {
  const Wait wait_here = [this](const auto& done) { wait(done); };
  const double loss = mean_loss(meeting_.meet(own_losses(), wait_here));
  shared_.world.mailbox(rank_).clear_events();
  if (is_first_here()) {
    shared_.losses.push_back(loss);
    if (const auto norm = norm_.norm()) {
      shared_.gradient_norms.push_back(*norm);
    }
  }
  norm_.reset();
  const bool goes_on = rank_ != kRank0 || between_steps();
  const std::vector<ByteVector> said =
      meeting_.meet(bytes_of(std::span<const bool>(&goes_on, 1)), [&](const auto& done) {
        wait([&] {
          give_state_when_wanted();
          return done();
        });
      });
  last_step_ = !ByteReader(said[0]).get<bool>();
}

bool HostRank::between_steps() {
  if (!shared_.job.on_step) {
    return true;
  }
  shared_.world.set_activity(rank_, {step_, Activity::BetweenSteps});
  const bool goes_on = shared_.job.on_step(
      {.step = step_, .loss = shared_.losses.back(), .state = [this] { return all_state(); }});
  shared_.world.progress();
  return goes_on;
}

// Of the micro-batches whose loss this rank computed, the first of its tensor-parallel group.
ByteVector HostRank::own_losses() {
  const bool has_head = model_.chunks().back()->part().has_head;
  const bool is_run_again = program_.shape.side == model::PipelineSide::Backward;
  if (!has_head || is_run_again || coordinates_.tensor != 0) {
    return {};
  }
  return bytes_of(std::span<const double>(backend_.losses()));
}

// In the order of the replicas, then of the micro-batches, whichever instance ran them. The letters
// are by rank.
double HostRank::mean_loss(const std::vector<ByteVector>& losses) const {
  const model::Plan& plan = shared_.job.plan;
  std::vector<std::vector<double>> by_replica(
      static_cast<std::size_t>(plan.data * plan.context),
      std::vector<double>(static_cast<std::size_t>(plan.num_micro_batches()), 0));
  for (std::int32_t rank = 0; rank < std::ssize(losses); ++rank) {
    const ByteVector& letter = losses[static_cast<std::size_t>(rank)];
    if (letter.empty()) continue;
    const model::RankCoordinates at = shared_.layout.coordinates({rank});
    const int replica = at.data * plan.context + at.context;
    const model::PipelineShape& shape = shared_.program_of({rank}).shape;
    int place = 0;
    for (const double loss : values_of<double>(letter)) {
      const auto micro_batch = static_cast<std::size_t>(shape.micro_batch(place++).value);
      by_replica[static_cast<std::size_t>(replica)][micro_batch] = loss;
    }
  }
  double sum = 0;
  for (const std::vector<double>& replica : by_replica) {
    for (const double loss : replica) {
      sum += loss;
    }
  }
  return sum / static_cast<double>(plan.num_micro_batches() * plan.data);
}

std::span<const ChunkState> HostRank::all_state() {
  HostWorld& world = shared_.world;
  std::vector<RankId> others = world.ranks_but(rank_);
  std::erase_if(others, [&](RankId other) { return world.local().has(other); });
  if (others.empty()) {
    return shared_.state;
  }
  for (const RankId other : others) {
    world.send({.from = rank_, .to = other, .channel = kStateWanted}, {});
  }
  wait([&] { return world.mailbox(rank_).has_letters(others, kState); });
  state_ = shared_.state;
  letters_of_state_.clear();
  for (const RankId other : others) {
    const model::Program& program = shared_.program_of(other);
    const StateLetter& letter = letters_of_state_.emplace_back(
        shared_.shape_of(other),
        StateLetter::Writer{.rank = other,
                            .coordinates = shared_.layout.coordinates(other),
                            .parts = chunk_parts(shared_.job, program.shape, program.stage)},
        *world.mailbox(rank_).take_letter(other, kState));
    state_.insert(state_.end(), letter.state().begin(), letter.state().end());
  }
  world.progress();
  return state_;
}

void HostRank::give_state_when_wanted() {
  if (shared_.world.mailbox(rank_).take_letter(kRank0, kStateWanted)) {
    shared_.world.send({.from = rank_, .to = kRank0, .channel = kState},
                       state_letter(model_.state(rank_)));
  }
}

// From rank to rank, then back to the first. The weights of a forward side are copies of the step
// before.
void HostRank::hash_weights() {
  HostWorld& world = shared_.world;
  const auto letter_from = [&](RankId rank) {
    wait([&] { return world.mailbox(rank_).has_letters({&rank, 1}, kWeightsHash); });
    return values_of<std::uint64_t>(*world.mailbox(rank_).take_letter(rank, kWeightsHash)).front();
  };
  std::uint64_t hash = rank_ == kRank0 ? model::FnvHash().value() : letter_from({rank_.value - 1});
  if (program_.shape.side != model::PipelineSide::Forward) {
    for (const auto& chunk : model_.chunks()) {
      hash = hash_of(hash, chunk->weights());
    }
  }
  const RankId next{(rank_.value + 1) % world.num_ranks()};
  world.send({.from = rank_, .to = next, .channel = kWeightsHash},
             bytes_of(std::span<const std::uint64_t>(&hash, 1)));
  if (rank_ == kRank0) {
    shared_.weights_hash = letter_from({world.num_ranks() - 1});
  }
}

void HostRank::gather_reports() {
  HostWorld& world = shared_.world;
  const LocalRanks& local = world.local();
  if (!local.has(kRank0)) {
    world.send({.from = rank_, .to = kRank0, .channel = kReport}, report_letter(take_report()));
  } else if (rank_ == kRank0) {
    for (std::int32_t other = local.first + local.count; other < world.num_ranks(); ++other) {
      const RankId rank{other};
      wait([&] { return world.mailbox(rank_).has_letters({&rank, 1}, kReport); });
      shared_.reports_of_others.push_back(
          report_of(*world.mailbox(rank_).take_letter(rank, kReport)));
    }
  }
}

void HostRank::consume_events() {
  for (const auto& exchange : exchanges_) {
    exchange->advance();
  }
  if (crossing_) {
    crossing_->advance();
  }
  events_.clear();
  shared_.world.mailbox(rank_).take_events(events_);
  for (const model::ExecutorEvent& event : events_) {
    backend_.note_event(event);
    executor_->on_event(event);
  }
}

// A rank that waits inside a task for its group goes on consuming events, so that a credit or an
// announcement that others need is never stuck behind it.
void HostRank::wait(const std::function<bool()>& done) {
  const bool computed = shared_.world.computes(rank_);
  shared_.world.set_computes(rank_, false);  // A policy, whose code may hang, may be asked here.
  while (!done()) {
    if (executor_ != nullptr) {
      consume_events();
    }
    if (done()) {
      break;
    }
    park();
  }
  shared_.world.set_computes(rank_, computed);
}

// Whether the run has come to a stand is found out by whoever waits for the ranks.
void HostRank::park() {
  shared_.world.set_waits(rank_, true);
  shared_.world.mailbox(rank_).park(shared_.job.watchdog);
  shared_.world.set_waits(rank_, false);
  if (shared_.world.failed()) {
    throw WorldStopped();
  }
}

}  // namespace megatwin::exec
