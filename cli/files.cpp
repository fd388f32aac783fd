#include "cli/files.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <unistd.h>

#include "exec/durable_file.h"

namespace megatwin::cli {
namespace {

[[noreturn]] void fail(const std::string& path) {
  throw IoError("cannot write '" + path + "': " + std::generic_category().message(errno));
}

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

void write_file(const std::string& path, const std::string& bytes) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) throw IoError("cannot make folder '" + folder.string() + "': " + error.message());
  std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "wb"));
  if (!file) fail(path);
  if (std::fwrite(bytes.data(), 1, bytes.size(), file.get()) != bytes.size()) fail(path);
  if (std::fclose(file.release()) != 0) fail(path);
}

std::optional<std::string> write_problem(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return "'" + path + "' is a folder";
  if (!fs::exists(status)) {
    const fs::path folder = fs::path(path).parent_path();
    return exec::folder_problem(folder.empty() ? "." : folder.string());
  }
  // To open a pipe would wait for its reader, and what it is given is gone.
  if (!fs::is_regular_file(status) && !fs::is_character_file(status)) return std::nullopt;
  std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "r+b"));
  if (!file && errno == EACCES) file.reset(std::fopen(path.c_str(), "ab"));  // May only be written.
  bool fails = file == nullptr;
  if (file && fs::is_character_file(status) && ::isatty(::fileno(file.get())) == 0) {
    fails = std::fputc('\n', file.get()) == EOF || std::fflush(file.get()) != 0;
  }
  if (!fails) return std::nullopt;
  return "'" + path + "': " + std::generic_category().message(errno);
}

}  // namespace megatwin::cli
