#include "tests/search/mpirun.h"

#include <fstream>
#include <regex>

#include <sqlite3.h>

#include "tests/search/search_jobs.h"

namespace megatwin::tests {

std::string search_file(const TemporaryFolder& folder) {
  std::string path = folder.path("job.yaml");
  std::ofstream(path) << yaml_of("llama-2-13b", 2, "megatron-core", 64)
                      << "search: {model_chunks: [1, 2, 5], recompute: [none, full]}\n";
  return path;
}

std::vector<std::string> stored_times(const std::string& path) {
  sqlite3* database = nullptr;
  std::vector<std::string> times;
  if (sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READWRITE, nullptr) == SQLITE_OK) {
    sqlite3_busy_timeout(database, 10'000);
    // No table yet: no times.
    sqlite3_exec(
        database, "SELECT hex(plan) || ' ' || nanoseconds FROM step_times ORDER BY plan",
        [](void* list, int /*columns*/, char** values, char** /*names*/) {
          static_cast<std::vector<std::string>*>(list)->emplace_back(values[0]);
          return 0;
        },
        &times, nullptr);
  }
  sqlite3_close(database);
  return times;
}

std::string without_elapsed(const std::string& text) {
  static const std::regex kElapsed(R"(("elapsed_s": ?|simulated; )[^,\n}]*)");
  return std::regex_replace(text, kElapsed, "$1");
}

}  // namespace megatwin::tests
