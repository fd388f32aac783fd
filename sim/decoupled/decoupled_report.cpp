// What a report says of a decoupled step: the breakdown is that of the backward rank that works
// longest, since forward ranks wait for nobody else.
#include <algorithm>
#include <string>
#include <utility>

#include "model/assert.h"
#include "model/counted.h"
#include "model/parameters.h"
#include "sim/decoupled/decoupled_job.h"
#include "sim/memory_report.h"

namespace megatwin::sim {
namespace {

using model::Bytes;
using model::Job;
using model::JobProgram;
using model::Seconds;

// One forward and one backward a stage, whose activation stands for all that are held at once.
PipelineResult one_of_each(int stages) {
  PipelineResult result;
  result.shape = {.pipeline = stages, .model_chunks = 1, .micro_batches = 1};
  const policies::Order order = {result.shape.task_id({model::TaskKind::Forward, {0}, {0}}),
                                 result.shape.task_id({model::TaskKind::Backward, {0}, {0}})};
  result.ranks.resize(static_cast<std::size_t>(stages));
  for (RankResult& rank : result.ranks) rank.order = order;
  return result;
}

// Of all instances of a side, the most at once.
struct Held {
  int activations = 0, weight_inputs = 0;
  Bytes together;
};
Held held_at(const DecoupledResult& result, bool forward_side, int stage) {
  Held held;
  for (const DecoupledRank& rank : result.ranks) {
    if (rank.forward_side != forward_side || rank.stage.value != stage) continue;
    held.activations = std::max(held.activations, rank.activations_max);
    held.weight_inputs = std::max(held.weight_inputs, rank.weight_inputs_max);
    held.together = std::max(held.together, rank.held_max);
  }
  return held;
}

// Memory of one side.
void fill_memory_of(const Job& job, JobProgram program, const DecoupledResult& result,
                    bool forward_side, SimulationReport& report) {
  const int stages = job.plan.pipeline;
  program.spec.micro_batches = 1;  // As in one_of_each().
  for (int s = 0; s < stages; ++s) {
    model::ChunkCost& chunk = program.spec.stages[static_cast<std::size_t>(s)].chunks.front();
    chunk.activation = held_at(result, forward_side, s).together;
    if (forward_side) chunk.backward_transient = {};
  }
  fill_memory(job, {program}, one_of_each(stages), report);
  for (int s = 0; s < stages; ++s) {
    StageMemory& memory = report.memory[static_cast<std::size_t>(s)];
    const Held held = held_at(result, forward_side, s);
    memory.side = forward_side ? "forward" : "backward";
    if (!memory.largest_term.starts_with("activations")) continue;
    memory.largest_term = "activations of " + model::counted(held.activations, "micro-batch");
    if (held.weight_inputs > 0) {
      memory.largest_term +=
          ", weight gradients' inputs of up to " + std::to_string(held.weight_inputs);
    }
  }
}

// Of both sides: the backward ranks by stage, then the forward ranks.
void fill_side_memory(const DecoupledJob& priced, const DecoupledResult& result,
                      SimulationReport& report) {
  SimulationReport side;
  fill_memory_of(priced.forward, forward_ranks_program(priced), result, true, side);
  fill_memory_of(priced.backward, priced.backward_program, result, false, report);
  report.fits = report.fits && side.fits;
  report.sides[0].memory_peak = side.memory_peak;
  report.sides[0].memory_limit = side.memory_limit;
  report.sides[1].memory_peak = report.memory_peak;
  report.sides[1].memory_limit = report.memory_limit;
  if (ratio(side.memory_peak / side.memory_limit) >
      ratio(report.memory_peak / report.memory_limit)) {
    report.memory_peak = side.memory_peak;
    report.memory_limit = side.memory_limit;
    report.memory_allocated = side.memory_allocated;
  }
  for (StageMemory& memory : side.memory) report.memory.push_back(std::move(memory));
}

void fill_sides(const DecoupledJob& priced, const DecoupledResult& result,
                SimulationReport& report) {
  const auto add = [&](const char* name, const Job& job, int instances, bool forward) {
    report.sides.push_back({.name = name,
                            .gpu = job.cluster.groups.front().gpu.name,
                            .tensor = job.plan.tensor,
                            .instances = instances,
                            .ranks = job.plan.gpus(),
                            .busy = result.busy_share(forward)});
  };
  add("forward", priced.forward, priced.spec.forward_instances, true);
  add("backward", priced.backward, priced.spec.backward_instances, false);
}

// Of the backward rank that works longest.
void fill_breakdown(const DecoupledJob& priced, const DecoupledRank& rank,
                    SimulationReport& report) {
  const auto s = static_cast<std::size_t>(rank.stage.value);
  const model::PricedChunk& chunk = priced.backward_program.stages[s].chunks.front();
  const double m = static_cast<double>(priced.spec.micro_batches) / priced.spec.backward_instances;
  model::TaskPrice work = chunk.backward;
  if (priced.spec.feed == policies::DecoupledFeed::StageInput) work = work + chunk.forward;
  StepBreakdown& parts = report.breakdown;
  parts.exposed_tp = m * work.exposed_tp;
  parts.exposed_ep = m * work.exposed_ep;
  parts.exposed_cp = m * work.exposed_cp;
  parts.exposed_pp = model::to_seconds(rank.exposed_pp);
  parts.exposed_dp = model::to_seconds(rank.exposed_dp);
  parts.optimizer = model::to_seconds(rank.optimizer);
  parts.bubble = model::to_seconds(rank.bubble);
  parts.other = priced.backward_program.step_overhead;
  // Weight gradients left to the other side are no part of it, and tasks are rounded.
  parts.compute = report.step_time -
                  (parts.exposed_tp + parts.exposed_ep + parts.exposed_cp + parts.exposed_pp +
                   parts.exposed_dp + parts.optimizer + parts.bubble + parts.other);
  report.bubble_fraction = ratio(parts.bubble / report.step_time);
  report.compute_shares = {{"tasks", parts.compute}};
  report.critical_stage = rank.stage.value;
}

const DecoupledRank& busiest_backward(const DecoupledResult& result) {
  const DecoupledRank* busiest = nullptr;
  for (const DecoupledRank& rank : result.ranks) {
    if (rank.forward_side) continue;
    if (busiest == nullptr || rank.busy > busiest->busy) busiest = &rank;
  }
  MEGATWIN_ASSERT(busiest != nullptr, result.ranks.size());
  return *busiest;
}

// Without the schedule nobody waits for another rank: the step is as long as the rank that has most
// to do, with the collectives at its ends.
void leave_out_schedule(const DecoupledSpec& spec, DecoupledResult& result) {
  result.makespan = {};
  for (DecoupledRank& rank : result.ranks) {
    const DecoupledStage& stage = spec.stages[static_cast<std::size_t>(rank.stage.value)];
    rank.exposed_pp = rank.bubble = {};
    rank.exposed_dp = rank.forward_side ? stage.weights : stage.reduce;
    rank.finish = rank.busy + rank.exposed_dp + rank.optimizer;
    result.makespan = std::max(result.makespan, rank.finish);
  }
  for (DecoupledRank& rank : result.ranks) rank.bubble = result.makespan - rank.finish;
}

// FLOP that run, those of forwards that are run again included.
model::Flop executed_flop(const Job& job, const DecoupledJob& priced) {
  model::Flop flop{};
  const bool again = priced.spec.feed == policies::DecoupledFeed::StageInput;
  const auto of_side = [&](const Job& side, const JobProgram& program, bool forward,
                           bool backward) {
    for (const model::PricedStage& stage : program.stages) {
      const model::PricedChunk& chunk = stage.chunks.front();
      const double ranks = side.plan.tensor;
      if (forward) flop += ranks * chunk.forward.flop;
      if (backward) flop += ranks * chunk.backward.flop;
    }
  };
  of_side(priced.forward, priced.forward_program, true, false);
  of_side(priced.backward, priced.backward_program, again, true);
  return static_cast<double>(priced.spec.micro_batches) * job.plan.data * job.plan.context * flop;
}

}  // namespace

bool sides_fit(const DecoupledJob& job, const DecoupledResult& result) {
  SimulationReport report;
  fill_sides(job, result, report);
  fill_side_memory(job, result, report);
  return report.fits;
}

void report_decoupled(const Job& job, const DecoupledJob& priced,
                      const model::PricedEffects& effects, bool timeline,
                      SimulationReport& report) {
  DecoupledResult result = simulate_decoupled(priced.spec);
  if (!effects.pipeline_schedule) leave_out_schedule(priced.spec, result);
  report.step_time = model::to_seconds(result.makespan) + priced.backward_program.step_overhead;
  fill_sides(priced, result, report);
  fill_breakdown(priced, busiest_backward(result), report);
  fill_side_memory(priced, result, report);
  report.hardware_flop_per_step = executed_flop(job, priced);
  const model::ParameterCounts counts = model::count_parameters(job.transformer);
  report.parameters_total = counts.total;
  report.parameters_active = counts.active;
  for (const model::PricedStage& stage : priced.backward_program.stages) {
    report.parameters_per_stage.push_back(stage.parameters.total());
  }
  report.ranks_simulated = static_cast<int>(result.ranks.size());
  report.events = result.events;
  report.engine = result.by_executor ? "events" : "instances";
  if (timeline) report.timeline = std::move(result.timeline);
  if (job.plan.decoupled.balance_weights) {
    const int moved = weights_moved(priced.spec);
    report.assumptions.push_back(
        "The forward ranks work out the weight gradients of " +
        (moved == 0 ? "no micro-batch: no share was found that makes the step shorter and fits."
                    : std::to_string(moved) + " of " + std::to_string(priced.spec.micro_batches) +
                          " micro-batches, with the shortest step that was found to fit."));
  }
}

}  // namespace megatwin::sim
