#include "cli/doctor.h"

#include <fmt/format.h>

#include "cli/launched.h"
#include "cli/probe.h"
#include "cli/report/format.h"
#include "cli/report/json_writer.h"

namespace megatwin::cli {
namespace {

struct Tool {
  const char* name;
  const char* program;
  const char* arguments;
  bool required;
  const char* gives;
  const char* package;
};

constexpr Tool kTools[] = {
    {"C++ compiler", "g++", "--version", true, "builds everything", "build-essential"},
    {"CMake", "cmake", "--version", true, "builds everything", "cmake"},
    {"Ninja", "ninja", "--version", true, "builds everything", "ninja-build"},
    {"ccache", "ccache", "--version", false, "fast second builds", "ccache"},
    {"mold", "mold", "--version", false, "fast links", "mold"},
    {"clang", "clang++", "--version", false, "fuzzing", "clang"},
    {"clang-format", "clang-format-14", "--version", false, "the format check of ./test",
     "clang-format-14"},
    {"clang-tidy", "clang-tidy", "--version", false, "./test --all", "clang-tidy"},
};

struct Header {
  const char* name;
  const char* path;
  const char* gives;
  const char* package;
};

constexpr Header kHeaders[] = {
    {"CLI11", "CLI/Version.hpp", "the command line", "libcli11-dev"},
    {"fmt", "fmt/core.h", "text output", "libfmt-dev"},
    {"tl::expected", "tl/expected.hpp", "errors as values", "libexpected-dev"},
    {"yaml-cpp", "yaml-cpp/yaml.h", "scenario files", "libyaml-cpp-dev"},
    {"pugixml", "pugixml.hpp", "XML importers", "libpugixml-dev"},
    {"RapidJSON", "rapidjson/rapidjson.h", "JSON output", "rapidjson-dev"},
    {"Boost.Graph", "boost/graph/adjacency_list.hpp", "topologies and oracles",
     "libboost-graph-dev"},
    {"GoogleTest", "gtest/gtest.h", "the tests", "libgtest-dev"},
    {"Google Benchmark", "benchmark/benchmark.h", "the benchmarks", "libbenchmark-dev"},
};

std::string apt(const std::string& package) { return "apt-get install " + package; }

Finding examine(const Tool& tool) {
  Finding finding{
      .name = tool.name, .required = tool.required, .gives = tool.gives, .get = apt(tool.package)};
  if (const auto line = first_line_of(tool.program, tool.arguments)) {
    finding.found = true;
    finding.version = version_in(*line);
  }
  return finding;
}

Finding examine(const Header& header) {
  Finding finding{
      .name = header.name, .required = true, .gives = header.gives, .get = apt(header.package)};
  std::vector<std::string> places;
  for (const char* folder : {"/usr/include/", "/usr/local/include/"}) {
    places.push_back(std::string(folder) + header.path);
  }
  finding.found = any_exists(places);
  if (!finding.found) return finding;
  const std::string query = fmt::format("-W -f='${{Version}}' {}", header.package);
  if (const auto version = first_line_of("dpkg-query", query)) {
    finding.version = version_in(*version);
  }
  return finding;
}

Finding examine_optional(const char* name, const std::optional<std::string>& version,
                         const char* gives, const char* get) {
  return {.name = name,
          .found = version.has_value(),
          .version = version ? version_in(*version) : "",
          .gives = gives,
          .get = get};
}

std::vector<Finding> examine_accelerators() {
  std::vector<Finding> findings;
  const std::vector<std::string> cuda = {"/usr/local/cuda/bin"};
  findings.push_back(examine_optional(
      "nvcc", first_line_of("nvcc", "--version | grep release", cuda), "GPU kernels",
      "the CUDA toolkit, https://developer.nvidia.com/cuda-downloads (V100 needs release 12)"));
  Finding driver{.name = "GPU",
                 .gives = "the real CUDA world and its tests",
                 .get = "an NVIDIA GPU and its driver; everything else works without"};
  if (const auto devices = cuda_devices()) {
    driver.found = devices->count > 0;
    if (driver.found) {
      driver.version =
          fmt::format("{} devices, driver for CUDA {}.{}", devices->count,
                      devices->driver_version / 1000, devices->driver_version % 1000 / 10);
    }
  }
  findings.push_back(driver);
  findings.push_back(examine_optional("NCCL", nccl_version(), "collectives between GPUs",
                                      "libnccl2 from NVIDIA's package repository"));
  findings.push_back(examine_optional("mpirun", mpi_version(), "starts many processes",
                                      "apt-get install libopenmpi-dev openmpi-bin"));
  findings.push_back(examine_optional(
      "MPI", mpi_plugin_version(), "a search over many processes",
      "apt-get install libopenmpi-dev openmpi-bin, and build again: libmegatwin_mpi.so"));
  findings.push_back(examine_optional("SimGrid", simgrid_version(), "network: simgrid",
                                      "apt-get install libsimgrid-dev"));
  return findings;
}

void print_text(const std::vector<Finding>& findings, Console& console) {
  std::vector<std::vector<std::string>> rows;
  for (const Finding& finding : findings) {
    const char* state = finding.found ? "found" : finding.required ? "MISSING" : "not here";
    rows.push_back({state, finding.name, finding.version,
                    finding.found ? finding.gives : finding.gives + "; get it: " + finding.get});
  }
  console.out << format_table(rows, {}, "");
}

void print_json(const std::vector<Finding>& findings, Console& console) {
  JsonWriter json(JsonWriter::Layout::Indented);
  json.begin_object();
  json.key("findings");
  json.begin_array();
  for (const Finding& finding : findings) {
    json.begin_object();
    json.member("name", finding.name);
    json.member("found", finding.found);
    if (!finding.version.empty()) json.member("version", finding.version);
    json.member("required", finding.required);
    json.member("gives", finding.gives);
    json.member("get", finding.get);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  console.out << json.finish();
}

}  // namespace

std::vector<Finding> examine_machine() {
  std::vector<Finding> findings;
  for (const Tool& tool : kTools) findings.push_back(examine(tool));
  for (const Header& header : kHeaders) findings.push_back(examine(header));
  for (Finding& finding : examine_accelerators()) findings.push_back(std::move(finding));
  return findings;
}

int doctor_command(bool json, Console& console) {
  const std::vector<Finding> findings = examine_machine();
  json ? print_json(findings, console) : print_text(findings, console);
  for (const Finding& finding : findings) {
    if (finding.required && !finding.found) return kExitMachine;
  }
  return kExitAnswer;
}

}  // namespace megatwin::cli
