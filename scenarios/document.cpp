#include "scenarios/document.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <system_error>

namespace megatwin::scenarios {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::size_t kSourceLineMax = 240;
constexpr std::size_t kQuotedMax = 60;

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

std::string_view line_of(std::string_view text, int line) {
  for (int current = 1; current < line; ++current) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

// A terminal must not obey what a file holds: control characters become spaces.
std::string printable(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  return result;
}

int characters_in(std::string_view text) {
  int count = 0;
  for (const char byte : text) count += is_continuation(byte) ? 0 : 1;
  return count;
}

// Length of the UTF-8 character at the start of `text`, or 0 when it is none. Refuses overlong
// forms, surrogates and code points above U+10FFFF (RFC 3629, section 4).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) -> std::uint32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(text[i])) return 0;
  }
  const std::uint32_t second = byte(1);
  if (first == 0xE0 && second < 0xA0) return 0;
  if (first == 0xED && second > 0x9F) return 0;
  if (first == 0xF0 && second < 0x90) return 0;
  if (first == 0xF4 && second > 0x8F) return 0;
  return length;
}

// Without a byte order mark, and with lines that end in a line feed alone.
std::string as_unix_writes(std::string_view text) {
  text = without_byte_order_mark(text);
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool ends_line = text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n';
    if (!ends_line) result += text[i];
  }
  return result;
}

model::Diagnostic file_problem(const std::string& file, std::string message) {
  return {.file = file, .message = std::move(message)};
}

}  // namespace

std::string_view without_byte_order_mark(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

const TreeNode* TreeNode::find(std::string_view key) const {
  for (const TreeEntry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

TreeNode* TreeNode::find(std::string_view key) {
  for (TreeEntry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

model::Diagnostic diagnostic_at(const std::vector<SourceText>& sources, Finding finding) {
  const Position& position = finding.position;
  model::Diagnostic diagnostic{.key = std::move(finding.key),
                               .message = std::move(finding.message),
                               .allowed = std::move(finding.allowed)};
  if (position.source < 0 || position.source >= static_cast<int>(sources.size())) return diagnostic;
  const SourceText& source = sources[static_cast<std::size_t>(position.source)];
  diagnostic.file = source.file;
  diagnostic.line = position.line;
  if (position.line <= 0) return diagnostic;
  const std::string_view line = line_of(source.text, position.line);
  const std::size_t before =
      static_cast<std::size_t>(position.column > 0 ? position.column - 1 : 0);
  diagnostic.column = characters_in(line.substr(0, before)) + 1;
  if (before >= line.size() || line.size() > kSourceLineMax) return diagnostic;
  diagnostic.length = characters_in(line.substr(before, static_cast<std::size_t>(position.length)));
  diagnostic.source_line = printable(line);
  return diagnostic;
}

namespace {

// /dev/zero, /dev/urandom and their like, also behind /dev/stdin. Of the memory devices of Linux
// (major number 1, admin-guide/devices.txt) only /dev/null (minor 3) ends; terminals do, too.
bool has_no_end(const struct stat& status) {
  constexpr unsigned kMemory = 1, kNull = 3;
  if (S_ISBLK(status.st_mode)) return true;
  return S_ISCHR(status.st_mode) && major(status.st_rdev) == kMemory &&
         minor(status.st_rdev) != kNull;
}

}  // namespace

std::optional<std::string> why_no_file(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) {
    return "cannot be opened: " + std::generic_category().message(errno);
  }
  if (S_ISDIR(status.st_mode)) return "is a directory, not a file";
  // A pipe to which nobody writes would be waited for forever; one of the shell's has its writer.
  if (!S_ISREG(status.st_mode) && !path.starts_with("/dev/")) {
    return std::string("is a ") + (S_ISFIFO(status.st_mode) ? "named pipe" : "device or a socket") +
           ", not a file";
  }
  if (has_no_end(status)) return "is a device, not a file";
  return std::nullopt;
}

model::Result<std::string> read_file(const std::string& path) {
  if (auto reason = why_no_file(path)) return model::fail(file_problem(path, *std::move(reason)));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (!file) {
    return model::fail(
        file_problem(path, "cannot be opened: " + std::generic_category().message(errno)));
  }
  std::string text;
  char buffer[1 << 16];
  while (const std::size_t count = std::fread(buffer, 1, sizeof buffer, file.get())) {
    text.append(buffer, count);
    if (text.size() > kFileSizeMax) break;
  }
  if (std::ferror(file.get()) != 0) {
    return model::fail(
        file_problem(path, "cannot be read: " + std::generic_category().message(errno)));
  }
  if (text.size() > kFileSizeMax) {
    return model::fail(file_problem(path, "is larger than 64 MiB, which no description needs"));
  }
  return as_unix_writes(text);
}

model::Diagnostics check_text(const std::string& file, std::string_view text) {
  if (text.size() > kFileSizeMax) {
    return {file_problem(file, "is larger than 64 MiB, which no description needs")};
  }
  int line = 1;
  std::size_t line_start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at));
    if (length == 0 || text[at] == '\0') {
      model::Diagnostic diagnostic =
          file_problem(file, text[at] == '\0' ? "is not a text file: it holds a NUL byte"
                                              : "is not a text file: these bytes are not UTF-8");
      diagnostic.line = line;
      diagnostic.column = characters_in(text.substr(line_start, at - line_start)) + 1;
      return {diagnostic};
    }
    if (text[at] == '\n') {
      ++line;
      line_start = at + 1;
    }
    at += length;
  }
  return {};
}

std::string quoted(std::string_view text) {
  std::size_t end = text.size();
  if (end > kQuotedMax) {
    end = kQuotedMax;
    while (end > 0 && is_continuation(text[end])) --end;
  }
  return "'" + printable(text.substr(0, end)) + (end < text.size() ? "…'" : "'");
}

}  // namespace megatwin::scenarios
