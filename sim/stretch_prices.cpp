#include "sim/stretch_prices.h"

#include <algorithm>
#include <cstddef>

#include "model/assert.h"

namespace megatwin::sim {
namespace {

using model::Instant;
using model::PricedChunk;
using model::PricedStage;
using model::Seconds;
using model::TaskPrice;

Seconds work_of(const TaskPrice& price) {
  return price.compute() + price.exposed_tp + price.exposed_ep + price.exposed_cp;
}

Seconds micro_batch_of(const PricedStage& stage) {
  Seconds all;
  for (const PricedChunk& chunk : stage.chunks) {
    all += work_of(chunk.forward) + work_of(chunk.backward) + chunk.sharded_forward +
           chunk.sharded_backward;
  }
  return all;
}

Seconds traffic_of(const PricedStage& stage) {
  Seconds all;
  for (const PricedChunk& chunk : stage.chunks) all += chunk.gather + chunk.reduce;
  return all;
}

// By stretch, of a stage: how often `work_of_stage` gets done in it; they sum to 1.
std::vector<double> weights(const std::vector<StretchPrices>& stretches, std::size_t stage,
                            Instant end, Seconds (*work_of_stage)(const PricedStage&)) {
  std::vector<double> done(stretches.size());
  double sum = 0;
  for (std::size_t k = 0; k < stretches.size(); ++k) {
    const Instant until = k + 1 < stretches.size() ? std::min(stretches[k + 1].from, end) : end;
    if (until <= stretches[k].from) continue;
    const Seconds length = model::to_seconds(until) - model::to_seconds(stretches[k].from);
    const Seconds work = work_of_stage(stretches[k].program.stages[stage]);
    if (work.value <= 0) continue;
    done[k] = model::ratio(length / work);
    sum += done[k];
  }
  if (sum <= 0) {
    done.front() = sum = 1;
  }
  for (double& weight : done) weight /= sum;
  return done;
}

// Weights of what is inside tasks, and of what is done once a step.
struct Weights {
  double tasks, once;
};

void mix(const PricedChunk& from, const Weights& weights, PricedChunk& into) {
  double weight = weights.tasks;
  const auto add = [&](const Seconds& part, Seconds& sum) { sum += weight * part; };
  const auto add_task = [&](const TaskPrice& part, TaskPrice& sum) {
    add(part.exposed_tp, sum.exposed_tp);
    add(part.exposed_ep, sum.exposed_ep);
    add(part.exposed_cp, sum.exposed_cp);
  };
  add_task(from.forward, into.forward);
  add_task(from.backward, into.backward);
  add(from.sharded_forward, into.sharded_forward);
  add(from.sharded_backward, into.sharded_backward);
  weight = weights.once;
  add(from.gather, into.gather);
  add(from.reduce, into.reduce);
  add(from.gather_exposed, into.gather_exposed);
  add(from.reduce_exposed, into.reduce_exposed);
}

void clear_traffic(PricedChunk& chunk) {
  for (TaskPrice* price : {&chunk.forward, &chunk.backward}) {
    price->exposed_tp = price->exposed_ep = price->exposed_cp = Seconds{};
  }
  chunk.gather = chunk.reduce = chunk.gather_exposed = chunk.reduce_exposed = Seconds{};
  chunk.sharded_forward = chunk.sharded_backward = Seconds{};
}

}  // namespace

model::JobProgram mean_prices(const std::vector<StretchPrices>& stretches, Instant end) {
  MEGATWIN_ASSERT(!stretches.empty(), stretches.size());
  model::JobProgram mean = stretches.front().program;
  for (std::size_t s = 0; s < mean.stages.size(); ++s) {
    const std::vector<double> tasks = weights(stretches, s, end, micro_batch_of);
    const std::vector<double> once = weights(stretches, s, end, traffic_of);
    for (std::size_t c = 0; c < mean.stages[s].chunks.size(); ++c) {
      PricedChunk& chunk = mean.stages[s].chunks[c];
      clear_traffic(chunk);
      for (std::size_t k = 0; k < stretches.size(); ++k) {
        mix(stretches[k].program.stages[s].chunks[c], {tasks[k], once[k]}, chunk);
      }
    }
  }
  return mean;
}

}  // namespace megatwin::sim
