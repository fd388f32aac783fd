// A folder that no other test has, however many run at once; gone at the end.
#ifndef MEGATWIN_TESTS_TEMPORARY_FOLDER_H_
#define MEGATWIN_TESTS_TEMPORARY_FOLDER_H_

#include <cstdlib>
#include <filesystem>
#include <string>

#include "model/assert.h"

namespace megatwin::tests {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "megatwin_test_XXXXXX").string();
    MEGATWIN_ASSERT(mkdtemp(name.data()) != nullptr, name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  // Of a file or folder in it, which need not exist.
  std::string path(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_TEMPORARY_FOLDER_H_
