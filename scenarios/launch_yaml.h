// NeMo's and Primus' YAML of a launch as settings by Megatron's names. Private to megatron_launch.
#ifndef MEGATWIN_SCENARIOS_LAUNCH_YAML_H_
#define MEGATWIN_SCENARIOS_LAUNCH_YAML_H_

#include "scenarios/document.h"
#include "scenarios/launch_settings.h"

namespace megatwin::scenarios {

// Fills `launch.settings`, `ignored`, `warnings` and `gpus`; gives the settings by canonical name.
// Errors: the maps that the kind needs are missing.
model::Result<LaunchSettings> read_launch_yaml(const Document& document, MegatronLaunch& launch);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_LAUNCH_YAML_H_
