// What a report says of a decoupled step: the breakdown is that of the backward rank that works
// longest, since forward ranks wait for nobody else.
#include <algorithm>
#include <string>
#include <utility>

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

// Memory of both sides: the backward ranks by stage, then the forward ranks.
void fill_side_memory(const Job& job, const DecoupledJob& priced, const DecoupledResult& result,
                      SimulationReport& report) {
  const int stages = job.plan.pipeline;
  JobProgram backward = priced.backward_program;
  JobProgram forward = priced.forward_program;
  backward.spec.micro_batches = forward.spec.micro_batches = 1;  // As in one_of_each().
  for (int s = 0; s < stages; ++s) {
    int held = 1;
    for (const DecoupledRank& rank : result.ranks) {
      if (rank.stage.value == s) held = std::max(held, rank.waiting_max);
    }
    const auto index = static_cast<std::size_t>(s);
    model::ChunkCost& chunk = backward.spec.stages[index].chunks.front();
    chunk.activation = static_cast<double>(held) * chunk.activation;
    model::StageCost& stage = forward.spec.stages[index];
    stage.optimizer_state = {};
    if (priced.spec.weight_share == 0) stage.gradients = {};
    stage.chunks.front().backward_transient = {};
    if (!job.plan.decoupled.ship_activations) stage.chunks.front().activation = {};
  }
  SimulationReport side;
  fill_memory(priced.forward, {forward}, one_of_each(stages), side);
  fill_memory(priced.backward, {backward}, one_of_each(stages), report);
  report.fits = report.fits && side.fits;
  for (StageMemory& memory : side.memory) {
    memory.stage += stages;
    memory.largest_term = "a forward rank of stage " + std::to_string(memory.stage - stages);
    report.memory.push_back(std::move(memory));
  }
  report.sides[0].memory_peak = side.memory_peak;
  report.sides[0].memory_limit = side.memory_limit;
  report.sides[1].memory_peak = report.memory_peak;
  report.sides[1].memory_limit = report.memory_limit;
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

void fill_breakdown(const DecoupledJob& priced, const DecoupledResult& result,
                    SimulationReport& report) {
  const DecoupledRank* busiest = nullptr;
  for (const DecoupledRank& rank : result.ranks) {
    if (rank.forward_side) continue;
    if (busiest == nullptr || rank.busy > busiest->busy) busiest = &rank;
  }
  const auto s = static_cast<std::size_t>(busiest->stage.value);
  const DecoupledStage& stage = priced.spec.stages[s];
  const model::PricedChunk& chunk = priced.backward_program.stages[s].chunks.front();
  const double m = static_cast<double>(priced.spec.micro_batches) / priced.spec.backward_instances;
  const bool again = priced.spec.feed == policies::DecoupledFeed::StageInput;
  const auto per_step = [&](Seconds forward, Seconds backward) {
    return m * (backward + (again ? forward : Seconds{}));
  };
  StepBreakdown& parts = report.breakdown;
  parts.exposed_tp = per_step(chunk.forward.exposed_tp, chunk.backward.exposed_tp);
  parts.exposed_ep = per_step(chunk.forward.exposed_ep, chunk.backward.exposed_ep);
  parts.exposed_cp = per_step(chunk.forward.exposed_cp, chunk.backward.exposed_cp);
  parts.exposed_dp = model::to_seconds(stage.reduce);
  parts.optimizer = model::to_seconds(stage.optimizer);
  parts.other = priced.backward_program.step_overhead;
  parts.compute =
      model::to_seconds(busiest->busy) - parts.exposed_tp - parts.exposed_ep - parts.exposed_cp;
  parts.bubble =
      report.step_time - (parts.compute + parts.exposed_tp + parts.exposed_ep + parts.exposed_cp +
                          parts.exposed_dp + parts.optimizer + parts.other);
  report.bubble_fraction = ratio(parts.bubble / report.step_time);
  report.compute_shares = {{"matrix products", parts.compute}};
  report.critical_stage = busiest->stage.value;
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

void report_decoupled(const Job& job, const model::PricedEffects& effects, bool timeline,
                      SimulationReport& report) {
  const DecoupledJob priced = price_decoupled(job, effects);
  DecoupledResult result = simulate_decoupled(priced.spec);
  report.step_time = model::to_seconds(result.makespan) + priced.backward_program.step_overhead;
  fill_sides(priced, result, report);
  fill_breakdown(priced, result, report);
  fill_side_memory(job, priced, result, report);
  report.hardware_flop_per_step = executed_flop(job, priced);
  const model::ParameterCounts counts = model::count_parameters(job.transformer);
  report.parameters_total = counts.total;
  report.parameters_active = counts.active;
  for (const model::PricedStage& stage : priced.backward_program.stages) {
    report.parameters_per_stage.push_back(stage.parameters.total());
  }
  report.ranks_simulated = static_cast<int>(result.ranks.size());
  report.events = result.events;
  report.engine = "decoupled";
  if (timeline) report.timeline = std::move(result.timeline);
  if (job.plan.decoupled.balance_weights) {
    report.assumptions.push_back(
        "The forward ranks work out the weight gradients of " +
        std::to_string(static_cast<int>(100 * priced.spec.weight_share + 0.5)) +
        " % of the micro-batches, which balances the sides.");
  }
}

}  // namespace megatwin::sim
