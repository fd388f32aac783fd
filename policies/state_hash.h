// A hash of what a decision was taken from: the observation and the policy's state line. Equal on
// every machine.
#ifndef MEGATWIN_POLICIES_STATE_HASH_H_
#define MEGATWIN_POLICIES_STATE_HASH_H_

#include <cstdint>
#include <string_view>

#include "policies/observation.h"

namespace megatwin::policies {

std::uint64_t state_hash(const Observation& observation, std::string_view state_line);

}  // namespace megatwin::policies

#endif  // MEGATWIN_POLICIES_STATE_HASH_H_
