// The style as a program: each check gives complaints that read like a compiler's. Errors fail the
// test; warnings are counted, so that a number which grows is seen.
#ifndef MEGATWIN_TESTS_TIDY_CHECKS_H_
#define MEGATWIN_TESTS_TIDY_CHECKS_H_

#include <string>
#include <vector>

#include "tests/tidy/source_file.h"

namespace megatwin::tidy {

struct Complaint {
  std::string path;
  int line = 0;
  std::string message;
};

std::string to_text(const Complaint& complaint, const char* severity);

using Complaints = std::vector<Complaint>;

Complaints check_includes(const std::vector<SourceFile>& tree);
Complaints check_line_length(const SourceFile& file);    // 100 characters.
Complaints check_banned_words(const SourceFile& file);   // And what to write instead.
Complaints check_header_guard(const SourceFile& file);   // MEGATWIN_FOLDER_FILE_H_.
Complaints check_machine_paths(const SourceFile& file);  // No path of somebody's machine.
Complaints check_open_ends(const SourceFile& file);      // TODO( names its issue.

// Warnings: functions of over 70 lines, files of over 400.
Complaints check_length(const SourceFile& file);

}  // namespace megatwin::tidy

#endif  // MEGATWIN_TESTS_TIDY_CHECKS_H_
