#include "sim/delayed_program.h"

#include <algorithm>

#include "model/numbers.h"
#include "model/program/data_parallel.h"

namespace megatwin::sim {
namespace {

using model::as_index;
using model::ChunkCost;
using model::Job;
using model::JobProgram;
using model::PricedChunk;
using model::Seconds;
using model::StageCost;
using model::TaskPrice;

void lengthen(model::Instant& instant, Seconds more) {
  instant.ns += model::round_to_instant(more).ns;
}

void delay_data_parallel(const Job& job, double factor, PricedChunk& chunk, ChunkCost& cost) {
  if (factor == 1) return;
  chunk.gather = factor * chunk.gather;
  chunk.reduce = factor * chunk.reduce;
  if (job.plan.zero_stage >= 2) {
    // Inside the tasks, layer by layer: the part that waits grows.
    const Seconds forward = (factor - 1) * chunk.sharded_forward;
    const Seconds backward = (factor - 1) * chunk.sharded_backward;
    chunk.sharded_forward += forward;
    chunk.sharded_backward += backward;
    lengthen(cost.forward, forward);
    lengthen(cost.backward, backward);
    lengthen(cost.backward_input, backward);
  }
  const auto exposed = [&](Seconds traffic, const TaskPrice& task, bool overlapped) {
    return model::exposed_part({.traffic = traffic,
                                .compute = task.duration,
                                .layers = static_cast<double>(std::max(1, chunk.content.layers())),
                                .slowdown = job.profile.communication_sm_slowdown,
                                .overlapped = overlapped});
  };
  if (chunk.reduce_exposed.value > 0) {
    chunk.reduce_exposed = exposed(chunk.reduce, chunk.backward,
                                   job.plan.overlap_grad_reduce && job.plan.zero_stage < 3);
  }
  if (chunk.gather_exposed.value > 0) {
    chunk.gather_exposed = exposed(chunk.gather, chunk.forward,
                                   job.plan.overlap_param_gather && job.plan.zero_stage < 3);
  }
  cost.gradient_reduce = model::round_to_instant(chunk.reduce_exposed);
  cost.parameter_gather = model::round_to_instant(chunk.gather_exposed);
}

}  // namespace

DelayedProgram::DelayedProgram(const Job& job, const JobProgram& plain,
                               const GroupContention& contention)
    : job_(job), plain_(plain), contention_(contention), worst_(plain) {
  for (int s = 0; s < job.plan.pipeline; ++s) {
    Factors worst;
    for (int replica = 0; replica < job.plan.data; ++replica) {
      const Factors one = of_unit(replica, s);
      worst = {std::max(worst.tensor, one.tensor), std::max(worst.context, one.context),
               std::max(worst.expert, one.expert)};
    }
    worst_factors_.push_back(worst);
    for (std::size_t c = 0; c < worst_.stages[as_index(s)].chunks.size(); ++c) {
      PricedChunk& chunk = worst_.stages[as_index(s)].chunks[c];
      ChunkCost& cost = worst_.spec.stages[as_index(s)].chunks[c];
      lengthen(cost.forward, delay(chunk.forward, worst));
      const Seconds backward = delay(chunk.backward, worst);
      lengthen(cost.backward, backward);
      lengthen(cost.backward_input, backward);
      delay_data_parallel(job, contention.data[as_index(s)], chunk, cost);
    }
  }
}

DelayedProgram::Factors DelayedProgram::of_unit(int replica, int stage) const {
  const std::size_t unit = as_index(std::int64_t{replica} * job_.plan.pipeline + stage);
  return {contention_.tensor[unit], contention_.context[unit], contention_.expert[unit]};
}

bool DelayedProgram::differs(int replica, int stage) const {
  return of_unit(replica, stage) != worst_factors_[as_index(stage)];
}

// Traffic inside a task that nothing hides grows with its factor. What hides goes on hiding.
Seconds DelayedProgram::delay(TaskPrice& price, const Factors& factors) {
  const Seconds more = (factors.tensor - 1) * price.exposed_tp +
                       (factors.context - 1) * price.exposed_cp +
                       (factors.expert - 1) * price.exposed_ep;
  price.exposed_tp = factors.tensor * price.exposed_tp;
  price.exposed_cp = factors.context * price.exposed_cp;
  price.exposed_ep = factors.expert * price.exposed_ep;
  price.duration += more;
  return more;
}

StageCost DelayedProgram::stage_cost(int replica, int stage) const {
  StageCost cost = worst_.spec.stages[as_index(stage)];
  const Factors own = of_unit(replica, stage), worst = worst_factors_[as_index(stage)];
  for (std::size_t c = 0; c < cost.chunks.size(); ++c) {
    const PricedChunk& plain = plain_.stages[as_index(stage)].chunks[c];
    // Each is rounded as the worst was, so that what comes out is what it would be alone.
    const auto less = [&](TaskPrice task) {
      TaskPrice same = task;
      return model::round_to_instant(delay(task, worst)).ns -
             model::round_to_instant(delay(same, own)).ns;
    };
    const auto forward = less(plain.forward), backward = less(plain.backward);
    cost.chunks[c].forward.ns -= forward;
    cost.chunks[c].backward.ns -= backward;
    cost.chunks[c].backward_input.ns -= backward;
  }
  return cost;
}

TaskPrice DelayedProgram::forward(int replica, int stage, int chunk) const {
  TaskPrice price = plain_.stages[as_index(stage)].chunks[as_index(chunk)].forward;
  delay(price, of_unit(replica, stage));
  return price;
}

TaskPrice DelayedProgram::backward(int replica, int stage, int chunk) const {
  TaskPrice price = plain_.stages[as_index(stage)].chunks[as_index(chunk)].backward;
  delay(price, of_unit(replica, stage));
  return price;
}

JobProgram DelayedProgram::of_replica(int replica) const {
  JobProgram program = worst_;
  for (int s = 0; s < job_.plan.pipeline; ++s) {
    if (!differs(replica, s)) continue;
    program.spec.stages[as_index(s)] = stage_cost(replica, s);
    model::PricedStage& stage = program.stages[as_index(s)];
    for (std::size_t c = 0; c < stage.chunks.size(); ++c) {
      stage.chunks[c].forward = forward(replica, s, static_cast<int>(c));
      stage.chunks[c].backward = backward(replica, s, static_cast<int>(c));
    }
  }
  return program;
}

// The weight part of a split backward is kernels only.
StageCost slowed(const StageCost& plain, const model::PricedStage& stage, double factor) {
  StageCost cost = plain;
  const double more = factor - 1;
  for (std::size_t c = 0; c < cost.chunks.size(); ++c) {
    const PricedChunk& priced = stage.chunks[c];
    ChunkCost& chunk = cost.chunks[c];
    const auto kernels = [](const TaskPrice& price) { return price.compute() - price.host_bound; };
    const Seconds backward = kernels(priced.backward);
    lengthen(chunk.forward, more * kernels(priced.forward));
    // A split backward's parts share its kernels.
    const Seconds weight = std::min(model::to_seconds(plain.chunks[c].backward_weight), backward);
    lengthen(chunk.backward, more * backward);
    lengthen(chunk.backward_weight, more * weight);
    lengthen(chunk.backward_input, more * (backward - weight));
  }
  lengthen(cost.optimizer, more * stage.optimizer);
  return cost;
}

}  // namespace megatwin::sim
