// A file of the tree as the style checks see it: its lines as written, and the same lines with the
// contents of comments and literals blanked out.
#ifndef MEGATWIN_TESTS_TIDY_SOURCE_FILE_H_
#define MEGATWIN_TESTS_TIDY_SOURCE_FILE_H_

#include <string>
#include <string_view>
#include <vector>

namespace megatwin::tidy {

struct SourceFile {
  std::string path;  // From the root of the tree: "model/units.h".
  std::vector<std::string> lines;
  std::vector<std::string> code;  // As many lines, of equal length.

  std::string folder() const { return path.substr(0, path.find('/')); }
  bool is_cpp() const;  // A C++ or CUDA source or header.
};

SourceFile parse(const std::string& path, std::string_view text);

// Every file of the tree that a person writes, sorted by path; build folders and data left out.
std::vector<SourceFile> read_tree(const std::string& root);

}  // namespace megatwin::tidy

#endif  // MEGATWIN_TESTS_TIDY_SOURCE_FILE_H_
