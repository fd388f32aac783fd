#include "model/plugin_path.h"

#include <filesystem>
#include <system_error>

namespace megatwin::model {

std::string beside_the_program(const std::string& name) {
  std::error_code fault;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", fault);
  return fault ? name : (program.parent_path() / name).string();
}

}  // namespace megatwin::model
