#include "exec/process_watch.h"

#include <array>
#include <fstream>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace megatwin::exec {

ProcessName own_process_name() {
  std::array<char, 256> host{};
  std::array<char, 256> numbers{};
  gethostname(host.data(), host.size() - 1);
  if (readlink("/proc/self/ns/pid", numbers.data(), numbers.size() - 1) < 0) {
    numbers = {};
  }
  return {.pid = getpid(), .space = std::string(host.data()) + " " + numbers.data()};
}

ProcessWatch::ProcessWatch(const ProcessName& name) {
  if (name.space == own_process_name().space) {
    descriptor_ = static_cast<int>(syscall(SYS_pidfd_open, name.pid, 0));
    pid_ = name.pid;
  }
}

ProcessWatch::~ProcessWatch() {
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

ProcessWatch::ProcessWatch(ProcessWatch&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), pid_(other.pid_) {}

ProcessWatch& ProcessWatch::operator=(ProcessWatch&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(pid_, other.pid_);
  return *this;
}

bool ProcessWatch::has_ended() const {
  pollfd watched{.fd = descriptor_, .events = POLLIN, .revents = 0};
  return descriptor_ >= 0 && poll(&watched, 1, 0) == 1;
}

bool ProcessWatch::is_stopped() const {
  if (descriptor_ < 0 || has_ended()) {
    return false;
  }
  // "pid (name) S …"; the name may hold anything.
  std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t state = text.rfind(") ");
  return state != std::string::npos && state + 2 < text.size() &&
         (text[state + 2] == 'T' || text[state + 2] == 't');
}

}  // namespace megatwin::exec
