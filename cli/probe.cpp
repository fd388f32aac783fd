#include "cli/probe.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <dlfcn.h>
#include <filesystem>
#include <memory>
#include <system_error>

#include <fmt/format.h>

namespace megatwin::cli {
namespace {

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

Library load(const std::vector<const char*>& names) {
  for (const char* name : names) {
    if (void* library = dlopen(name, RTLD_LAZY | RTLD_LOCAL)) return Library(library);
  }
  return nullptr;
}

template <class Function>
Function* function_of(const Library& library, const char* name) {
  return library ? reinterpret_cast<Function*>(dlsym(library.get(), name)) : nullptr;
}

struct ClosePipe {
  void operator()(std::FILE* pipe) const { pclose(pipe); }
};

std::optional<std::string> run(const std::string& command) {
  std::unique_ptr<std::FILE, ClosePipe> pipe(popen((command + " 2>/dev/null").c_str(), "r"));
  if (!pipe) return std::nullopt;
  std::array<char, 512> buffer{};
  std::string output;
  while (std::fgets(buffer.data(), buffer.size(), pipe.get()) != nullptr) output += buffer.data();
  if (pclose(pipe.release()) != 0 || output.empty()) return std::nullopt;
  return output;
}

}  // namespace

std::optional<std::string> first_line_of(const std::string& program, const std::string& arguments,
                                         const std::vector<std::string>& folders) {
  std::vector<std::string> places = {program};
  for (const std::string& folder : folders) places.push_back(folder + "/" + program);
  for (const std::string& place : places) {
    if (const auto output = run(place + " " + arguments)) {
      return output->substr(0, output->find('\n'));
    }
  }
  return std::nullopt;
}

std::string version_in(const std::string& text) {
  const auto is_digit = [&](std::size_t i) {
    return i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!is_digit(i)) continue;
    std::size_t end = i;
    bool dotted = false;
    while (is_digit(end) || (end < text.size() && text[end] == '.' && is_digit(end + 1))) {
      dotted = dotted || text[end] == '.';
      ++end;
    }
    if (dotted) return text.substr(i, end - i);
    i = end;
  }
  return text;
}

bool any_exists(const std::vector<std::string>& paths) {
  std::error_code ignored;  // A folder that may not be entered holds nothing for us.
  return std::any_of(paths.begin(), paths.end(), [&](const std::string& path) {
    return std::filesystem::exists(path, ignored);
  });
}

std::optional<std::string> nccl_version() {
  const Library library = load({"libnccl.so.2", "libnccl.so"});
  auto* get_version = function_of<int(int*)>(library, "ncclGetVersion");
  int version = 0;
  if (get_version == nullptr || get_version(&version) != 0) return std::nullopt;
  // NCCL_VERSION(X,Y,Z) of nccl.h: X·10000 + Y·100 + Z since 2.9.
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::optional<std::string> mpi_version() {
  if (const auto line = first_line_of("mpirun", "--version")) return *line;
  return std::nullopt;
}

std::optional<std::string> simgrid_version() {
  const Library library = load({"libsimgrid.so", "libsimgrid.so.3.32", "libsimgrid.so.3.35"});
  auto* get_version = function_of<void(int*, int*, int*)>(library, "sg_version_get");
  if (get_version == nullptr) return std::nullopt;
  int major = 0;
  int minor = 0;
  int patch = 0;
  get_version(&major, &minor, &patch);
  return fmt::format("{}.{}.{}", major, minor, patch);
}

std::optional<CudaDevices> cuda_devices() {
  const Library library = load({"libcuda.so.1"});
  auto* initialise = function_of<int(unsigned)>(library, "cuInit");
  auto* driver = function_of<int(int*)>(library, "cuDriverGetVersion");
  auto* count = function_of<int(int*)>(library, "cuDeviceGetCount");
  if (initialise == nullptr || driver == nullptr || count == nullptr) return std::nullopt;
  CudaDevices devices;
  driver(&devices.driver_version);
  if (initialise(0) == 0) count(&devices.count);
  return devices;
}

}  // namespace megatwin::cli
