#include "policies/state_hash.h"

#include <bit>

#include "model/fnv_hash.h"

namespace megatwin::policies {

std::uint64_t state_hash(const Observation& observation, std::string_view state_line) {
  model::FnvHash hash;
  hash.add_bytes_of(observation.ready.size());
  for (const model::TaskId task : observation.ready) {
    hash.add_bytes_of(static_cast<std::uint64_t>(task.value));
  }
  hash.add_bytes_of(std::bit_cast<std::uint64_t>(observation.memory_used.value));
  hash.add_bytes_of(std::bit_cast<std::uint64_t>(observation.memory_limit.value));
  hash.add_bytes_of(static_cast<std::uint64_t>(observation.receive_slots));
  for (const std::int32_t slots : observation.free_slots) {
    hash.add_bytes_of(static_cast<std::uint64_t>(slots));
  }
  hash.add_bytes_of(static_cast<std::uint64_t>(observation.in_flight));
  hash.add_bytes_of(static_cast<std::uint64_t>(observation.issue_depth));
  for (const model::QuantisedDuration duration : observation.durations) {
    hash.add_bytes_of(duration);
  }
  hash.add_text(state_line);
  return hash.value();
}

}  // namespace megatwin::policies
