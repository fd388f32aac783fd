#include "tests/program_run.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "model/assert.h"

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
    line = {MEGATWIN_MPIRUN,
            "--oversubscribe",
            "--bind-to",
            "none",
            "--allow-run-as-root",
            "-n",
            std::to_string(processes)};
  }
  line.emplace_back(MEGATWIN_PROGRAM);
  line.insert(line.end(), words.begin(), words.end());
  start(std::move(line));
}

ProgramRun::ProgramRun(const std::string& line) { start({"/bin/sh", "-c", "exec " + line}); }

void ProgramRun::start(std::vector<std::string> line) {
  std::vector<char*> arguments;
  arguments.reserve(line.size() + 1);
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

Outcome ProgramRun::wait_past_a_stuck_launcher(int processes) {
  using Clock = std::chrono::steady_clock;
  auto alive = Clock::now();
  siginfo_t ended{};
  const auto here = [&] {
    ended = {};
    return waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == 0;
  };
  while (here()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (int rank = 0; rank < processes; ++rank) {
      if (process(rank) != 0) alive = Clock::now();
    }
    if (Clock::now() - alive > std::chrono::seconds(10)) ::kill(pid_, SIGKILL);
  }
  return wait();
}

pid_t ProgramRun::process(int rank) const {
  const std::string wanted = "OMPI_COMM_WORLD_RANK=" + std::to_string(rank) + '\0';
  const std::string own = "/proc/" + std::to_string(pid_);
  for (const auto& thread : std::filesystem::directory_iterator(own + "/task")) {
    std::ifstream children(thread.path() / "children");
    pid_t child = 0;
    while (children >> child) {
      const std::string environment = contents("/proc/" + std::to_string(child) + "/environ");
      if (environment.find(wanted) != std::string::npos) return child;
    }
  }
  return 0;
}

bool ProgramRun::kill(int rank) const {
  const pid_t pid = process(rank);
  return pid != 0 && ::kill(pid, SIGKILL) == 0;
}

}  // namespace megatwin::tests
