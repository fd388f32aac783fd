// Which folder may include which, and which libraries each may name: the architecture as a table.
// docs/adr/0007-cli-docs-and-cmake.md says what is beside the folders of the design.
#ifndef MEGATWIN_TESTS_TIDY_INCLUDE_TABLE_H_
#define MEGATWIN_TESTS_TIDY_INCLUDE_TABLE_H_

#include <string>
#include <vector>

namespace megatwin::tidy {

struct FolderRule {
  std::string folder;
  std::vector<std::string> may_include;  // Besides itself.
  std::vector<std::string> libraries;    // Keys of library_rules().
};

// A library is known by how its headers begin, and may be confined to some files.
struct LibraryRule {
  std::string name;
  std::vector<std::string> headers;  // Prefixes of what stands between < and >.
  std::vector<std::string> files;    // Prefixes of the only paths that may name it; empty: all.
};

const std::vector<FolderRule>& folder_rules();
const std::vector<LibraryRule>& library_rules();

}  // namespace megatwin::tidy

#endif  // MEGATWIN_TESTS_TIDY_INCLUDE_TABLE_H_
