// A text file as a tree that remembers where everything stood: maps keep the order of their keys,
// every scalar is still text. YAML and JSON both become this, so that one set of readers and
// messages serves both. Plain data.
#ifndef MEGATWIN_SCENARIOS_DOCUMENT_H_
#define MEGATWIN_SCENARIOS_DOCUMENT_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/diagnostic.h"
#include "model/result.h"

namespace megatwin::scenarios {

// Where the text came from: a file, or "--set" on the command line, which has no lines.
struct SourceText {
  std::string file;
  std::string text;
};

struct Position {
  int source = 0;  // Index into Document::sources.
  int line = 0;    // From 1; 0 for the command line.
  int column = 0;  // From 1, in bytes.
  int length = 0;  // In bytes, for the underline.
};

enum class TreeKind { Null, Scalar, Sequence, Map };

struct TreeEntry;

struct TreeNode {
  TreeKind kind = TreeKind::Null;
  bool quoted = false;  // A scalar in quotes is text, whatever it looks like.
  std::string text;     // Of a scalar.
  Position position;
  std::vector<TreeNode> items;     // Of a sequence.
  std::vector<TreeEntry> entries;  // Of a map, in the file's order, no key twice.

  const TreeNode* find(std::string_view key) const;
  TreeNode* find(std::string_view key);
};

struct TreeEntry {
  std::string key;
  Position position;  // Of the key.
  TreeNode value;
};

struct Document {
  std::vector<SourceText> sources;
  TreeNode root;
};

// What to say about a place of a document.
struct Finding {
  Position position;
  std::string key;  // Dotted path; may be empty.
  std::string message;
  std::string allowed;
};

// With file, line, column in characters, and the text of the line.
model::Diagnostic diagnostic_at(const std::vector<SourceText>& sources, Finding finding);

// Why the file cannot be opened to be read from end to end: not there or not allowed (with the
// system's reason), a directory, or a pipe or a device, which might have no end. What the shell
// opened is taken for a file: /dev/stdin, /dev/fd/63; not where a device such as /dev/zero is
// behind it. Nothing when it can be opened.
std::optional<std::string> why_no_file(const std::string& path);

// The whole text, without a byte order mark, which some editors write and neither YAML nor JSON
// need (RFC 8259, section 8.1), and with "\n" for "\r\n". Errors: as why_no_file(); cannot be read;
// larger than `kFileSizeMax`.
model::Result<std::string> read_file(const std::string& path);

constexpr std::size_t kFileSizeMax = 64U << 20U;

std::string_view without_byte_order_mark(std::string_view text);

// Refuses what is no text: larger than kFileSizeMax, a NUL byte, or bytes that are not UTF-8.
// Empty when the text is sound.
model::Diagnostics check_text(const std::string& file, std::string_view text);

// At most a line's worth of `text` in quotes, never cut inside a character.
std::string quoted(std::string_view text);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_DOCUMENT_H_
