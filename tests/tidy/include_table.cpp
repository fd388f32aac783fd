#include "tests/tidy/include_table.h"

namespace megatwin::tidy {

const std::vector<FolderRule>& folder_rules() {
  static const std::vector<FolderRule> kRules = {
      {"model", {}, {"boost", "expected"}},
      {"scenarios", {"model"}, {"yaml-cpp", "pugixml", "rapidjson", "posix"}},
      {"policies", {"model"}, {"c"}},
      {"kernels", {}, {"cuda"}},
      {"traces", {"model"}, {"protobuf", "zlib", "rapidjson", "sqlite", "posix"}},
      {"sim",
       {"model", "policies", "traces", "scenarios"},
       {"sqlite", "simgrid", "posix", "dlfcn"}},
      {"exec", {"model", "policies", "traces", "scenarios", "kernels"}, {"cuda", "posix", "dlfcn"}},
      {"cli",
       {"model", "scenarios", "policies", "kernels", "traces", "sim", "exec"},
       {"cli11", "fmt", "rapidjson", "mpi", "posix", "dlfcn"}},
      {"tests",
       {"model", "scenarios", "policies", "kernels", "traces", "sim", "exec", "cli"},
       {"googletest", "benchmark", "rapidjson", "yaml-cpp", "boost", "cuda", "posix", "simgrid",
        "dlfcn", "protobuf", "zlib", "sqlite"}},
  };
  return kRules;
}

const std::vector<LibraryRule>& library_rules() {
  static const std::vector<LibraryRule> kRules = {
      {"boost", {"boost/"}, {}},
      {"expected", {"tl/"}, {"model/result.h"}},
      {"c", {"stdint.h"}, {"policies/megatwin_policy."}},
      {"yaml-cpp", {"yaml-cpp/"}, {"scenarios/yaml_reader.", "tests/scenarios/yaml_reader_test."}},
      {"pugixml", {"pugixml"}, {"scenarios/xml_reader."}},
      {"rapidjson",
       {"rapidjson/"},
       {"scenarios/json_reader.", "scenarios/operation_rows.", "cli/report/json_writer.", "traces/",
        "tests/"}},
      {"cli11", {"CLI/"}, {"cli/"}},
      {"fmt", {"fmt/"}, {}},
      {"cuda", {"cuda", "nccl", "cublas", "cudnn", "nvml"}, {}},
      {"protobuf", {"google/protobuf/"}, {}},
      {"zlib", {"zlib.h"}, {}},
      {"sqlite", {"sqlite3.h"}, {}},
      {"simgrid", {"simgrid/", "xbt/"}, {}},
      {"mpi", {"mpi.h"}, {"cli/mpi/mpi_plugin."}},
      {"googletest", {"gtest/", "gmock/"}, {}},
      {"benchmark", {"benchmark/"}, {}},
      {"dlfcn", {"dlfcn.h", "link.h"}, {}},
      {"posix",
       {"unistd.h", "sys/", "fcntl.h", "poll.h", "pthread.h", "sched.h", "netdb.h", "netinet/",
        "arpa/", "signal.h", "spawn.h"},
       {}},
  };
  return kRules;
}

}  // namespace megatwin::tidy
