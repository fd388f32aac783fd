#include "scenarios/embedded_text.h"

// Made by megatwin_embed(): the first byte of a file, and the byte after its last.
extern "C" const char megatwin_hardware_yaml_begin[], megatwin_hardware_yaml_end[];
extern "C" const char megatwin_nodes_yaml_begin[], megatwin_nodes_yaml_end[];
extern "C" const char megatwin_zoo_yaml_begin[], megatwin_zoo_yaml_end[];

namespace megatwin::scenarios {
namespace {

std::string_view between(const char* begin, const char* end) {
  return {begin, static_cast<std::size_t>(end - begin)};
}

}  // namespace

std::string_view hardware_yaml() {
  return between(megatwin_hardware_yaml_begin, megatwin_hardware_yaml_end);
}
std::string_view nodes_yaml() {
  return between(megatwin_nodes_yaml_begin, megatwin_nodes_yaml_end);
}
std::string_view zoo_yaml() { return between(megatwin_zoo_yaml_begin, megatwin_zoo_yaml_end); }

}  // namespace megatwin::scenarios
