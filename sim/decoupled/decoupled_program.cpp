#include "sim/decoupled/decoupled_program.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "model/assert.h"
#include "model/program/decoupled_sides.h"
#include "model/program/program_builder.h"
#include "model/program/task.h"
#include "policies/schedule.h"
#include "sim/decoupled/decoupled_instances.h"
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

// Where the times of the tasks of one stage lie, by micro-batch.
class StageTimes {
 public:
  StageTimes(const PipelineCosts& costs, const StepTimes& times, int stage)
      : costs_(costs), times_(times), stage_(stage) {}

  Nanoseconds forward_begin(int micro_batch) const {
    const At at = find(PipelineSide::Forward, TaskKind::Forward, micro_batch);
    return times_.end[at.slot] - costs_.task[costs_.task_index(at.replica_class, stage_, 0, 0)];
  }
  Nanoseconds fed(int micro_batch) const {
    return times_.crossing[find(PipelineSide::Forward, TaskKind::Forward, micro_batch).slot];
  }
  Nanoseconds backward_end(int micro_batch) const {
    return times_.end[find(PipelineSide::Backward, TaskKind::Backward, micro_batch).slot];
  }

 private:
  struct At {
    int replica_class;
    std::size_t slot;
  };
  At find(PipelineSide side, TaskKind kind, int micro_batch) const {
    const int instance = micro_batch % costs_.instances.of(side);
    const int replica_class =
        instance + (side == PipelineSide::Forward ? 0 : costs_.instances.forward);
    const model::PipelineShape& shape = costs_.class_shape(replica_class);
    return {replica_class,
            costs_.first_slot[static_cast<std::size_t>(replica_class)] +
                SlotLayout{shape}.task(stage_, shape.task_id({kind, {micro_batch}, {0}}))};
  }
  const PipelineCosts& costs_;
  const StepTimes& times_;
  int stage_;
};

// Activations at a rank. One at a time where the forward is run again: a forward rank then keeps
// nothing.
int activations_max(const DecoupledSpec& spec, const StageTimes& times,
                    const model::PipelineShape& shape) {
  const bool is_forward = shape.side == PipelineSide::Forward;
  if (spec.feed == DecoupledFeed::StageInput) {
    return is_forward ? 0 : 1;
  }
  std::vector<std::pair<Nanoseconds, Nanoseconds>> spans;
  for (int place = 0; place < shape.micro_batches; ++place) {
    const int n = shape.micro_batch(place).value;
    spans.emplace_back(times.forward_begin(n), is_forward ? times.fed(n) : times.backward_end(n));
  }
  return most_at_once(spans);
}

}  // namespace

bool is_program(const DecoupledSpec& spec) { return spec.weight_share == 0; }

std::vector<std::vector<std::string>> forward_orders(const DecoupledSpec& spec) {
  std::vector<std::vector<std::string>> orders;
  if (is_program(spec)) return orders;
  const DecoupledResult decided = simulate_instances(spec);
  const std::size_t num_forward =
      static_cast<std::size_t>(spec.forward_instances) * spec.stages.size();
  for (std::size_t rank = 0; rank < num_forward; ++rank) {
    std::vector<std::string>& order = orders.emplace_back();
    for (const model::Task& task : decided.orders[rank]) order.push_back(to_text(task));
  }
  return orders;
}

std::vector<ProgramSpec> sides_of(const DecoupledSpec& spec) {
  const bool again = spec.feed == DecoupledFeed::StageInput;
  model::DecoupledSides sides{
      .forward = {.pipeline = static_cast<int>(spec.stages.size()),
                  .micro_batches = spec.micro_batches},
      .feed = again ? model::SideFeed::StageInput : model::SideFeed::Activations,
      .instances = {spec.forward_instances, spec.backward_instances},
      .weight_share = weights_moved(spec) > 0 ? spec.weight_share : 0,
      .forward_orders = forward_orders(spec)};
  sides.backward = sides.forward;
  for (std::size_t s = 0; s < spec.stages.size(); ++s) {
    const DecoupledStage& stage = spec.stages[s];
    const bool is_last = s + 1 == spec.stages.size();
    sides.forward.stages.push_back({.chunks = {{.forward = stage.forward,
                                                .backward_weight = stage.weight_on_forward,
                                                .parameter_gather = stage.weights}}});
    sides.backward.stages.push_back({.chunks = {{.forward = stage.again,
                                                 .backward = stage.backward,
                                                 .backward_input = stage.backward_input,
                                                 .gradient_reduce = stage.reduce}},
                                     .optimizer = stage.optimizer});
    sides.forward.hops.push_back({.activation = stage.send_activation, .gradient = {}});
    sides.backward.hops.push_back(
        {.activation = {},
         .gradient = is_last ? model::Instant{} : spec.stages[s + 1].send_gradient});
    sides.crossings.push_back({.feed = stage.feed,
                               .fed_max = stage.waiting_max,
                               .weight_input = stage.weight_input,
                               .gradients = stage.gradients});
  }
  return decoupled_sides(sides);
}

DecoupledResult simulate_as_program(const DecoupledSpec& spec) {
  const std::vector<ProgramSpec> sides = sides_of(spec);
  std::vector<ReplicaClass> classes;
  std::vector<std::vector<model::Program>> programs;
  std::vector<std::vector<policies::Order>> static_orders;
  for (const ProgramSpec& side : sides) {
    classes.push_back(replica_class(side));
    programs.push_back(build_programs(side));
    static_orders.push_back(policies::schedule_orders(side));
  }
  const PipelineCosts costs = pipeline_costs(classes);
  const EventRun run = run_events({.costs = costs, .programs = programs, .orders = static_orders});
  MEGATWIN_ASSERT(run.stalled.empty(), run.stalled.front());

  const std::vector<TaskRows> tables(costs.shapes.begin(), costs.shapes.end());
  std::vector<const TaskRows*> rows;
  rows.reserve(tables.size());
  for (const TaskRows& table : tables) rows.push_back(&table);
  std::vector<const policies::Order*> orders;
  for (const policies::Order& order : run.executed) orders.push_back(&order);
  PipelineResult step = analyse_step({.costs = costs,
                                      .rows = rows,
                                      .times = run.times,
                                      .orders = orders,
                                      .multiplicities = std::vector<int>(classes.size(), 1),
                                      .programs = &programs,
                                      .timeline = true});
  DecoupledResult result{.makespan = step.makespan,
                         .ranks = {},
                         .timeline = std::move(step.timeline),
                         .events = run.events,
                         .by_executor = true};
  const int num_stages = static_cast<int>(spec.stages.size());
  for (std::size_t unit = 0; unit < step.ranks.size(); ++unit) {
    const RankResult& rank = step.ranks[unit];
    const model::PipelineShape& shape = costs.class_shape(static_cast<int>(unit) / num_stages);
    const bool is_forward = shape.side == PipelineSide::Forward;
    const int held = activations_max(spec, StageTimes(costs, run.times, rank.stage.value), shape);
    const DecoupledStage& stage = spec.stages[static_cast<std::size_t>(rank.stage.value)];
    const DecoupledSizes& sizes = is_forward ? stage.on_forward : stage.on_backward;
    result.ranks.push_back({.forward_side = is_forward,
                            .instance = shape.instance,
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
