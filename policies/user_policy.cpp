#include "policies/user_policy.h"

#include <algorithm>
#include <array>
#include <exception>

namespace megatwin::policies {

using model::TaskKind;

static_assert(static_cast<int>(TaskKind::Forward) == MEGATWIN_FORWARD);
static_assert(static_cast<int>(TaskKind::Backward) == MEGATWIN_BACKWARD);
static_assert(static_cast<int>(TaskKind::BackwardInput) == MEGATWIN_BACKWARD_INPUT);
static_assert(static_cast<int>(TaskKind::BackwardWeight) == MEGATWIN_BACKWARD_WEIGHT);
static_assert(model::kNumChannels == 4, "the C header says so");

std::optional<model::TaskId> UserPolicy::pick(const Observation& observation) {
  const model::PipelineShape& shape = observation.program.shape;
  ready_.clear();
  for (const model::TaskId id : observation.ready) {
    const model::Task& task = observation.program.tasks[static_cast<std::size_t>(id.value)];
    ready_.push_back(
        {static_cast<std::int32_t>(task.kind), task.micro_batch.value, task.chunk.value});
  }
  durations_.clear();
  for (const model::QuantisedDuration duration : observation.durations) {
    durations_.push_back(duration == 0 ? 0 : model::dequantise(duration).ns);
  }
  // What waits for a slot is not told to a library.
  std::array<std::int32_t, model::kNumChannels> free_slots{};
  std::transform(observation.free_slots.begin(), observation.free_slots.end(), free_slots.begin(),
                 [](std::int32_t free) { return std::max(free, 0); });
  const megatwin_observation seen{.stage = observation.program.stage.value,
                                  .stages = shape.pipeline,
                                  .chunks = shape.model_chunks,
                                  .micro_batches = shape.micro_batches,
                                  .num_ready = static_cast<std::int32_t>(ready_.size()),
                                  .ready = ready_.data(),
                                  .memory_used = observation.memory_used.value,
                                  .memory_limit = observation.memory_limit.value,
                                  .in_flight = observation.in_flight,
                                  .issue_depth = observation.issue_depth,
                                  .receive_slots = observation.receive_slots,
                                  .free_slots = free_slots.data(),
                                  .num_durations = static_cast<std::int32_t>(durations_.size()),
                                  .durations_ns = durations_.data()};
  std::int32_t picked = MEGATWIN_WAIT;
  try {
    picked = function_(&seen, state_.data());
  } catch (const std::exception& error) {
    throw UserPolicyError("stage " + std::to_string(seen.stage) +
                          ": megatwin_policy_v1 threw: " + error.what());
  } catch (...) {
    throw UserPolicyError("stage " + std::to_string(seen.stage) +
                          ": megatwin_policy_v1 threw something that is no std::exception");
  }
  if (std::any_of(state_.end() - kBehind, state_.end(), [](std::int64_t n) { return n != 0; })) {
    throw UserPolicyError("stage " + std::to_string(seen.stage) +
                          ": megatwin_policy_v1 wrote beyond the " +
                          std::to_string(MEGATWIN_POLICY_STATE) + " numbers of its state");
  }
  if (picked == MEGATWIN_WAIT) {
    return std::nullopt;
  }
  if (picked < 0 || picked >= seen.num_ready) {
    throw UserPolicyError(
        "stage " + std::to_string(seen.stage) + ", " + std::to_string(picks_ % shape.num_tasks()) +
        " of " + std::to_string(shape.num_tasks()) + " tasks issued: megatwin_policy_v1 returned " +
        std::to_string(picked) + " with " + std::to_string(seen.num_ready) +
        " tasks ready; it must be from 0 to one less, or MEGATWIN_WAIT (-1)");
  }
  ++picks_;
  return observation.ready[static_cast<std::size_t>(picked)];
}

std::string UserPolicy::state_line() const {
  std::size_t used = MEGATWIN_POLICY_STATE;
  while (used > 0 && state_[used - 1] == 0) {
    --used;
  }
  std::string line = "user";
  for (std::size_t i = 0; i < used; ++i) {
    line += " " + std::to_string(state_[i]);
  }
  return line;
}

PolicyFactory user_policy_factory(UserPolicyFunction function) {
  return [function](const model::Program&, model::RankId) {
    return std::make_unique<UserPolicy>(function);
  };
}

}  // namespace megatwin::policies
