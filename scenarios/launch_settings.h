// The settings of a launch by the names of Megatron-LM's flags, however they were written, and what
// model and plan they make. Private to megatron_launch.
#ifndef MEGATWIN_SCENARIOS_LAUNCH_SETTINGS_H_
#define MEGATWIN_SCENARIOS_LAUNCH_SETTINGS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "scenarios/megatron_launch.h"

namespace megatwin::scenarios {

// Canonical names: Megatron's flags with underscores. Values are text; "true" for a bare flag.
using LaunchSettings = std::map<std::string, std::string>;

// A decimal whole number and nothing else.
std::optional<std::int64_t> whole_number(std::string_view text);

// Whether a flag bears on shape, plan or cost. `name` is canonical.
bool bears_on_cost(std::string_view name);
// Whether the flag takes no value.
bool is_switch(std::string_view name);

// The flag of the same kind that a name of no bearing is most likely a slip of; empty where it is
// none.
std::string bearing_flag_near(const std::string& name);

// Fills plan, transformer, padded_vocab_size and warnings from the settings and `launch.gpus`.
// Gives what cannot be read as a number, with the setting's name as its key.
model::Diagnostics apply_settings(const LaunchSettings& settings, MegatronLaunch& launch);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_LAUNCH_SETTINGS_H_
