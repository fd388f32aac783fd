#include "exec/durable_file.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <system_error>
#include <unistd.h>

namespace megatwin::exec {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  throw std::system_error(errno, std::generic_category(), "cannot " + what + " '" + path + "'");
}

// Closes on the way out; a descriptor of POSIX.
class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : fd_(::open(path.c_str(), flags, 0644)) {
    if (fd_ < 0) fail("open", path);
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

void write_durably(const std::string& path, std::string_view bytes, const WritePace& pace) {
  const Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
  while (!bytes.empty()) {
    const std::size_t piece = pace ? pace(bytes.size()) : bytes.size();
    const ssize_t written = ::write(file.fd(), bytes.data(), piece);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fsync(file.fd()) != 0) fail("force to disk", path);
}

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw std::system_error(error, "cannot make folder '" + path + "'");
}

std::optional<std::string> folder_problem(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path there = fs::absolute(path, ignored);
  while (!fs::exists(there, ignored) && there.has_relative_path()) {
    there = there.parent_path();
  }
  if (!fs::is_directory(there, ignored)) {
    return "'" + there.string() + "' is no folder";
  }
  std::string trial = (there / ".megatwin-trial-XXXXXX").string();
  if (::mkdtemp(trial.data()) == nullptr) {
    return "nothing can be made in '" + there.string() +
           "': " + std::generic_category().message(errno);
  }
  ::rmdir(trial.c_str());
  return std::nullopt;
}

void sync_folder(const std::string& folder) {
  const Descriptor opened(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (::fsync(opened.fd()) != 0) fail("force to disk", folder);
}

void rename_durably(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) fail("rename", from);
  sync_folder(folder_of(to));
}

}  // namespace megatwin::exec
