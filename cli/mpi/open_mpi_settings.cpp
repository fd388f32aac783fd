#include "cli/mpi/open_mpi_settings.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <istream>

namespace megatwin::cli {
namespace {

constexpr const char* kBlanks = " \t\r\"";

std::string_view stripped(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::vector<std::string> parts_of(std::string_view list, const char* separators) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find_first_of(separators), list.size());
    if (const auto part = stripped(list.substr(0, end)); !part.empty()) parts.emplace_back(part);
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return parts;
}

// NOLINTBEGIN(concurrency-mt-unsafe): said in the header.
std::optional<std::string> in_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}
// NOLINTEND(concurrency-mt-unsafe)

}  // namespace

std::vector<std::string> parameter_files() {
  for (const char* name : {"OMPI_MCA_mca_base_param_files", "OMPI_MCA_mca_param_files"}) {
    if (const auto files = in_environment(name)) return parts_of(*files, ",:");
  }
  std::vector<std::string> files;
  if (const auto home = in_environment("HOME"))
    files.push_back(*home + "/.openmpi/mca-params.conf");
  if (const auto prefix = in_environment("OPAL_PREFIX")) {
    files.push_back(*prefix + "/etc/openmpi-mca-params.conf");
  }
  files.emplace_back("/etc/openmpi/openmpi-mca-params.conf");
  return files;
}

std::optional<std::string> parameter_in(std::istream& file, std::string_view name) {
  std::optional<std::string> value;
  for (std::string line; std::getline(file, line);) {
    const std::string_view said = std::string_view(line).substr(0, line.find('#'));
    const std::size_t equals = said.find('=');
    if (equals == std::string_view::npos || stripped(said.substr(0, equals)) != name) continue;
    value = std::string(stripped(said.substr(equals + 1)));  // The last of a file counts.
  }
  return value;
}

std::optional<std::string> parameter_set(const std::string& name) {
  if (auto value = in_environment(("OMPI_MCA_" + name).c_str())) return value;
  for (const std::string& path : parameter_files()) {
    std::ifstream file(path);
    if (auto value = parameter_in(file, name)) return value;
  }
  return std::nullopt;
}

bool leaves(std::string_view list, const std::vector<std::string_view>& wanted) {
  list = stripped(list);
  if (list.empty()) return true;
  if (list.front() != '^') return false;
  const std::vector<std::string> excluded = parts_of(list.substr(1), ",");
  return std::none_of(wanted.begin(), wanted.end(), [&](std::string_view component) {
    return std::find(excluded.begin(), excluded.end(), component) != excluded.end();
  });
}

}  // namespace megatwin::cli
