#include "sim/delayed_program.h"

#include <algorithm>

#include "model/numbers.h"
#include "model/program/pipeline_shape.h"

namespace megatwin::sim {
namespace {

using model::as_index;
using model::ChunkCost;
using model::GroupKind;
using model::JobProgram;
using model::PricedChunk;
using model::Seconds;
using model::StageCost;
using model::TaskPrice;

void lengthen(model::Instant& instant, Seconds more) {
  instant.ns += model::round_to_instant(more).ns;
}

}  // namespace

DelayedProgram::DelayedProgram(const DelayedProgramInput& input)
    : in_(input),
      pricer_(input.job, input.effects),
      traffic_(input.job, input.effects),
      split_backward_(model::pipeline_shape(input.plain.spec).split_backward),
      worst_(input.plain) {
  for (int s = 0; s < in_.job.plan.pipeline; ++s) {
    Factors worst;
    for (int replica = 0; replica < in_.job.plan.data; ++replica) {
      const Factors one = of_unit(replica, s);
      worst = {std::max(worst.tensor, one.tensor), std::max(worst.context, one.context),
               std::max(worst.expert, one.expert),
               std::max(worst.expert_tensor, one.expert_tensor)};
    }
    worst_factors_.push_back(worst);
    for (std::size_t c = 0; c < worst_.stages[as_index(s)].chunks.size(); ++c) {
      PricedChunk& chunk = worst_.stages[as_index(s)].chunks[c];
      ChunkCost& cost = worst_.spec.stages[as_index(s)].chunks[c];
      const Prices priced = prices(s, c, worst);
      chunk.forward = priced.forward;
      chunk.backward = priced.backward;
      lengthen(cost.forward, priced.more_forward);
      lengthen(cost.backward, priced.more_backward);
      lengthen(cost.backward_input, priced.more_backward);
      delay_state(s, c);
    }
  }
}

DelayedProgram::Factors DelayedProgram::of_unit(int replica, int stage) const {
  const std::size_t unit = as_index(std::int64_t{replica} * in_.job.plan.pipeline + stage);
  const GroupContention& contention = in_.contention;
  return {contention.tensor[unit], contention.context[unit], contention.expert[unit],
          contention.expert_tensor[unit]};
}

bool DelayedProgram::differs(int replica, int stage) const {
  return of_unit(replica, stage) != worst_factors_[as_index(stage)];
}

// The weight part of a split backward is kernels only.
DelayedProgram::Prices DelayedProgram::prices(int stage, std::size_t chunk,
                                              const Factors& factors) const {
  const PricedChunk& plain = in_.plain.stages[as_index(stage)].chunks[chunk];
  if (factors == Factors{} || !plain.ops) return {plain.forward, plain.backward, {}, {}};
  const auto [known, is_new] = known_.try_emplace({plain.ops.get(), factors});
  if (!is_new) return known->second;
  const GroupAlgorithms& algorithms = in_.algorithms;
  model::LinkShares shares;
  const auto leave = [&](GroupKind kind, double factor) {
    shares[kind] = algorithms.share(kind, factor);
  };
  leave(GroupKind::Tensor, factors.tensor);
  leave(GroupKind::Context, factors.context);
  leave(GroupKind::Expert, factors.expert);
  leave(GroupKind::ExpertTensor, factors.expert_tensor);
  const model::TaskPricer pricer = pricer_.with(shares);
  Prices& priced = known->second;
  priced.forward = pricer.price(plain.ops->forward);
  priced.backward =
      split_backward_ ? pricer.price(plain.ops->backward, model::TaskPart::WithoutWeightGradient) +
                            pricer.price(plain.ops->backward, model::TaskPart::WeightGradientOnly)
                      : pricer.price(plain.ops->backward);
  priced.more_forward = priced.forward.duration - plain.forward.duration;
  priced.more_backward = priced.backward.duration - plain.backward.duration;
  return priced;
}

void DelayedProgram::delay_state(int stage, std::size_t c) {
  const double factor = in_.contention.data[as_index(stage)];
  if (factor == 1) return;
  PricedChunk& chunk = worst_.stages[as_index(stage)].chunks[c];
  ChunkCost& cost = worst_.spec.stages[as_index(stage)].chunks[c];
  model::LinkShares shares;
  for (const GroupKind kind : {GroupKind::Data, GroupKind::ExpertData}) {
    shares[kind] = in_.algorithms.share(kind, factor);
  }
  const Seconds forward = chunk.sharded_forward, backward = chunk.sharded_backward;
  traffic_.with(shares).price(chunk.content, chunk);
  // Inside the tasks, layer by layer: the part that waits grows.
  lengthen(cost.forward, chunk.sharded_forward - forward);
  lengthen(cost.backward, chunk.sharded_backward - backward);
  lengthen(cost.backward_input, chunk.sharded_backward - backward);
  cost.gradient_reduce = model::round_to_instant(chunk.reduce_exposed);
  cost.parameter_gather = model::round_to_instant(chunk.gather_exposed);
}

StageCost DelayedProgram::stage_cost(int replica, int stage) const {
  StageCost cost = worst_.spec.stages[as_index(stage)];
  const Factors own = of_unit(replica, stage), worst = worst_factors_[as_index(stage)];
  for (std::size_t c = 0; c < cost.chunks.size(); ++c) {
    // Each is rounded as the worst was, so that what comes out is what it would be alone.
    const Prices here = prices(stage, c, own), there = prices(stage, c, worst);
    const auto less = [](Seconds most, Seconds more) {
      return model::round_to_instant(most).ns - model::round_to_instant(more).ns;
    };
    const auto backward = less(there.more_backward, here.more_backward);
    cost.chunks[c].forward.ns -= less(there.more_forward, here.more_forward);
    cost.chunks[c].backward.ns -= backward;
    cost.chunks[c].backward_input.ns -= backward;
  }
  return cost;
}

TaskPrice DelayedProgram::forward(int replica, int stage, int chunk) const {
  return prices(stage, as_index(chunk), of_unit(replica, stage)).forward;
}

TaskPrice DelayedProgram::backward(int replica, int stage, int chunk) const {
  return prices(stage, as_index(chunk), of_unit(replica, stage)).backward;
}

JobProgram DelayedProgram::of_replica(int replica) const {
  JobProgram program = worst_;
  for (int s = 0; s < in_.job.plan.pipeline; ++s) {
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
