#include "cli/files.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

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

}  // namespace megatwin::cli
