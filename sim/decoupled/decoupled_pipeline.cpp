#include "sim/decoupled/decoupled_pipeline.h"

#include <algorithm>

#include "model/assert.h"
#include "model/program/pipeline_shape.h"
#include "sim/decoupled/decoupled_instances.h"
#include "sim/decoupled/decoupled_program.h"

namespace megatwin::sim {

using model::Instant;
using policies::DecoupledFeed;

double DecoupledResult::busy_share(bool forward_side) const {
  double busy = 0;
  double all = 0;
  for (const DecoupledRank& rank : ranks) {
    if (rank.forward_side != forward_side) {
      continue;
    }
    busy += static_cast<double>(rank.busy.ns);
    all += static_cast<double>(makespan.ns);
  }
  return busy / all;
}

DecoupledResult simulate_decoupled(const DecoupledSpec& spec) {
  MEGATWIN_ASSERT(!spec.stages.empty());
  MEGATWIN_ASSERT(spec.forward_instances >= 1 && spec.backward_instances >= 1);
  MEGATWIN_ASSERT(spec.micro_batches >= std::max(spec.forward_instances, spec.backward_instances),
                  spec.micro_batches);
  MEGATWIN_ASSERT(spec.weight_share >= 0 && spec.weight_share <= 1, spec.weight_share);
  return is_program(spec) ? simulate_as_program(spec) : simulate_instances(spec);
}

int weights_moved(const DecoupledSpec& spec) {
  return model::left_of_first(spec.micro_batches, spec.weight_share);
}

double balanced_weight_share(const DecoupledSpec& spec) {
  const double a = spec.forward_instances;
  const double b = spec.backward_instances;
  const bool again = spec.feed == DecoupledFeed::StageInput;
  double share = 0;
  double busiest = -1;
  for (const DecoupledStage& stage : spec.stages) {
    const auto ns = [](Instant instant) { return static_cast<double>(instant.ns); };
    const double forward_side = ns(stage.forward) / a;
    const double backward_side = (ns(stage.backward) + (again ? ns(stage.again) : 0)) / b;
    const double moved =
        ns(stage.weight_on_forward) / a + (ns(stage.backward) - ns(stage.backward_input)) / b;
    if (backward_side <= busiest || moved <= 0) {
      continue;
    }
    busiest = backward_side;
    share = std::clamp((backward_side - forward_side) / moved, 0.0, 1.0);
  }
  return share;
}

}  // namespace megatwin::sim
