#include "tests/search/mpirun.h"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "model/assert.h"
#include "tests/search/search_jobs.h"

#ifndef MEGATWIN_MPIRUN
#define MEGATWIN_MPIRUN ""
#endif

namespace megatwin::tests {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void redirect(int stream, const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(file, stream);
  close(file);
}

}  // namespace

std::string why_no_mpirun() {
  const std::string mpirun = MEGATWIN_MPIRUN;
  if (mpirun.empty()) return "built without MPI";
  return access(mpirun.c_str(), X_OK) == 0 ? "" : "no " + mpirun + " (openmpi-bin)";
}

ProgramRun::ProgramRun(int processes, const std::vector<std::string>& words) {
  std::vector<std::string> line;
  if (processes > 0) {
    line = {MEGATWIN_MPIRUN, "--oversubscribe", "--allow-run-as-root", "-n",
            std::to_string(processes)};
  }
  line.emplace_back(MEGATWIN_PROGRAM);
  line.insert(line.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& word : line) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_ = fork();
  MEGATWIN_ASSERT(pid_ >= 0);
  if (pid_ > 0) return;
  redirect(STDOUT_FILENO, folder_.path("out"));
  redirect(STDERR_FILENO, folder_.path("err"));
  execv(arguments[0], arguments.data());
  std::_Exit(127);
}

ProgramRun::~ProgramRun() {
  if (pid_ > 0) wait();
}

Outcome ProgramRun::wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = contents(folder_.path("out")),
          .err = contents(folder_.path("err"))};
}

std::optional<pid_t> ProgramRun::process(int rank) const {
  const std::string wanted = "OMPI_COMM_WORLD_RANK=" + std::to_string(rank) + '\0';
  const std::string own = "/proc/" + std::to_string(pid_);
  for (const auto& thread : std::filesystem::directory_iterator(own + "/task")) {
    std::ifstream children(thread.path() / "children");
    pid_t child = 0;
    while (children >> child) {
      const std::string environment = contents("/proc/" + std::to_string(child) + "/environ");
      if (environment.find(wanted) == std::string::npos) continue;
      return child;
    }
  }
  return std::nullopt;
}

bool ProgramRun::kill(int rank) const {
  const auto pid = process(rank);
  return pid && ::kill(*pid, SIGKILL) == 0;
}

std::string search_file(const TemporaryFolder& folder) {
  const std::string path = folder.path("job.yaml");
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
