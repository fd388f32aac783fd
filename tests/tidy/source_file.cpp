#include "tests/tidy/source_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace megatwin::tidy {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

// Blanks comments, strings and characters; the state runs on over lines for block comments and raw
// strings.
class Blanker {
 public:
  std::string blank(const std::string& line) {
    std::string code = line;
    for (std::size_t i = 0; i < line.size();) i = step(line, code, i);
    return code;
  }

 private:
  std::size_t step(const std::string& line, std::string& code, std::size_t i) {
    if (!until_.empty()) return inside(line, code, i);
    if (line.compare(i, 2, "//") == 0) return erase(code, i, line.size());
    if (line.compare(i, 2, "/*") == 0) return open(code, i, 2, "*/");
    if (line.compare(i, 2, "R\"") == 0) {
      const std::size_t bracket = line.find('(', i);
      if (bracket != std::string::npos) {
        const std::string delimiter = ")" + line.substr(i + 2, bracket - i - 2) + "\"";
        return open(code, i, bracket - i + 1, delimiter);
      }
    }
    const bool separator = i > 0 && std::isalnum(static_cast<unsigned char>(line[i - 1])) != 0;
    if (line[i] == '"' || (line[i] == '\'' && !separator)) return literal(line, code, i);
    return i + 1;
  }

  std::size_t inside(const std::string& line, std::string& code, std::size_t i) {
    const std::size_t end = line.find(until_, i);
    if (end == std::string::npos) return erase(code, i, line.size());
    const std::size_t after = end + until_.size();
    until_.clear();
    return erase(code, i, after);
  }

  std::size_t open(std::string& code, std::size_t i, std::size_t length, const std::string& until) {
    until_ = until;
    return erase(code, i, i + length);
  }

  static std::size_t literal(const std::string& line, std::string& code, std::size_t i) {
    std::size_t end = i + 1;
    while (end < line.size() && line[end] != line[i]) end += line[end] == '\\' ? 2 : 1;
    return erase(code, i + 1, std::min(end, line.size())) + 1;
  }

  static std::size_t erase(std::string& code, std::size_t from, std::size_t to) {
    std::fill(code.begin() + static_cast<std::ptrdiff_t>(from),
              code.begin() + static_cast<std::ptrdiff_t>(to), ' ');
    return to;
  }

  std::string until_;  // What ends the comment or raw string that we are in; empty: in none.
};

bool is_written_by_hand(const fs::path& path) {
  static const std::set<std::string> kEndings = {".h",     ".cpp",  ".cu",  ".cuh", ".txt",
                                                 ".cmake", ".yaml", ".yml", ".md",  ".css",
                                                 ".sh",    ".json", ".py",  ".c",   ".proto"};
  static const std::set<std::string> kNames = {"test", "quickstart", "run", "check_format"};
  return kEndings.count(path.extension().string()) > 0 ||
         (path.extension().empty() && kNames.count(path.filename().string()) > 0);
}

bool is_left_out(const std::string& path) {
  static const std::set<std::string> kFolders = {"build", "out", ".git", ".cache", "shared"};
  return kFolders.count(path.substr(0, path.find('/'))) > 0 ||
         path.rfind("tests/fuzz/corpus/", 0) == 0 || path.rfind("tests/data/", 0) == 0;
}

}  // namespace

bool SourceFile::is_cpp() const {
  const std::string ending = fs::path(path).extension().string();
  return ending == ".h" || ending == ".cpp" || ending == ".cu" || ending == ".cuh";
}

SourceFile parse(const std::string& path, std::string_view text) {
  SourceFile file{.path = path, .lines = split_lines(text), .code = {}};
  Blanker blanker;
  for (const std::string& line : file.lines) file.code.push_back(blanker.blank(line));
  return file;
}

std::vector<SourceFile> read_tree(const std::string& root) {
  std::vector<SourceFile> files;
  auto entry = fs::recursive_directory_iterator(root);
  for (; entry != fs::recursive_directory_iterator(); ++entry) {
    const std::string path = fs::relative(entry->path(), root).generic_string();
    if (is_left_out(path)) {
      if (entry->is_directory()) entry.disable_recursion_pending();
      continue;
    }
    if (!entry->is_regular_file() || !is_written_by_hand(entry->path())) continue;
    std::ostringstream text;
    text << std::ifstream(entry->path()).rdbuf();
    files.push_back(parse(path, text.str()));
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

}  // namespace megatwin::tidy
