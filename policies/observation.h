// All that a policy may see when it is asked: logical state only, the same in every world. No
// clock, no queue length of a driver, no allocator.
#ifndef MEGATWIN_POLICIES_OBSERVATION_H_
#define MEGATWIN_POLICIES_OBSERVATION_H_

#include <cstdint>
#include <span>

#include "model/ids.h"
#include "model/program/decision_record.h"
#include "model/program/program.h"
#include "model/units.h"

namespace megatwin::policies {

struct Observation {
  const model::Program& program;  // What the task numbers mean.
  // Tasks that may be issued now, in ascending order: all that they need has arrived or runs before
  // them in the lane, and a forward's activations fit below the memory limit. Never empty.
  std::span<const model::TaskId> ready;
  model::Bytes memory_used;  // As accounted from the program, with what is held throughout.
  model::Bytes memory_limit;
  int receive_slots = 0;  // A channel; 0 for no limit.
  // Receive slots left at the neighbours, by channel of model::Message; below 0: minus the messages
  // that wait for one. None count without a limit.
  std::span<const std::int32_t> free_slots;
  int in_flight = 0;  // Tasks issued and not done; below issue_depth.
  int issue_depth = 1;
  // Moving average of the durations of phase f and chunk c at [f · v + c]; 0 before the first.
  std::span<const model::QuantisedDuration> durations;
};

}  // namespace megatwin::policies

#endif  // MEGATWIN_POLICIES_OBSERVATION_H_
