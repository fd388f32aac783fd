// The sizes that a plan and its policy give: what is taken for one.
#ifndef MEGATWIN_SCENARIOS_PLAN_SIZES_H_
#define MEGATWIN_SCENARIOS_PLAN_SIZES_H_

#include <string_view>

#include "scenarios/map_reader.h"

namespace megatwin::scenarios {

// A parallel size beyond this is a slip of the hand; products of five of them stay below 2^63.
inline constexpr IntegerRange kParallelSize{.min = 1, .max = 1'000'000};

// Leaves `field` alone when the key is absent or wrong.
inline void read_size(MapReader& reader, std::string_view key, int& field,
                      IntegerRange range = kParallelSize) {
  if (const auto value = reader.integer(key, range)) field = static_cast<int>(*value);
}

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_PLAN_SIZES_H_
