#include "tests/tidy/checks.h"

#include <algorithm>
#include <cctype>
#include <regex>
#include <set>

#include "tests/tidy/include_table.h"

namespace megatwin::tidy {
namespace {

constexpr std::size_t kColumns = 100;
constexpr int kFunctionLines = 70;
constexpr int kFileLines = 400;

bool starts_with(const std::string& text, const std::string& start) {
  return text.rfind(start, 0) == 0;
}

bool contains(const std::vector<std::string>& values, const std::string& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

std::string join(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + value;
  return text.empty() ? "nothing" : text;
}

const FolderRule* rule_of(const std::string& folder) {
  const auto& rules = folder_rules();
  const auto found = std::find_if(rules.begin(), rules.end(),
                                  [&](const FolderRule& rule) { return rule.folder == folder; });
  return found == rules.end() ? nullptr : &*found;
}

std::string check_own_include(const SourceFile& file, const FolderRule& rule,
                              const std::string& target, const std::set<std::string>& paths) {
  const std::string folder = target.substr(0, target.find('/'));
  if (paths.count(target) == 0) return "\"" + target + "\" is no file of the tree";
  if (folder == rule.folder || contains(rule.may_include, folder)) return "";
  return file.folder() + "/ may not include " + folder + "/, only " + join(rule.may_include) +
         "; the type lives in the wrong folder";
}

std::string check_library_include(const SourceFile& file, const FolderRule& rule,
                                  const std::string& header) {
  for (const LibraryRule& library : library_rules()) {
    const bool known =
        std::any_of(library.headers.begin(), library.headers.end(),
                    [&](const std::string& prefix) { return starts_with(header, prefix); });
    if (!known) continue;
    if (!contains(rule.libraries, library.name)) {
      return rule.folder + "/ may not use " + library.name + ", only " + join(rule.libraries);
    }
    const bool allowed =
        library.files.empty() ||
        std::any_of(library.files.begin(), library.files.end(),
                    [&](const std::string& prefix) { return starts_with(file.path, prefix); });
    if (!allowed) return library.name + " is touched only by " + join(library.files);
    return "";
  }
  const bool standard =
      header.find('/') == std::string::npos && header.find('.') == std::string::npos;
  return standard ? "" : "<" + header + "> belongs to no library of tests/tidy/include_table.cpp";
}

struct Banned {
  std::regex pattern;
  const char* instead;
  const char* except;  // Folder in which it is allowed; empty: nowhere.
};

const std::vector<Banned>& banned_words() {
  static const std::vector<Banned> kWords = {
      {std::regex(R"(\busing\s+namespace\b)"), "using namespace: name what you use", ""},
      {std::regex(R"(\bstd::rand\b|\bsrand\s*\()"), "std::rand: take a seeded generator", ""},
      {std::regex(R"(\bstd::random_device\b)"),
       "std::random_device: a seed is an argument and is printed", ""},
      {std::regex(R"(\bsystem_clock\b)"), "system_clock: only exec/ knows the wall clock", "exec"},
      {std::regex(R"((^|[^.\w>])(std::|::)?_?exit\s*\()"), "exit(): return a code from main",
       "main"},
      {std::regex(R"(\bdouble\s+\w*_(bytes|seconds|flop)\b)"),
       "a bare double for a quantity: use Bytes, Seconds or Flop of model/units.h", ""},
      {std::regex(R"(^\s*#\s*pragma\s+once)"), "#pragma once: write the header guard", ""},
  };
  return kWords;
}

bool has_main(const SourceFile& file) {
  return std::any_of(file.code.begin(), file.code.end(),
                     [](const std::string& line) { return starts_with(line, "int main("); });
}

// The line that opens a function's body: flush left or two deep inside a class, as clang-format
// leaves it.
bool opens_function(const std::string& code, std::size_t indent) {
  static const std::regex kOther(
      R"(^\s*(namespace|class|struct|enum|union|extern|if|for|while|switch|do|else|try|return)\b)");
  if (indent != 0 && indent != 2) return false;
  const std::size_t end = code.find_last_not_of(' ');
  return end != std::string::npos && code[end] == '{' && code.find('(') != std::string::npos &&
         !std::regex_search(code, kOther);
}

}  // namespace

std::string to_text(const Complaint& complaint, const char* severity) {
  return complaint.path + ":" + std::to_string(complaint.line) + ": " + severity + ": " +
         complaint.message;
}

Complaints check_includes(const std::vector<SourceFile>& tree) {
  static const std::regex kInclude(R"(^#include ([<"])([^>"]+)[>"])");
  std::set<std::string> paths;
  for (const SourceFile& file : tree) paths.insert(file.path);
  Complaints complaints;
  for (const SourceFile& file : tree) {
    if (!file.is_cpp()) continue;
    const FolderRule* rule = rule_of(file.folder());
    if (rule == nullptr) {
      complaints.push_back({file.path, 1, "'" + file.folder() + "' is no folder of the design"});
      continue;
    }
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      std::smatch match;
      if (!std::regex_search(file.lines[i], match, kInclude)) continue;
      const std::string fault = match[1] == "\"" ? check_own_include(file, *rule, match[2], paths)
                                                 : check_library_include(file, *rule, match[2]);
      if (!fault.empty()) complaints.push_back({file.path, static_cast<int>(i) + 1, fault});
    }
  }
  return complaints;
}

