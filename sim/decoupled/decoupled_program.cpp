#include "sim/decoupled/decoupled_program.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "model/assert.h"
#include "model/program/program_builder.h"
#include "policies/schedule.h"
#include "sim/event_engine.h"
#include "sim/pipeline_costs.h"
#include "sim/step_analysis.h"
#include "sim/step_times.h"

namespace megatwin::sim {
namespace {

using model::PipelineSide;
using model::ProgramSpec;
using model::TaskKind;
using policies::DecoupledFeed;

// The most spans that overlap. One that ends when another begins does not.
int most_at_once(const std::vector<std::pair<Nanoseconds, Nanoseconds>>& spans) {
  std::vector<std::pair<Nanoseconds, int>> changes;
  for (const auto& [begin, end] : spans) {
    changes.emplace_back(begin, 1);
    changes.emplace_back(end, -1);
  }
  std::sort(changes.begin(), changes.end());
  int now = 0;
  int most = 0;
  for (const auto& [time, change] : changes) {
    now += change;
    most = std::max(most, now);
  }
  return most;
}

// Where the times of the tasks of one stage lie.
class StageTimes {
 public:
  StageTimes(const PipelineCosts& costs, const StepTimes& times, int stage)
      : costs_(costs), times_(times), stage_(stage) {}

  Nanoseconds end(int side, TaskKind kind, int micro_batch) const {
    return times_.end[slot(side, kind, micro_batch)];
  }
  Nanoseconds forward_begin(int micro_batch) const {
    return end(0, TaskKind::Forward, micro_batch) - costs_.task[costs_.task_index(0, stage_, 0, 0)];
  }
  Nanoseconds fed(int micro_batch) const {
    return times_.crossing[slot(0, TaskKind::Forward, micro_batch)];
  }

 private:
  std::size_t slot(int side, TaskKind kind, int micro_batch) const {
    const model::PipelineShape& shape = costs_.class_shape(side);
    return costs_.first_slot[static_cast<std::size_t>(side)] +
           SlotLayout{shape}.task(stage_, shape.task_id({kind, {micro_batch}, {0}}));
  }
  const PipelineCosts& costs_;
  const StepTimes& times_;
  int stage_;
};

// Activations at the forward and the backward rank of a stage. One at a time where the forward is
// run again: the forward rank then keeps nothing.
std::pair<int, int> activations_max(const DecoupledSpec& spec, const StageTimes& times) {
  if (spec.feed == DecoupledFeed::StageInput) {
    return {0, 1};
  }
  std::vector<std::pair<Nanoseconds, Nanoseconds>> unsent, unfinished;
  for (int n = 0; n < spec.micro_batches; ++n) {
    const Nanoseconds begin = times.forward_begin(n);
    unsent.emplace_back(begin, times.fed(n));
    unfinished.emplace_back(begin, times.end(1, TaskKind::Backward, n));
  }
  return {most_at_once(unsent), most_at_once(unfinished)};
}

}  // namespace

bool is_program(const DecoupledSpec& spec) {
  return spec.forward_instances == 1 && spec.backward_instances == 1 && spec.weight_share == 0;
}

std::vector<ProgramSpec> sides_of(const DecoupledSpec& spec) {
  MEGATWIN_ASSERT(is_program(spec), spec.forward_instances, " to ", spec.backward_instances);
  const bool again = spec.feed == DecoupledFeed::StageInput;
  ProgramSpec forward{.pipeline = static_cast<int>(spec.stages.size()),
                      .micro_batches = spec.micro_batches,
                      .schedule = model::ScheduleKind::Decoupled,
                      .overlap_p2p = true,
                      .feed = again ? model::SideFeed::StageInput : model::SideFeed::Activations};
  ProgramSpec backward = forward;
  forward.side = PipelineSide::Forward;
  backward.side = PipelineSide::Backward;
  for (std::size_t s = 0; s < spec.stages.size(); ++s) {
    const DecoupledStage& stage = spec.stages[s];
    const bool is_last = s + 1 == spec.stages.size();
    forward.stages.push_back(
        {.chunks = {{.forward = stage.forward, .parameter_gather = stage.weights}}});
    backward.stages.push_back({.chunks = {{.forward = again ? stage.again : model::Instant{},
                                           .backward = stage.backward,
                                           .gradient_reduce = stage.reduce}},
                               .optimizer = stage.optimizer});
    forward.hops.push_back({.activation = stage.send_activation, .gradient = {}});
    backward.hops.push_back(
        {.activation = {},
         .gradient = is_last ? model::Instant{} : spec.stages[s + 1].send_gradient});
    forward.crossings.push_back({.feed = stage.feed, .fed_max = again ? 0 : stage.waiting_max});
  }
  backward.crossings = forward.crossings;
  return {forward, backward};
}

DecoupledResult simulate_as_program(const DecoupledSpec& spec) {
  const std::vector<ProgramSpec> sides = sides_of(spec);
  const PipelineCosts costs = pipeline_costs({replica_class(sides[0]), replica_class(sides[1])});
  std::vector<std::vector<model::Program>> programs;
  std::vector<std::vector<policies::Order>> static_orders;
  for (const ProgramSpec& side : sides) {
    programs.push_back(build_programs(side));
    static_orders.push_back(policies::schedule_orders(side));
  }
  const EventRun run = run_events({.costs = costs, .programs = programs, .orders = static_orders});
  MEGATWIN_ASSERT(run.stalled.empty(), run.stalled.front());

  const std::vector<TaskRows> tables(costs.shapes.begin(), costs.shapes.end());
  std::vector<const TaskRows*> rows;
  for (const TaskRows& table : tables) rows.push_back(&table);
  std::vector<const policies::Order*> orders;
  for (const policies::Order& order : run.executed) orders.push_back(&order);
  PipelineResult step = analyse_step({.costs = costs,
                                      .rows = rows,
                                      .times = run.times,
                                      .orders = orders,
                                      .multiplicities = {1, 1},
                                      .programs = &programs,
                                      .timeline = true});
  DecoupledResult result{.makespan = step.makespan,
                         .ranks = {},
                         .timeline = std::move(step.timeline),
                         .events = run.events,
                         .by_executor = true};
  const std::size_t num_stages = spec.stages.size();
  for (std::size_t unit = 0; unit < step.ranks.size(); ++unit) {
    const RankResult& rank = step.ranks[unit];
    const bool is_forward = unit < num_stages;
    const auto [unsent, unfinished] =
        activations_max(spec, StageTimes(costs, run.times, rank.stage.value));
    const int held = is_forward ? unsent : unfinished;
    const DecoupledStage& stage = spec.stages[static_cast<std::size_t>(rank.stage.value)];
    const DecoupledSizes& sizes = is_forward ? stage.on_forward : stage.on_backward;
    result.ranks.push_back({.forward_side = is_forward,
                            .stage = rank.stage,
                            .busy = rank.compute,
                            .exposed_pp = rank.exposed_p2p,
                            .exposed_dp = rank.exposed_data_parallel,
                            .optimizer = rank.optimizer,
                            .bubble = rank.bubble,
                            .finish = rank.finish,
                            .activations_max = held,
                            .held_max = static_cast<double>(held) * sizes.activation});
  }
  return result;
}

}  // namespace megatwin::sim
