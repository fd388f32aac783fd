#include "model/program/decoupled_sides.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "model/assert.h"

namespace megatwin::model {
namespace {

// More than any step has.
constexpr double kMany = 1e6;

// Whole micro-batches that fit; many where they take no room or nobody says how much there is.
double that_fit(const std::optional<FeedRoom>& room) {
  if (!room || !(room->each > Bytes{0})) return kMany;
  return std::clamp(std::floor(ratio(room->free / room->each)), 0.0, kMany);
}

// Forward ranks run forwards only and keep weights, or work out weight gradients too.
void keep_forwards(bool has_weight_gradients, StageCost& stage) {
  stage.optimizer = {};
  stage.optimizer_state = {};
  if (!has_weight_gradients) stage.gradients = {};
  for (ChunkCost& chunk : stage.chunks) {
    chunk.backward = chunk.backward_input = {};
    if (!has_weight_gradients) chunk.backward_weight = {};
    chunk.gradient_reduce = {};
  }
}

// Activations that are fed need no work where they are taken in. Weights are there from the step
// before.
void keep_backwards(SideFeed feed, StageCost& stage) {
  for (ChunkCost& chunk : stage.chunks) {
    chunk.parameter_gather = {};
    if (feed == SideFeed::Activations) {
      chunk.forward = {};
      chunk.forward_transient = {};
    }
  }
}

}  // namespace

std::vector<ProgramSpec> decoupled_sides(const DecoupledSides& sides) {
  MEGATWIN_ASSERT(sides.forward.pipeline == sides.backward.pipeline &&
                      sides.forward.micro_batches == sides.backward.micro_batches,
                  sides.forward.pipeline, " and ", sides.backward.pipeline, " stages");
  MEGATWIN_ASSERT(instance_problems(sides.forward.micro_batches, sides.instances).empty());
  const int most = (sides.forward.micro_batches - 1) / sides.instances.backward + 1;
  MEGATWIN_ASSERT(sides.weight_share >= 0 && sides.weight_share <= 1, sides.weight_share);
  std::vector<SideCrossing> crossings = sides.crossings;
  for (SideCrossing& crossing : crossings) {
    if (sides.feed == SideFeed::StageInput || crossing.fed_max >= most) crossing.fed_max = 0;
  }
  std::vector<ProgramSpec> specs;
  for (const PipelineSide side : {PipelineSide::Forward, PipelineSide::Backward}) {
    ProgramSpec spec = side == PipelineSide::Forward ? sides.forward : sides.backward;
    spec.schedule = ScheduleKind::Decoupled;
    spec.side = side;
    spec.feed = sides.feed;
    spec.crossings = crossings;
    spec.instances = sides.instances;
    spec.weight_share = sides.weight_share;
    // Transfers run beside compute. The collectives of a lone chunk begin and end alike with and
    // without overlap.
    spec.overlap_p2p = true;
    spec.overlap_grad_reduce = spec.overlap_param_gather = false;
    spec.overlap_slowdown = 0;
    for (StageCost& stage : spec.stages) {
      side == PipelineSide::Forward ? keep_forwards(sides.weight_share > 0, stage)
                                    : keep_backwards(sides.feed, stage);
    }
    for (spec.instance = 0; spec.instance < sides.instances.of(side); ++spec.instance) {
      if (side == PipelineSide::Forward && !sides.forward_orders.empty()) {
        const auto first =
            sides.forward_orders.begin() + std::ptrdiff_t{spec.instance} * spec.pipeline;
        spec.orders.assign(first, first + spec.pipeline);
      }
      specs.push_back(spec);
    }
  }
  return specs;
}

std::vector<std::string> instance_problems(std::int64_t micro_batches,
                                           const SideInstances& instances) {
  std::vector<std::string> problems;
  for (const auto& [name, number] :
       {std::pair("forward", instances.forward), std::pair("backward", instances.backward)}) {
    if (number <= micro_batches) continue;
    problems.push_back(std::string("policy.") + name + ".instances is " + std::to_string(number) +
                       ", more than the micro-batches of a step (" + std::to_string(micro_batches) +
                       "); each instance needs at least one");
  }
  return problems;
}

int fed_max(const SideInstances& instances, const std::optional<FeedRoom>& forward,
            const std::optional<FeedRoom>& backward) {
  const int divisor = std::gcd(instances.forward, instances.backward);
  const double of_each = std::floor(that_fit(forward) * divisor / instances.backward);
  const double unsent = of_each * instances.forward / divisor;
  const double most = std::min(that_fit(backward), std::floor(unsent));
  const bool says_nothing = that_fit(backward) >= kMany && that_fit(forward) >= kMany;
  return says_nothing ? 0 : static_cast<int>(std::clamp(most, 1.0, kMany));
}

}  // namespace megatwin::model