Complaints check_line_length(const SourceFile& file) {
  Complaints complaints;
  if (!file.is_cpp()) return complaints;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const std::string& line = file.lines[i];
    const auto width = static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    }));
    if (width <= kColumns) continue;
    complaints.push_back(
        {file.path, static_cast<int>(i) + 1,
         "the line has " + std::to_string(width) + " characters, 100 are allowed"});
  }
  return complaints;
}

Complaints check_banned_words(const SourceFile& file) {
  Complaints complaints;
  if (!file.is_cpp()) return complaints;
  for (const Banned& banned : banned_words()) {
    const std::string except = banned.except;
    if (!except.empty() && (file.folder() == except || (except == "main" && has_main(file)))) {
      continue;
    }
    for (std::size_t i = 0; i < file.code.size(); ++i) {
      if (!std::regex_search(file.code[i], banned.pattern)) continue;
      complaints.push_back({file.path, static_cast<int>(i) + 1, banned.instead});
    }
  }
  return complaints;
}

Complaints check_header_guard(const SourceFile& file) {
  if (!file.is_cpp() || file.path.size() < 2 || file.path.substr(file.path.size() - 2) != ".h") {
    return {};
  }
  std::string guard = "MEGATWIN_";
  for (const char c : file.path) {
    const auto byte = static_cast<unsigned char>(c);
    guard += std::isalnum(byte) != 0 ? static_cast<char>(std::toupper(byte)) : '_';
  }
  guard += "_";
  if (contains(file.lines, "#ifndef " + guard) && contains(file.lines, "#define " + guard))
    return {};
  return {{file.path, 1, "the header guard should be " + guard}};
}

Complaints check_machine_paths(const SourceFile& file) {
  static const std::regex kPath(R"((^|[\s"'=:(])/(work|home|root|Users|mnt)/\w)");
  Complaints complaints;
  if (starts_with(file.path, "tests/tidy/")) return complaints;  // Its own examples.
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    if (!std::regex_search(file.lines[i], kPath)) continue;
    complaints.push_back({file.path, static_cast<int>(i) + 1,
                          "a path of one machine: make it relative or a setting"});
  }
  return complaints;
}

Complaints check_open_ends(const SourceFile& file) {
  static const std::regex kMark(R"(\b(TODO|FIXME|XXX|HACK)\b)");
  static const std::regex kWithIssue(R"(\bTODO\(#\d+\))");
  Complaints complaints;
  if (!file.is_cpp() || starts_with(file.path, "tests/tidy/")) return complaints;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const std::string& line = file.lines[i];
    if (!std::regex_search(line, kMark) || std::regex_search(line, kWithIssue)) continue;
    complaints.push_back(
        {file.path, static_cast<int>(i) + 1, "an open end without its issue: write TODO(#123)"});
  }
  return complaints;
}

Complaints check_length(const SourceFile& file) {
  Complaints complaints;
  if (!file.is_cpp()) return complaints;
  const int num_lines = static_cast<int>(file.lines.size());
  if (num_lines > kFileLines) {
    complaints.push_back({file.path, 1,
                          "the file has " + std::to_string(num_lines) +
                              " lines; past about 400 look for the second noun"});
  }
  for (int i = 0; i < num_lines; ++i) {
    const std::string& code = file.code[static_cast<std::size_t>(i)];
    const std::size_t indent = code.find_first_not_of(' ');
    if (indent == std::string::npos || !opens_function(code, indent)) continue;
    const std::string end = std::string(indent, ' ') + "}";
    int last = i + 1;
    while (last < num_lines && !starts_with(file.code[static_cast<std::size_t>(last)], end)) ++last;
    const int length = last - i + 1;
    if (length <= kFunctionLines) continue;
    complaints.push_back(
        {file.path, i + 1, "the function has " + std::to_string(length) + " lines, 70 are enough"});
  }
  return complaints;
}

}  // namespace megatwin::tidy
