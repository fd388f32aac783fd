// The YAML files that are part of the program (cmake/MegatwinEmbed.cmake), as text.
#ifndef MEGATWIN_SCENARIOS_EMBEDDED_TEXT_H_
#define MEGATWIN_SCENARIOS_EMBEDDED_TEXT_H_

#include <string_view>

namespace megatwin::scenarios {

std::string_view hardware_yaml();
std::string_view nodes_yaml();
std::string_view zoo_yaml();

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_EMBEDDED_TEXT_H_
