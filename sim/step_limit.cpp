#include "sim/step_limit.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

namespace megatwin::sim {
namespace {

using model::PricedChunk;
using model::PricedStage;
using model::Seconds;
using model::TaskPrice;

// A part of a stage's step, as the report's breakdown names it.
struct Part {
  const char* name;
  Seconds time;
};
using Parts = std::array<Part, 7>;

// Every chunk crosses the boundary behind its stage and, backward, the one before it; to know the
// size of a step, both directions of one boundary will do.
Seconds hop_time(const model::PipelineHop& hop) {
  return model::to_seconds(hop.activation) + model::to_seconds(hop.gradient);
}

Parts parts_of(const PricedStage& stage, Seconds hop, double micro_batches, double slowest) {
  Seconds compute, tensor, context, expert, sharded, once;
  for (const PricedChunk& chunk : stage.chunks) {
    for (const TaskPrice* price : {&chunk.forward, &chunk.backward}) {
      compute += price->compute();
      tensor += price->exposed_tp;
      context += price->exposed_cp;
      expert += price->exposed_ep;
    }
    sharded += chunk.sharded_forward + chunk.sharded_backward;
    once += chunk.gather_exposed + chunk.reduce_exposed;
  }
  const auto chunks = static_cast<double>(stage.chunks.size());
  return {{{"compute", micro_batches * slowest * compute},
           {"tensor-parallel traffic", micro_batches * tensor},
           {"context-parallel traffic", micro_batches * context},
           {"expert-parallel traffic", micro_batches * expert},
           {"pipeline traffic", micro_batches * chunks * hop},
           {"data-parallel traffic", micro_batches * sharded + once + stage.optimizer_exposed},
           {"the optimizer", slowest * stage.optimizer}}};
}

std::string in_years(Seconds time) {
  constexpr double kSecondsPerYear = 365.25 * 86400;
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.3g years", time.value / kSecondsPerYear);
  return buffer;
}

model::Diagnostic fault_of(const std::string& where, Seconds step, const Part& slowest) {
  return {.key = kStepTimeKey,
          .message = "a step would take over 3 years, about " + in_years(step) + ": " +
                     slowest.name + " of " + where + " takes " + in_years(slowest.time) +
                     " of it; check rates and latencies"};
}

}  // namespace

std::optional<model::Diagnostic> endless_step(const model::JobProgram& program, double slowest) {
  const model::ProgramSpec& spec = program.spec;
  for (std::size_t s = 0; s < program.stages.size(); ++s) {
    const int stage = static_cast<int>(s);
    const bool sends = spec.pipeline > 1 && (stage + 1 < spec.pipeline || spec.model_chunks > 1);
    const Parts parts = parts_of(program.stages[s], sends ? hop_time(spec.hop(stage)) : Seconds{},
                                 spec.micro_batches, slowest);
    Seconds sum;
    for (const Part& part : parts) sum += part.time;
    if (sum <= kStepTimeMax) continue;
    const Part& longest = *std::max_element(
        parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.time < b.time; });
    return fault_of("stage " + std::to_string(stage), sum, longest);
  }
  return std::nullopt;
}

bool is_endless(const model::Plan& plan, const model::StageCost& stage,
                const model::PipelineHop& hop) {
  Seconds tasks, once = model::to_seconds(stage.optimizer);
  for (const model::ChunkCost& chunk : stage.chunks) {
    tasks += model::to_seconds(chunk.forward) + model::to_seconds(chunk.backward) + hop_time(hop);
    once += model::to_seconds(chunk.parameter_gather) + model::to_seconds(chunk.gradient_reduce);
  }
  return static_cast<double>(plan.num_micro_batches()) * tasks + once > kStepTimeMax;
}

std::optional<model::Diagnostic> endless_traffic(const PipelineCosts& costs) {
  // What all ranks send together can be on the way at once: a bound for each alone.
  const double limit = kStepTimeMax.value * costs.shape.pipeline;
  for (int k = 0; k < costs.num_classes; ++k) {
    Seconds sent, reduced;
    for (std::size_t slot = costs.first_slot[static_cast<std::size_t>(k)];
         slot < costs.first_slot[static_cast<std::size_t>(k) + 1]; ++slot) {
      sent += model::to_seconds({costs.send_by_slot[slot]});
    }
    for (const auto* collectives : {&costs.gather, &costs.reduce}) {
      for (const Nanoseconds time : *collectives) reduced += model::to_seconds({time});
    }
    const Part pipeline{"pipeline traffic", sent}, data{"data-parallel traffic", reduced};
    if (sent.value + reduced.value <= limit) continue;
    return fault_of("all stages", sent + reduced, sent > reduced ? pipeline : data);
  }
  return std::nullopt;
}

}  // namespace megatwin::sim
